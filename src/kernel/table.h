// The kernel table: one function pointer a kernel, filled at start for the present instruction set.
#pragma once
#include <stdbool.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/act_quant/act_quant.h"
#include "kernel/attention/attention.h"
#include "kernel/cache_pack/cache_pack.h"
#include "kernel/compress_pool/compress_pool.h"
#include "kernel/draft_join/draft_join.h"
#include "kernel/embed/embed.h"
#include "kernel/engram_gate/engram_gate.h"
#include "kernel/engram_gather/engram_gather.h"
#include "kernel/expert_group/expert_group.h"
#include "kernel/hc_collapse/hc_collapse.h"
#include "kernel/hc_expand/hc_expand.h"
#include "kernel/hc_mix/hc_mix.h"
#include "kernel/index_score/index_score.h"
#include "kernel/index_select/index_select.h"
#include "kernel/linear/linear.h"
#include "kernel/logprobs/logprobs.h"
#include "kernel/ring_store/ring_store.h"
#include "kernel/rms_norm/rms_norm.h"
#include "kernel/rope/rope.h"
#include "kernel/router/router.h"
#include "kernel/row_gather/row_gather.h"
#include "kernel/sample/sample.h"
#include "kernel/stream_mean/stream_mean.h"
#include "kernel/swiglu/swiglu.h"

struct lf_kernels {
#define LF_KERNEL(name) void (*name)(struct lf_device *device, const struct lf_##name##_args *args);
#include "kernel/registry.def"
#undef LF_KERNEL
};

// Sets of this architecture, the widest last; a build for one architecture lacks the other's.
enum lf_isa {
    LF_ISA_AUTO,
    LF_ISA_PORTABLE,
    LF_ISA_AVX2,
    LF_ISA_AVX512,
    LF_ISA_NEON,
    LF_ISAS
};

// Fills the table; AUTO takes the widest set this processor has. Refuses a set it lacks.
LF_CHECKED enum lf_status lf_kernels_init(struct lf_kernels *kernels, enum lf_isa isa,
                                          struct lf_error *err);
const char *lf_isa_name(enum lf_isa isa);
// "auto", "portable", "avx2", "avx512", "neon"; else LF_E_USAGE with the accepted names.
LF_CHECKED enum lf_status lf_isa_parse(enum lf_isa *out, const char *name, struct lf_error *err);
// What AUTO takes on this processor.
enum lf_isa lf_isa_best(void);
// Whether this build has a set and the processor and the system's saved registers support it.
bool lf_isa_present(enum lf_isa isa);
