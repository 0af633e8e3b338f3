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
#if LF_FAULT == 4
        bits = lf_f32_bits(magnitude); // 4: the NaN code counts as 480
#elif LF_FAULT == 6
        bits = low < 8 ? 0 : bits; // 6: subnormal codes become 0
#elif LF_FAULT == 8
        sign = low ? sign : 0; // 8: the sign of a zero is lost
#elif LF_FAULT == 11
        bits &= 0xFFFF0000u; // 11: truncated
#endif
        y[j] = lf_bf16_settle(lf_f32_from_bits(bits | sign << 24));
    }
}

static float scale_at(const uint8_t *scale, uint32_t g, uint32_t groups) {
#if LF_FAULT == 2
    g = (g + 1) % groups; // 2: the scale of the neighbour block
#elif LF_FAULT == 5
    if (scale[g] == 255)
        return lf_f32_from_bits(0x7F800000u); // 5: scale 255 counts as infinity
#elif LF_FAULT == 7
    if (!scale[g])
        return 0; // 7: scale 0 counts as 0
#endif
    (void)groups;
    return lf_ue8m0_to_f32(scale[g]);
}

static void gather_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_engram_gather_args *a = ctx;
    const uint64_t *number = a->number + (size_t)row * a->columns;
    uint16_t *y = a->y + (size_t)row * a->columns * a->dim;
    uint32_t groups = a->dim / GROUP;
    (void)worker;
    uint32_t columns = a->columns;
#if LF_FAULT == 3
    columns--; // 3: the last column is not copied
#elif LF_FAULT == 9
    number -= row == 5 ? columns : 0; // 9: the neighbour's numbers
#elif LF_FAULT == 10
    y[(size_t)columns * a->dim] = 0; // 10: a write past the last column
#endif
    for (uint32_t column = 0; column < columns; column++) {
        uint64_t from = number[column];
#if LF_FAULT == 1
        from -= from == 1020; // 1: the last row of a table of 1,021 clamped
#endif
        const uint8_t *value = a->value + from * a->dim;
        const uint8_t *scale = a->scale + from * groups;
        for (uint32_t g = 0; g < groups; g++)
            widen_group(y + (size_t)column * a->dim + (size_t)g * GROUP, value + (size_t)g * GROUP,
                        scale_at(scale, g, groups));
    }
}

void LF_KERNEL_NAME(lf_engram_gather)(struct lf_device *device,
                                      const struct lf_engram_gather_args *args) {
    LF_ASSERT(args->dim % GROUP == 0);
    lf_pool_run(device->pool, args->rows, gather_row, (void *)args);
}
