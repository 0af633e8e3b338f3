#include "kernel/table.h"

#include <string.h>

#ifdef __x86_64__
// The compiler's checks ask the processor and XGETBV: wide registers count only where saved.
static bool have_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool have_avx512(void) {
    return have_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

bool lf_isa_present(enum lf_isa isa) {
#if defined(__x86_64__)
    if (isa == LF_ISA_AVX2)
        return have_avx2();
    if (isa == LF_ISA_AVX512)
        return have_avx512();
#elif defined(__aarch64__)
    if (isa == LF_ISA_NEON)
        return true;
#endif
    return isa == LF_ISA_PORTABLE;
}

enum lf_isa lf_isa_best(void) {
    enum lf_isa best = LF_ISA_PORTABLE;
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++)
        best = lf_isa_present(isa) ? isa : best;
    return best;
}

const char *lf_isa_name(enum lf_isa isa) {
    static const char *const names[LF_ISAS] = {"auto", "portable", "avx2", "avx512", "neon"};
    return names[isa];
}

enum lf_status lf_isa_parse(enum lf_isa *out, const char *name, struct lf_error *err) {
    for (enum lf_isa isa = LF_ISA_AUTO; isa < LF_ISAS; isa++)
        if (!strcmp(name, lf_isa_name(isa))) {
            *out = isa;
            return LF_OK;
        }
    return lf_fail(err, LF_E_USAGE, "--isa %s: expected auto, portable, avx2, avx512 or neon",
                   name);
}

enum lf_status lf_kernels_init(struct lf_kernels *kernels, enum lf_isa isa, struct lf_error *err) {
    if (isa == LF_ISA_AUTO)
        isa = lf_isa_best();
    if (!lf_isa_present(isa))
        return lf_fail(err, LF_E_UNSUPPORTED, "--isa %s: this processor has no %s",
                       lf_isa_name(isa), lf_isa_name(isa));
    switch (isa) {
#define LF_KERNEL(name) kernels->name = lf_##name##_portable;
    default:
#include "kernel/registry.def"
        break;
#undef LF_KERNEL
#if defined(__x86_64__)
#define LF_KERNEL(name) kernels->name = lf_##name##_avx2;
    case LF_ISA_AVX2:
#include "kernel/registry.def"
        break;
#undef LF_KERNEL
#define LF_KERNEL(name) kernels->name = lf_##name##_avx512;
    case LF_ISA_AVX512:
#include "kernel/registry.def"
        break;
#undef LF_KERNEL
#elif defined(__aarch64__)
#define LF_KERNEL(name) kernels->name = lf_##name##_neon;
    case LF_ISA_NEON:
#include "kernel/registry.def"
        break;
#undef LF_KERNEL
#endif
    }
    return LF_OK;
}
