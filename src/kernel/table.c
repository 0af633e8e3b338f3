#include "kernel/table.h"

#include <string.h>

enum lf_isa lf_isa_best(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return LF_ISA_AVX2;
#endif
    return LF_ISA_PORTABLE;
}

const char *lf_isa_name(enum lf_isa isa) {
    static const char *const names[] = {"auto", "portable", "avx2"};
    return names[isa];
}

enum lf_status lf_isa_parse(enum lf_isa *out, const char *name, struct lf_error *err) {
    for (enum lf_isa isa = LF_ISA_AUTO; isa <= LF_ISA_AVX2; isa++)
        if (!strcmp(name, lf_isa_name(isa))) {
            *out = isa;
            return LF_OK;
        }
    return lf_fail(err, LF_E_USAGE, "--isa %s: expected auto, portable or avx2", name);
}

enum lf_status lf_kernels_init(struct lf_kernels *kernels, enum lf_isa isa, struct lf_error *err) {
    enum lf_isa best = lf_isa_best();
    if (isa == LF_ISA_AUTO)
        isa = best;
    if (isa > best)
        return lf_fail(err, LF_E_UNSUPPORTED, "--isa %s: this processor has no %s",
                       lf_isa_name(isa), lf_isa_name(isa));
#define LF_KERNEL(name) kernels->name = lf_##name##_portable;
#include "kernel/registry.def"
#undef LF_KERNEL
#ifdef __x86_64__
    if (isa == LF_ISA_AVX2) {
#define LF_KERNEL(name) kernels->name = lf_##name##_avx2;
#include "kernel/registry.def"
#undef LF_KERNEL
    }
#endif
    return LF_OK;
}
