#include "kernel/cache_pack/cache_pack.h"

#include <math.h>
#include "base/error.h"
#include "base/quant.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/quant_round.h"
#include "kernel/rms_norm/norm_row.h"
#include "kernel/rope/turn.h"

enum { ROWS_A_TASK = 16 };

// Each quantizes one group to one code a byte and returns the scale byte.
static uint8_t codes_qa8(const uint16_t *x, uint8_t *codes) {
    uint32_t byte = lf_qa8_scale(x);
#if LF_FAULT == 51
    byte -= byte > 100; // 51: the QA8 scale rounded down
#endif
#if LF_FAULT != 59
    if (byte == 255) // 59: a NaN counts as 0
        return lf_qa8_group(x, codes);
#else
    byte = byte == 255 ? 0 : byte;
#endif
    for (uint32_t i = 0; i < LF_QA8_GROUP; i++) {
        float scaled = lf_bf16_to_f32(x[i]) * lf_unscale(byte);
#if LF_FAULT == 52
        scaled = lf_f32_from_bits(lf_f32_bits(scaled) & 0xFFF00000u); // 52: codes truncated
#endif
        codes[i] = lf_e4m3_code(lf_e4m3_round(scaled));
    }
    return (uint8_t)byte;
}

static uint8_t codes_qf4e(const uint16_t *x, uint8_t *codes) {
    uint32_t byte = lf_qf4e_scale(x);
#if LF_FAULT == 53
    byte = lf_scale_byte(lf_group_max(x, LF_QF4E_GROUP), 6.0f * 0x1p-126f, 1.0f / 4.0f); // 53
#endif
    if (byte == 255)
        return lf_qf4e_group(x, codes);
    for (uint32_t i = 0; i < LF_QF4E_GROUP; i++)
        codes[i] = lf_e2m1_code(lf_e2m1_round(lf_bf16_to_f32(x[i]) * lf_unscale(byte)));
    return (uint8_t)byte;
}

static uint8_t codes_qf4s(const uint16_t *x, uint8_t *codes) {
    uint32_t seen = LF_QF4S_GROUP;
#if LF_FAULT == 55
    seen--; // 55: the maximum over 15 of 16 values
#endif
    float a = lf_group_max(x, seen), floor = 6.0f * 0x1p-9f;
    if (!isfinite(a))
        return lf_qf4s_group(x, codes);
    float scale = lf_e4m3_round((a < floor ? floor : a) / 6.0f);
    float divisor = scale;
#if LF_FAULT == 54
    divisor = (a < floor ? floor : a) / 6.0f; // 54: values divided by the scale before rounding
#endif
    for (uint32_t i = 0; i < LF_QF4S_GROUP; i++)
        codes[i] = lf_e2m1_code(lf_e2m1_round(lf_bf16_to_f32(x[i]) / divisor));
    return lf_e4m3_code(scale);
}

static void pack_pairs(const uint8_t *codes, uint32_t n, uint8_t *dst) {
    for (uint32_t i = 0; i < n; i += 2)
#if LF_FAULT == 56
        dst[i / 2] = (uint8_t)(codes[i + 1] | codes[i] << 4); // 56: the pair's codes swapped
#else
        dst[i / 2] = (uint8_t)(codes[i] | codes[i + 1] << 4);
#endif
}

static void pack_row(enum lf_cache_format format, const uint16_t *x, uint32_t dim, uint8_t *dst) {
    uint8_t codes[32];
    uint8_t *scale = dst + (format == LF_CACHE_QA8 ? dim : dim / 2);
    uint32_t group = format == LF_CACHE_QF4S ? LF_QF4S_GROUP : LF_QF4E_GROUP;
    for (uint32_t k = 0; k < dim; k += group) {
        if (format == LF_CACHE_QA8) {
            *scale++ = codes_qa8(x + k, dst + k);
            continue;
        }
        *scale++ = format == LF_CACHE_QF4S ? codes_qf4s(x + k, codes) : codes_qf4e(x + k, codes);
        pack_pairs(codes, group, dst + k / 2);
    }
#if LF_FAULT == 58
    *scale = 0; // 58: a scale past the row is written
#endif
}

static void turn_row(const struct lf_cache_pack_args *args, uint32_t r) {
    uint32_t pairs = args->rope_dim / 2;
    uint16_t *x = args->x + (size_t)r * args->dim + (args->dim - args->rope_dim);
    size_t at = (size_t)r * pairs;
#if LF_FAULT == 72
    at = r == 5 ? 0 : at; // 72: the row at place 5 is turned as the first
#endif
#if LF_FAULT != 71 // 71: rows are not turned
    lf_turn(x, pairs, args->cos + at, args->sin + at, 1.0f);
#endif
}

// What is packed.
static void make_row(const struct lf_cache_pack_args *args, uint32_t r) {
    struct lf_rms_norm_args norm = lf_cache_pack_norm(args);
#if LF_FAULT == 70
    norm.w = NULL; // 70: rows are not normed
#elif LF_FAULT == 73
    turn_row(args, r); // 73: turned before the norm
#endif
    if (norm.w)
        lf_norm_row(&norm, r);
#if LF_FAULT != 73
    turn_row(args, r);
#endif
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct lf_cache_pack_args *args = ctx;
    for (uint32_t r = i * ROWS_A_TASK; r < args->rows && r < (i + 1) * ROWS_A_TASK; r++) {
        uint32_t to = r;
#if LF_FAULT == 57
        to = r - (r > 0); // 57: rows past the first one place early
#endif
        make_row(args, r);
        pack_row(args->format, args->x + (size_t)r * args->dim, args->dim, args->dst[to]);
    }
}

void LF_KERNEL_NAME(lf_cache_pack)(struct lf_device *device,
                                   const struct lf_cache_pack_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % 32 == 0);
    struct lf_cache_pack_args copy = *args;
    lf_pool_run(device->pool, (args->rows + ROWS_A_TASK - 1) / ROWS_A_TASK, run_task, &copy);
}
