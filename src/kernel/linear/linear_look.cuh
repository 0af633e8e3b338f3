// Looks at all of a matrix once, when it has come: whether struct lf_matrix may call it regular.
#pragma once
#include "kernel/launch.cuh"
#include "kernel/linear/linear_regular.h"

enum { LOOK_THREADS = 256, LOOK_BYTES = 64, LOOK_BLOCKS = 1024 }; // LOOK_BYTES: a thread's, or more

struct look {
    enum lf_weight_format format;
    const uint8_t *data, *scale;
    uint64_t codes, scales;
    uint32_t *is_odd;
};

__global__ static void __launch_bounds__(LOOK_THREADS)
linear_look(const __grid_constant__ struct look l) {
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    bool is_odd = false;
    lf_take_turn();
    for (uint64_t i = lf_thread(); i < l.codes; i += step)
        is_odd |= lf_code_is_odd(l.data[i]);
    for (uint64_t i = lf_thread(); i < l.scales; i += step)
        is_odd |= lf_scale_is_odd(l.format, l.scale[i]);
    if (is_odd)
        *l.is_odd = 1;
}
