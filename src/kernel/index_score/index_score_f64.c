#include "kernel/index_score/index_score.h"

#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "kernel/reference.h"

// A packed key: two e2m1 codes a byte, then one power of two for 32 elements.
static void read_key(const uint8_t *key, uint32_t dim, double *out) {
    static const double magnitude[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    double scale = 0.0;
    for (uint32_t d = 0; d < dim; d++) {
        int code = key[d / 2] >> (d % 2 * 4) & 15;
        if (d % 32 == 0)
            scale = lf_ref_ue8m0(key[dim / 2 + d / 32]);
        out[d] = magnitude[code & 7] * (code & 8 ? -scale : scale);
    }
}

// The visible entries of a row's blocks, or all of them, ascending; returns how many.
static uint32_t list_entries(const struct lf_index_score_args *args, uint32_t row,
                             uint32_t *entry) {
    const struct lf_candidates *c = &args->candidates;
    uint32_t n = 0;
    if (!c->blocks)
        for (; n < args->visible[row]; n++)
            entry[n] = n;
    for (uint32_t i = 0; c->blocks && i < c->n_blocks[row]; i++)
        for (uint32_t j = 0; j < c->block_size; j++) {
            uint32_t at = c->blocks[(size_t)row * c->topk_blocks + i] * c->block_size + j;
            if (at < args->visible[row])
                entry[n++] = at;
        }
    return n;
}

// out [rows][score_stride], by item
void lf_index_score_f64(const struct lf_index_score_args *args, double *out) {
    uint32_t dim = args->dim, key_bytes = dim / 2 + dim / 32;
    double *key = malloc(dim * sizeof *key);
    uint32_t *entry = malloc((args->score_stride + 1) * sizeof *entry);
    LF_ASSERT(key != NULL && entry != NULL);
    for (uint32_t row = 0; row < args->rows; row++, out += args->score_stride) {
        uint32_t n = list_entries(args, row, entry);
        for (uint32_t s = 0; s < n; s++) {
            uint8_t *page = args->keys[args->row[row].lane].page[entry[s] / 128];
            read_key(page + entry[s] % 128 * key_bytes, dim, key);
            out[s] = 0.0;
            for (uint32_t h = 0; h < args->heads; h++) {
                size_t at = (size_t)row * args->heads + h;
                double sum = 0.0;
                for (uint32_t d = 0; d < dim; d++)
                    sum += lf_ref_bf16(args->q, at * dim + d) * key[d];
                sum = sum < 0.0 ? 0.0 : sum;
                out[s] += lf_ref_bf16(args->head_weight, at) * (double)args->weight_scale * sum;
            }
        }
    }
    free(entry);
    free(key);
}
