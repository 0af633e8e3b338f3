#include "kernel/engram_gather/engram_gather.h"

#include "base/number.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/settle.h"

enum { GROUP = 32 };

// An e4m3 code's seven low bits in float32's places are value * 2^-120; 0x7F is the only NaN.
static void widen_group(uint16_t *restrict y, const uint8_t *restrict code, float scale) {
    for (uint32_t j = 0; j < GROUP; j++) {
        uint32_t low = code[j] & 0x7Fu, sign = code[j] & 0x80u;
        float magnitude = lf_f32_from_bits(low << 20) * 0x1p120f * scale;
        uint32_t bits = low == 0x7Fu ? 0x7FC00000u : lf_f32_bits(magnitude);
        y[j] = lf_bf16_settle(lf_f32_from_bits(bits | sign << 24));
    }
}

static void gather_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_engram_gather_args *a = ctx;
    const uint64_t *number = a->number + (size_t)row * a->columns;
    uint16_t *y = a->y + (size_t)row * a->columns * a->dim;
    uint32_t groups = a->dim / GROUP;
    (void)worker;
    for (uint32_t column = 0; column < a->columns; column++) {
        const uint8_t *value = a->value + number[column] * a->dim;
        const uint8_t *scale = a->scale + number[column] * groups;
        for (uint32_t g = 0; g < groups; g++)
            widen_group(y + (size_t)column * a->dim + (size_t)g * GROUP, value + (size_t)g * GROUP,
                        lf_ue8m0_to_f32(scale[g]));
    }
}

void LF_KERNEL_NAME(lf_engram_gather)(struct lf_pool *pool,
                                      const struct lf_engram_gather_args *args) {
    LF_ASSERT(args->dim % GROUP == 0);
    lf_pool_run(pool, args->rows, gather_row, (void *)args);
}
