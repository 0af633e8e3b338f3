// Layers of a loaded model, timed one by one at a position deep in a context.
#pragma once
#include "bench/kernel_times.h"
#include "bench/options.h"
#include "model/v41.h"

struct lf_layer_sample {
    double seconds;
    double read, peak; // of the machine beside it: bytes/s, operations/s
    struct lf_kernel_time kernel[LF_TIMED_KERNELS];
};

struct lf_layer_measure {
    const struct lf_bench_options *o;
    struct lf_v41 *m;
    const uint32_t *layer; // [n] the model's layers to run, ascending
    uint32_t n;
    struct lf_layer_sample *chunk;  // [n] the medians
    struct lf_layer_sample *decode; // [n + 1] the last: embedding and head
};

// Fills slot 0 up to the context, then runs chunks and tokens that end there.
LF_CHECKED enum lf_status lf_layer_measure_run(const struct lf_layer_measure *measure,
                                               struct lf_error *err);
