#include "kernel/index_score/index_score.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/cache_row.h"
#include "kernel/dots.h"
#include "kernel/isa.h"
#include "kernel/settle.h"

// An item is one row by ITEM entries, worked through in blocks of BLOCK keys.
enum { BLOCK = 64, ITEM = 1024 };

struct job {
    struct lf_index_score_args args;
    struct lf_pool *pool;
    uint32_t parts; // items a row
};

struct space {
    size_t stride;
    float *keys, *q, *z, *weight;
};

static struct space lay_out(const struct job *job, uint32_t row, uint32_t worker) {
    const struct lf_index_score_args *args = &job->args;
    size_t stride = (size_t)args->dim + 16, heads = args->heads;
    float *at = lf_pool_scratch(job->pool, worker, lf_index_score_scratch_bytes(args->heads,
                                                                                args->dim));
    struct space space = {.stride = stride, .keys = at};
    space.q = space.keys + BLOCK * stride;
    space.z = space.q + heads * stride;
    space.weight = space.z + heads * BLOCK;
    const uint16_t *q = args->q + row * heads * args->dim;
    for (size_t h = 0; h < heads; h++) {
        space.weight[h] = lf_bf16_to_f32(args->head_weight[row * heads + h]) * args->weight_scale;
#if LF_FAULT == 2 // 2: each head with the weight of the next
        space.weight[h] = lf_bf16_to_f32(args->head_weight[row * heads + (h + 1) % heads]) *
                          args->weight_scale;
#elif LF_FAULT == 3 // 3: the weights' scale left out
        space.weight[h] = lf_bf16_to_f32(args->head_weight[row * heads + h]);
#endif
        for (size_t d = 0; d < args->dim; d++)
            space.q[h * stride + d] = lf_bf16_to_f32(q[h * args->dim + d]);
    }
    return space;
}

// Keys first .. first+n-1; zeros up to BLOCK, so that every loop over keys has one length.
static void widen_block(const struct lf_index_score_args *args, uint32_t row, uint32_t first,
                        uint32_t n, const struct space *space) {
    const struct lf_paged *keys = &args->keys[args->row[row].lane];
    uint32_t row_bytes = lf_qf4e_row_bytes(args->dim);
#if LF_FAULT == 8
    keys = args->keys; // 8: the first lane's keys for every row
#endif
    for (uint32_t t = 0; t < n; t++) {
        const uint8_t *key = lf_paged_row(keys, first + t, row_bytes);
#if LF_FAULT == 4 // 4: the last key of a page read as the one before
        key -= (first + t) % LF_PAGE_ROWS == LF_PAGE_ROWS - 1 ? row_bytes : 0;
#endif
        lf_qf4e_widen(space->keys + t * space->stride, key, args->dim);
    }
    for (uint32_t t = n; t < BLOCK; t++)
        memset(space->keys + t * space->stride, 0, args->dim * sizeof(float));
}

static float rectify(float z) {
#if LF_FAULT == 1
    return z; // 1: no ReLU
#elif LF_FAULT == 6
    z = lf_bf16_to_f32(lf_bf16_settle(z)); // 6: dot products rounded to bf16
#elif LF_FAULT == 9
    return z > 0.0f ? z : 0.0f; // 9: the ReLU of a NaN is 0
#endif
    return z < 0.0f ? 0.0f : z;
}

static void score_item(void *ctx, uint32_t item, uint32_t worker) {
    const struct job *job = ctx;
    const struct lf_index_score_args *args = &job->args;
    uint32_t row = item / job->parts, from = item % job->parts * ITEM;
    uint32_t visible = args->visible[row];
    if (from >= visible)
        return;
    uint32_t end = visible - from < ITEM ? visible : from + ITEM;
    struct space space = lay_out(job, row, worker);
    struct lf_rows_f32 q = {space.q, space.stride}, keys = {space.keys, space.stride};
    float *score = args->score + row * args->score_stride;
    for (uint32_t first = from; first < end; first += BLOCK) {
        uint32_t n = end - first < BLOCK ? end - first : BLOCK;
        float total[BLOCK] = {0};
        widen_block(args, row, first, n, &space);
        lf_dots_block(space.z, BLOCK, q, args->heads, keys, BLOCK, args->dim);
        for (uint32_t h = 0; h < args->heads; h++) {
            const float *z = space.z + (size_t)h * BLOCK;
            for (int t = 0; t < BLOCK; t++)
                total[t] = fmaf(space.weight[h], rectify(z[t]), total[t]);
        }
#if LF_FAULT == 5 // 5: the last head left out
        for (int t = 0; t < BLOCK; t++)
            total[t] -= space.weight[args->heads - 1] *
                        rectify(space.z[(size_t)(args->heads - 1) * BLOCK + (size_t)t]);
#elif LF_FAULT == 7
        n = BLOCK; // 7: a block is stored in full whatever is visible
#elif LF_FAULT == 10
        n -= first + n == visible; // 10: the newest entry is not scored
#endif
        for (uint32_t t = 0; t < n; t++)
            score[first + t] = lf_f32_settle(total[t]);
    }
}

void LF_KERNEL_NAME(lf_index_score)(struct lf_pool *pool, const struct lf_index_score_args *args) {
    LF_ASSERT(args->dim % 32 == 0);
    uint32_t most = 0;
    for (uint32_t row = 0; row < args->rows; row++)
        most = args->visible[row] > most ? args->visible[row] : most;
    struct job job = {.args = *args, .pool = pool, .parts = (most + ITEM - 1) / ITEM};
    lf_pool_run(pool, args->rows * job.parts, score_item, &job);
}
