#include "kernel/rope/rope.h"

#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/rope/turn.h"

static void rotate_row(void *ctx, uint32_t row, uint32_t worker) {
    (void)worker;
    const struct lf_rope_args *args = ctx;
    uint32_t pairs = args->rope_dim / 2;
    uint16_t *x = args->x + row * args->x_stride + (args->head_dim - args->rope_dim);
    const float *cos = args->cos + (size_t)row * pairs, *sin = args->sin + (size_t)row * pairs;
    uint32_t heads = args->heads;
#if LF_FAULT == 3
    heads--; // 3: the last head is not turned
#elif LF_FAULT == 4
    x = args->x + row * args->x_stride; // 4: the first elements of a head are turned
#elif LF_FAULT == 5
    if (row == 5) // 5: the row at place 5 is turned as the first
        cos = args->cos, sin = args->sin;
#endif
#if LF_FAULT == 2
    if (args->inverse) // 2: the inverse call leaves x as it is
        return;
#endif
    for (uint32_t head = 0; head < heads; head++)
        lf_turn(x + (size_t)head * args->head_dim, pairs, cos, sin, args->inverse ? -1.0f : 1.0f);
}

void LF_KERNEL_NAME(lf_rope)(struct lf_device *device, const struct lf_rope_args *args) {
    struct lf_rope_args copy = *args;
    lf_pool_run(device->pool, args->rows, rotate_row, &copy);
}
