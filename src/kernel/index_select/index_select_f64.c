#include "kernel/index_select/index_select.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/error.h"

struct item {
    double score;
    uint32_t id;
};

static int by_rank(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (isnan(x->score) != isnan(y->score))
        return isnan(x->score) ? 1 : -1;
    if (x->score != y->score && !isnan(x->score))
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

// The first k of a full sort, ascending by id, then -1 up to width.
static void put_best(struct item *items, uint32_t n, uint32_t k, uint32_t width, double *out) {
    k = k < n ? k : n;
    qsort(items, n, sizeof *items, by_rank);
    qsort(items, k, sizeof *items, by_id);
    for (uint32_t i = 0; i < width; i++)
        out[i] = i < k ? (double)items[i].id : -1.0;
}

static double score_at(const struct lf_index_select_args *args, uint32_t row, uint32_t item) {
    return (double)args->score[row * args->score_stride + item];
}

static uint32_t gather_blocks(const struct lf_index_select_args *args, uint32_t row,
                              struct item *items) {
    uint32_t visible = args->visible[row], n = 0;
    for (uint32_t from = 0; from < visible; from += args->block_size, n++) {
        items[n] = (struct item){.score = (double)NAN, .id = n};
        if (visible <= args->topk)
            continue;
        for (uint32_t i = from; i < visible && i < from + args->block_size; i++)
            items[n].score = fmax(items[n].score, score_at(args, row, i));
    }
    if (n)
        items[n - 1].score = (double)INFINITY;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (items[i].score == (double)INFINITY)
            items[i].score = 0x1p1000;
    return n;
}

// Rows that list everything read no score.
static uint32_t gather_entries(const struct lf_index_select_args *args, uint32_t row,
                               struct item *items) {
    uint32_t visible = args->visible[row], n = 0;
    bool all = args->mode != LF_CANDIDATES_RESTRICT || visible <= args->topk;
    for (; all && n < visible; n++)
        items[n] = (struct item){.score = visible > args->topk ? score_at(args, row, n) : 0.0,
                                 .id = n};
    for (uint32_t i = 0; !all && i < args->n_blocks[row]; i++)
        for (uint32_t j = 0; j < args->block_size; j++) {
            uint32_t id = args->blocks[(size_t)row * args->topk_blocks + i] * args->block_size + j;
            if (id < visible) {
                items[n] = (struct item){.score = score_at(args, row, n), .id = id};
                n++;
            }
        }
    return n;
}

// out [rows][topk + topk_blocks]: the selected entries, then PUBLISH's blocks, -1 where none is.
void lf_index_select_f64(const struct lf_index_select_args *args, double *out) {
    uint32_t most = 1;
    for (uint32_t row = 0; row < args->rows; row++)
        most = args->visible[row] > most ? args->visible[row] : most;
    struct item *items = malloc(most * sizeof *items);
    LF_ASSERT(items != NULL);
    for (uint32_t row = 0; row < args->rows; row++, out += args->topk + args->topk_blocks) {
        uint32_t n = gather_entries(args, row, items);
        put_best(items, n, args->topk, args->topk, out);
        n = args->mode == LF_CANDIDATES_PUBLISH ? gather_blocks(args, row, items) : 0;
        put_best(items, n, args->topk_blocks, args->topk_blocks, out + args->topk);
    }
    free(items);
}
