// Inside the engine of lanefold.h: started over any target (engine.md 1.1, 2, 6).
#pragma once
#include <stdint.h>
#include "base/error.h"
#include "lanefold.h"
#include "model/target.h"

// What an engine asks of the machine.
struct lf_machine {
    double (*now)(void *ctx); // seconds; NULL: the monotonic clock
    void *now_ctx;
    // Bytes that are free, below 0: missing. wanted: so many are enough. NULL: no limit (M-9).
    int64_t (*free_bytes)(void *ctx, uint64_t wanted);
    void *free_ctx;
};

// Takes the target over and closes it at the end; a refusal leaves it. machine NULL: all defaults.
LF_CHECKED enum lf_status lf_engine_start(struct lf_engine **out, struct lf_target *target,
                                          const struct lf_engine_options *options,
                                          const struct lf_machine *machine, struct lf_error *err);
