#include "kernel/rope/rope.h"

#include "kernel/rope/turn.cuh"

enum { THREADS = 256 };

// A thread a pair of one head.
__global__ static void rope_pairs(struct lf_rope_args a) {
    lf_take_turn();
    uint32_t pairs = a.rope_dim / 2, at = blockIdx.y * THREADS + threadIdx.x;
    if (at >= a.heads * pairs)
        return;
    uint32_t head = at / pairs, i = at % pairs;
    size_t row = blockIdx.x;
    uint16_t *x = a.x + row * a.x_stride + (size_t)head * a.head_dim + (a.head_dim - a.rope_dim);
    uint16_t *even = x + 2 * i, *odd = x + 2 * i + 1;
    LF_CONTROL(61, even = x + i; odd = x + pairs + i;) // 61: rotation in halves
    LF_CONTROL(2, if (a.inverse) return;) // 2: the inverse leaves x as it is
    LF_CONTROL(3, if (head + 1 == a.heads) return;) // 3: the last head is not turned
    LF_CONTROL(4, even -= a.head_dim - a.rope_dim; odd -= a.head_dim - a.rope_dim;)
    LF_CONTROL(5, row = row == 5 ? 0 : row;) // 5: the row at place 5 is turned as the first
    float c = a.cos[row * pairs + i], s = a.sin[row * pairs + i];
    lf_turn_pair(even, odd, c, a.inverse ? -s : s);
}

void lf_rope_cuda(struct lf_device *device, const struct lf_rope_args *args) {
    dim3 grid(args->rows, lf_blocks((uint64_t)args->heads * (args->rope_dim / 2), THREADS));
    lf_cuda_launch(device, "rope", rope_pairs, grid, THREADS, *args);
}
