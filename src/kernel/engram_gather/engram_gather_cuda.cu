#include "kernel/engram_gather/engram_gather.h"

#include "base/number.h"
#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256, GROUP = 32 };

// An e4m3 code's seven low bits in float32's places are value * 2^-120; 0x7F is the only NaN.
__device__ static uint16_t widen(uint32_t code, float scale) {
    uint32_t low = code & 0x7Fu, sign = code & 0x80u;
    LF_CONTROL(8, sign = low ? sign : 0;) // 8: the sign of a zero is lost
    float magnitude = lf_f32_from_bits(low << 20) * 0x1p120f * scale;
    uint32_t bits = low == 0x7Fu ? 0x7FC00000u : lf_f32_bits(magnitude);
    LF_CONTROL(4, bits = lf_f32_bits(magnitude);) // 4: the NaN code counts as 480
    LF_CONTROL(6, bits = low < 8 ? 0 : bits;) // 6: subnormal codes become 0
    LF_CONTROL(11, return (uint16_t)((bits | sign << 24) >> 16);) // 11: products truncated to bf16
    return lf_bf16_settle(lf_f32_from_bits(bits | sign << 24));
}

__global__ static void engram_gather_elements(struct lf_engram_gather_args a) {
    lf_take_turn();
    uint64_t at = lf_thread(), pair = at / a.dim;
    if (pair >= (uint64_t)a.rows * a.columns)
        return;
    uint32_t d = (uint32_t)(at % a.dim);
    uint64_t row = a.number[pair];
    LF_CONTROL(1, row -= row == 1020;)
    LF_CONTROL(9, if (pair / a.columns == 5) row = a.number[pair - a.columns];)
    LF_CONTROL(3, if (d + 1 == a.dim && pair % a.columns + 1 == a.columns) return;)
    uint8_t scale = a.scale[row * (a.dim / GROUP) + d / GROUP];
    LF_CONTROL(2, scale = a.scale[row * (a.dim / GROUP) + (d / GROUP + 1) % (a.dim / GROUP)];)
    float factor = lf_ue8m0_to_f32(scale);
    LF_CONTROL(5, factor = scale == 255 ? INFINITY : factor;) // 5: scale 255 counts as infinity
    LF_CONTROL(7, factor = scale ? factor : 0;) // 7: scale 0 counts as 0
    a.y[at] = widen(a.value[row * a.dim + d], factor);
    LF_CONTROL(10, a.y[(uint64_t)a.rows * a.columns * a.dim] = 0;)
}

void lf_engram_gather_cuda(struct lf_device *device, const struct lf_engram_gather_args *args) {
    LF_ASSERT(args->dim % GROUP == 0);
    uint32_t blocks = lf_blocks((uint64_t)args->rows * args->columns * args->dim, THREADS);
    lf_cuda_launch(device, "engram_gather", engram_gather_elements, dim3(blocks), THREADS, *args);
}
