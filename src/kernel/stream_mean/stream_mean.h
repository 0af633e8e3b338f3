// stream_mean: its arguments and its contract (model.md 11.2).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_STREAM_MEAN_CONTRACT                                                                    \
    "y = bf((X_0 + X_1 + ...) / streams), float32, ascending, IEEE division (model.md 11.2). "     \
    "Error before bf: g(streams) sum|X_i| / streams. NaN has one pattern."

struct lf_stream_mean_args {
    uint32_t rows, streams, dim;
    const uint16_t *x; // bf16 [rows][streams][dim]
    uint16_t *y;       // bf16 [rows][dim]
};

LF_DECLARE_KERNEL(stream_mean);
