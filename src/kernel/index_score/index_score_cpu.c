#include "kernel/index_score/index_score.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/cache_row.h"
#include "kernel/isa.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"
#if defined(__AVX2__) || defined(LF_NEON)
#define LF_INDEX_CODES 1
#include "kernel/index_score/index_codes.h"
#endif

// An item is up to ROWS rows by ITEM entries, worked through in blocks of BLOCK keys.
enum { BLOCK = 64, ITEM = 1024, ROWS = LF_INDEX_SCORE_ROWS };

struct job {
    struct lf_index_score_args args;
    struct lf_pool *pool;
    uint32_t parts; // items of a group of rows
};

struct space {
    const struct lf_index_score_args *args;
    const uint8_t *row[BLOCK]; // the packed keys of the block; the last repeats
    bool widened;              // keys holds them
    float *keys, *query, *z;   // [BLOCK][dim], [dim], [2][BLOCK]
    float *weight;             // [ROWS][heads]
#ifdef LF_INDEX_CODES
    uint32_t spread_max, *dword;
    struct code_keys codes;
    struct code_query *queries; // [ROWS][heads]
#endif
};

static void lay_out(struct space *space, const struct job *job, uint32_t worker) {
    const struct lf_index_score_args *args = &job->args;
    size_t dim = args->dim;
    uint8_t *at = lf_pool_scratch(job->pool, worker, lf_index_score_scratch_bytes(args->heads,
                                                                                  args->dim));
    space->args = args;
#ifdef LF_INDEX_CODES
    size_t groups = dim / CODES_GROUP, queries = (size_t)ROWS * args->heads;
    space->queries = (struct code_query *)(void *)at;
    at += queries * sizeof *space->queries;
#endif
    space->keys = (float *)(void *)at;
    space->query = space->keys + BLOCK * dim;
    space->z = space->query + dim;
    space->weight = space->z + 2 * BLOCK;
#ifdef LF_INDEX_CODES
    space->spread_max = codes_spread_max(args->dim);
    space->codes.unit = space->weight + queries;
    float *units = space->codes.unit + groups * BLOCK;
    uint32_t *starts = (uint32_t *)(void *)(units + queries * groups);
    space->dword = starts + queries * groups;
    space->codes.step = (uint8_t *)(space->dword + dim / 8 * BLOCK);
    int8_t *steps = (int8_t *)(space->codes.step + dim * BLOCK);
    for (size_t i = 0; i < queries; i++)
        space->queries[i] = (struct code_query){.step = steps + i * dim, .unit = units + i * groups,
                                                .start = starts + i * groups};
#endif
}

// Weights and queries of row `row`, the i-th of the item.
static void read_row(struct space *space, uint32_t row, uint32_t i) {
    const struct lf_index_score_args *args = space->args;
    size_t heads = args->heads;
    for (size_t h = 0; h < heads; h++) {
        float *weight = &space->weight[i * heads + h];
        *weight = lf_bf16_to_f32(args->head_weight[row * heads + h]) * args->weight_scale;
#if LF_FAULT == 2 // 2: each head with the weight of the next
        *weight = lf_bf16_to_f32(args->head_weight[row * heads + (h + 1) % heads]) *
                  args->weight_scale;
#elif LF_FAULT == 3 // 3: the weights' scale left out
        *weight = lf_bf16_to_f32(args->head_weight[row * heads + h]);
#endif
#ifdef LF_INDEX_CODES
        codes_query(&space->queries[i * heads + h], args->q + (row * heads + h) * args->dim,
                    args->dim);
#endif
    }
}

// What a row scores.
static struct lf_items items_of(const struct lf_index_score_args *args, uint32_t row) {
#if LF_FAULT == 13
    return (struct lf_items){.n = args->visible[row]}; // 13: a row's blocks ignored
#endif
    return lf_items_of(&args->candidates, row, args->visible[row]);
}

