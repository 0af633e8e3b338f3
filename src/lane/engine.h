// Inside the engine of lanefold.h: started over any target (engine.md 1.1, 2, 6).
#pragma once
#include <stdint.h>
#include "base/error.h"
#include "lanefold.h"
#include "model/target.h"

// Where an engine reads its time, in seconds.
struct lf_time_source {
    double (*now)(void *ctx);
    void *ctx;
};

// Takes the target over and closes it at the end; a refusal leaves it. time NULL: monotonic.
LF_CHECKED enum lf_status lf_engine_start(struct lf_engine **out, struct lf_target *target,
                                          const struct lf_engine_options *options,
                                          const struct lf_time_source *time, struct lf_error *err);
