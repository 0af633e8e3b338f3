#include "kernel/index_select/index_select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
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

// inside[b] for blocks b of the row's list.
static void mark_blocks(const struct lf_index_select_args *args, uint32_t row, char *inside) {
    memset(inside, 0, args->visible[row] / args->block_size + 1);
    for (uint32_t i = 0; i < args->n_blocks[row]; i++)
        inside[args->blocks[(size_t)row * args->topk_blocks + i]] = 1;
}

// The score a row's entry competes with; rows that list everything read none.
static double score_at(const struct lf_index_select_args *args, uint32_t row, uint32_t entry) {
    return (double)args->score[row * args->score_stride + entry];
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

static uint32_t gather_entries(const struct lf_index_select_args *args, uint32_t row,
                               struct item *items, char *inside) {
    uint32_t visible = args->visible[row], n = 0;
    int restricted = args->mode == LF_CANDIDATES_RESTRICT && visible > args->topk;
    if (restricted)
        mark_blocks(args, row, inside);
    for (uint32_t i = 0; i < visible; i++)
        if (!restricted || inside[i / args->block_size])
            items[n++] = (struct item){
                .score = visible > args->topk ? score_at(args, row, i) : 0.0, .id = i};
    return n;
}

// out [rows][topk + topk_blocks]: the selected entries, then PUBLISH's blocks, -1 where none is.
void lf_index_select_f64(const struct lf_index_select_args *args, double *out) {
    uint32_t most = 1;
    for (uint32_t row = 0; row < args->rows; row++)
        most = args->visible[row] > most ? args->visible[row] : most;
    struct item *items = malloc(most * sizeof *items);
    char *inside = malloc((size_t)most + 1);
    LF_ASSERT(items != NULL && inside != NULL);
    for (uint32_t row = 0; row < args->rows; row++, out += args->topk + args->topk_blocks) {
        uint32_t n = gather_entries(args, row, items, inside);
        put_best(items, n, args->topk, args->topk, out);
        n = args->mode == LF_CANDIDATES_PUBLISH ? gather_blocks(args, row, items) : 0;
        put_best(items, n, args->topk_blocks, args->topk_blocks, out + args->topk);
    }
    free(items);
    free(inside);
}
