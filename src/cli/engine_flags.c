#include "cli/engine_flags.h"

struct lf_engine_options lf_engine_flags_single(const struct lf_engine_flags *flags) {
    return (struct lf_engine_options){.isa = flags->isa, .threads = (uint32_t)flags->threads,
                                      .parallel = 1, .context = flags->context};
}
