#include "kernel/cache_pack/cache_pack.h"

#include <math.h>
#include "base/error.h"
#include "base/quant.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/quant_round.h"

enum { ROWS_A_TASK = 16 };

// Each quantizes one group to one code a byte and returns the scale byte.
static uint8_t codes_qa8(const uint16_t *x, uint8_t *codes) {
    uint32_t byte = lf_qa8_scale(x);
    if (byte == 255)
        return lf_qa8_group(x, codes);
    for (uint32_t i = 0; i < LF_QA8_GROUP; i++)
        codes[i] = lf_e4m3_code(lf_e4m3_round(lf_bf16_to_f32(x[i]) * lf_unscale(byte)));
    return (uint8_t)byte;
}

static uint8_t codes_qf4e(const uint16_t *x, uint8_t *codes) {
    uint32_t byte = lf_qf4e_scale(x);
    if (byte == 255)
        return lf_qf4e_group(x, codes);
    for (uint32_t i = 0; i < LF_QF4E_GROUP; i++)
        codes[i] = lf_e2m1_code(lf_e2m1_round(lf_bf16_to_f32(x[i]) * lf_unscale(byte)));
    return (uint8_t)byte;
}

static uint8_t codes_qf4s(const uint16_t *x, uint8_t *codes) {
    float a = lf_group_max(x, LF_QF4S_GROUP), floor = 6.0f * 0x1p-9f;
    if (!isfinite(a))
        return lf_qf4s_group(x, codes);
    float scale = lf_e4m3_round((a < floor ? floor : a) / 6.0f);
    for (uint32_t i = 0; i < LF_QF4S_GROUP; i++)
        codes[i] = lf_e2m1_code(lf_e2m1_round(lf_bf16_to_f32(x[i]) / scale));
    return lf_e4m3_code(scale);
}

static void pack_pairs(const uint8_t *codes, uint32_t n, uint8_t *dst) {
    for (uint32_t i = 0; i < n; i += 2)
        dst[i / 2] = (uint8_t)(codes[i] | codes[i + 1] << 4);
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
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct lf_cache_pack_args *args = ctx;
    for (uint32_t r = i * ROWS_A_TASK; r < args->rows && r < (i + 1) * ROWS_A_TASK; r++)
        pack_row(args->format, args->x + (size_t)r * args->dim, args->dim, args->dst[r]);
}

void LF_KERNEL_NAME(lf_cache_pack)(struct lf_pool *pool, const struct lf_cache_pack_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % 32 == 0);
    struct lf_cache_pack_args copy = *args;
    lf_pool_run(pool, (args->rows + ROWS_A_TASK - 1) / ROWS_A_TASK, run_task, &copy);
}
