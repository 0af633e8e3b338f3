// generation_config.json: sampling defaults that a checkpoint may ship (engine.md S-15).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

// Absent fields keep the built-in defaults: temperature 1, top_p 1, top_k and min_p off.
struct lf_generation {
    double temperature, top_p, min_p;
    int64_t top_k;
};

// An absent file is fine; a present one must be a JSON object whose known fields are in range.
LF_CHECKED enum lf_status lf_generation_read(struct lf_generation *out, const char *folder,
                                             struct lf_error *err);