// Keys of items first .. first+n-1 of a lane.
static void read_block(struct space *space, uint32_t lane, const struct lf_items *items,
                       uint32_t first, uint32_t n) {
    const struct lf_index_score_args *args = space->args;
    uint32_t row_bytes = lf_qf4e_row_bytes(args->dim);
#if LF_FAULT == 8
    lane = 0; // 8: the first lane's keys for every row
#endif
    for (uint32_t t = 0; t < BLOCK; t++) {
        uint32_t entry = lf_item_entry(items, first + (t < n ? t : n - 1));
        space->row[t] = lf_paged_row(&args->keys[lane], entry, row_bytes);
        // Blocks lie anywhere: the processor does not see the next ones coming.
        if (items->blocks && first + BLOCK + t < items->n)
            __builtin_prefetch(lf_paged_row(&args->keys[lane],
                                            lf_item_entry(items, first + BLOCK + t), row_bytes));
#if LF_FAULT == 4 // 4: the last key of a page read as the one before
        space->row[t] -= entry % LF_PAGE_ROWS == LF_PAGE_ROWS - 1 ? row_bytes : 0;
#endif
    }
    space->widened = false;
#ifdef LF_INDEX_CODES
    codes_block(&space->codes, space->row, args->dim, space->dword);
#endif
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

// One head by the definition.
static void dots_plain(struct space *space, const uint16_t *q) {
    uint32_t dim = space->args->dim;
    for (uint32_t t = 0; t < BLOCK && !space->widened; t++)
        lf_qf4e_widen(space->keys + t * dim, space->row[t], dim);
    space->widened = true;
    for (uint32_t d = 0; d < dim; d++)
        space->query[d] = lf_bf16_to_f32(q[d]);
    for (uint32_t t = 0; t < BLOCK; t++)
        space->z[t] = lf_dot16(space->query, space->keys + t * dim, dim);
}

// Dot products of the block with head h of row `row`, the i-th, and with as many more as returned.
static uint32_t dots(struct space *space, uint32_t row, uint32_t i, uint32_t h) {
    const struct lf_index_score_args *args = space->args;
#ifdef LF_INDEX_CODES
    const struct code_query *q = &space->queries[(size_t)i * args->heads + h];
    uint32_t room = space->spread_max - space->codes.spread, fit = 0;
    while (space->codes.spread <= space->spread_max && fit < 2 && h + fit < args->heads &&
           q[fit].spread <= room)
        fit++;
    if (fit) {
        codes_dots(fit, space->z, q, &space->codes, args->dim);
        return fit;
    }
#else
    (void)i;
#endif
    dots_plain(space, args->q + ((size_t)row * args->heads + h) * args->dim);
    return 1;
}

static void score_block(struct space *space, uint32_t row, uint32_t i, uint32_t first, uint32_t n) {
    const struct lf_index_score_args *args = space->args;
    const float *weight = space->weight + (size_t)i * args->heads;
    float total[BLOCK] = {0}, *score = args->score + row * args->score_stride + first;
    uint32_t heads = args->heads;
#if LF_FAULT == 5
    heads -= heads > 1; // 5: the last head left out
#endif
    for (uint32_t h = 0, did; h < heads; h += did) {
        did = dots(space, row, i, h);
        for (uint32_t j = 0; j < did && h + j < heads; j++)
            for (uint32_t t = 0; t < BLOCK; t++)
                total[t] = fmaf(weight[h + j], rectify(space->z[j * BLOCK + t]), total[t]);
    }
#if LF_FAULT == 7
    n = BLOCK; // 7: a block is stored in full whatever is visible
#elif LF_FAULT == 10
    n -= first + n == items_of(args, row).n; // 10: the newest entry is not scored
#endif
    for (uint32_t t = 0; t < n; t++)
        score[t] = lf_f32_settle(total[t]);
}

// Rows first_row .. first_row+rows-1, which share keys, by items from .. from+ITEM-1.
static void score_rows(struct space *space, uint32_t first_row, uint32_t rows, uint32_t from) {
    const struct lf_index_score_args *args = space->args;
    struct lf_items items[ROWS];
    uint32_t most = 0;
    for (uint32_t i = 0; i < rows; i++) {
        items[i] = items_of(args, first_row + i);
        most = items[i].n > most ? items[i].n : most;
        if (items[i].n > from)
            read_row(space, first_row + i, i);
    }
    uint32_t end = most > from && most - from > ITEM ? from + ITEM : most;
    for (uint32_t first = from; first < end; first += BLOCK) {
        read_block(space, args->row[first_row].lane, &items[0], first,
                   end - first < BLOCK ? end - first : BLOCK);
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t stop = items[i].n < end ? items[i].n : end;
            if (stop > first)
                score_block(space, first_row + i, i, first,
                            stop - first < BLOCK ? stop - first : BLOCK);
        }
    }
}

// Rows of one lane share keys, but a row whose items are not all entries reads its own.
static uint32_t rows_that_share(const struct lf_index_score_args *args, uint32_t row,
                                uint32_t end) {
    uint32_t first = row, lane = args->row[row].lane;
    if (items_of(args, row++).blocks)
        return 1;
    while (row < end && args->row[row].lane == lane && !items_of(args, row).blocks)
        row++;
    return row - first;
}

static void score_item(void *ctx, uint32_t item, uint32_t worker) {
    const struct job *job = ctx;
    const struct lf_index_score_args *args = &job->args;
    uint32_t row = item / job->parts * ROWS, from = item % job->parts * ITEM;
    uint32_t end = args->rows - row < ROWS ? args->rows : row + ROWS;
    struct space space;
    lay_out(&space, job, worker);
    for (uint32_t run; row < end; row += run) {
        run = rows_that_share(args, row, end);
        score_rows(&space, row, run, from);
    }
}

void LF_KERNEL_NAME(lf_index_score)(struct lf_device *device,
                                    const struct lf_index_score_args *args) {
    LF_ASSERT(args->dim % 32 == 0);
    uint32_t most = 0, groups = (args->rows + ROWS - 1) / ROWS;
    for (uint32_t row = 0; row < args->rows; row++) {
        uint32_t items = items_of(args, row).n;
        most = items > most ? items : most;
    }
    struct job job = {.args = *args, .pool = device->pool, .parts = (most + ITEM - 1) / ITEM};
    lf_pool_run(device->pool, groups * job.parts, score_item, &job);
}
