// Done once with a matrix that has come: whether it is regular is found, and MXFP4 is turned.
#pragma once
#include "kernel/launch.cuh"
#include "kernel/linear/linear_regular.h"
#include "kernel/linear/linear_turn.h"

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

struct turn {
    uint32_t *word;
    uint64_t words;
};

__global__ static void __launch_bounds__(LOOK_THREADS)
linear_turn(const __grid_constant__ struct turn t) {
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    lf_take_turn();
    for (uint64_t i = lf_thread(); i < t.words; i += step)
        t.word[i] = lf_mxfp4_turned(t.word[i]);
}
