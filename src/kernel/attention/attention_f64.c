#include "kernel/attention/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "kernel/reference.h"

static double e2m1(int code) {
    static const double magnitude[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}

// Key t of row r's list, counted from the oldest window row; returns the length of the list.
static uint64_t read_key(const struct lf_attention_args *args, uint32_t r, uint64_t t,
                         double *key) {
    const struct lf_row *row = &args->row[r];
    const struct lf_span *span = &args->span[row->lane];
    uint64_t last = args->whole_span ? span->pos0 + span->rows - 1 : row->position;
    uint64_t anchor = args->whole_span ? span->pos0 : row->position + 1;
    uint64_t first = anchor < args->window ? 0 : anchor - args->window;
    uint64_t window = last - first + 1, dim = args->head_dim;
    uint64_t n = window + (args->entries ? args->n_selected[r] : 0);
    if (t >= n)
        return n;
    if (t < window) {
        uint64_t p = first + t;
        const uint8_t *at = p >= span->pos0
                                ? args->call_keys + (span->first + p - span->pos0) * (dim / 32 * 33)
                                : args->ring[row->lane] + p % args->ring_rows * (dim / 32 * 33);
        for (uint64_t d = 0; d < dim; d++)
            key[d] = lf_ref_e4m3(at[d]) * lf_ref_ue8m0(at[dim + d / 32]);
        return n;
    }
    uint64_t j = args->selected[(uint64_t)r * args->topk + (t - window)];
    const uint8_t *at = args->entries[row->lane].page[j / 128] + j % 128 * (dim / 16 * 9);
    for (uint64_t d = 0; d < dim; d++)
        key[d] = e2m1(at[d / 2] >> (d % 2 * 4) & 15) * lf_ref_e4m3(at[dim / 2 + d / 16]);
    return n;
}

static double dot(const uint16_t *q, const double *key, uint32_t dim) {
    double sum = 0.0;
    for (uint32_t d = 0; d < dim; d++)
        sum += lf_ref_bf16(q, d) * key[d];
    return sum;
}

static void attend(const struct lf_attention_args *args, uint32_t r, uint32_t head, double *key,
                   double *out) {
    uint32_t dim = args->head_dim;
    const uint16_t *q = args->q + ((size_t)r * args->heads + head) * dim;
    uint64_t n = read_key(args, r, UINT64_MAX, key);
    double m = -HUGE_VAL, total;
    for (uint64_t t = 0; t < n; t++) {
        read_key(args, r, t, key);
        double z = dot(q, key, dim) * (double)args->scale;
        m = z > m || isnan(z) ? z : m;
    }
    total = exp(lf_ref_f32(args->sink, head) - m);
    memset(out, 0, dim * sizeof *out);
    for (uint64_t t = 0; t < n; t++) {
        read_key(args, r, t, key);
        double p = exp(dot(q, key, dim) * (double)args->scale - m);
        total += p;
        for (uint32_t d = 0; d < dim; d++)
            out[d] += p * key[d];
    }
    for (uint32_t d = 0; d < dim; d++)
        out[d] /= total;
}

// out [rows][heads][head_dim]
void lf_attention_f64(const struct lf_attention_args *args, double *out) {
    double *key = malloc(args->head_dim * sizeof *key);
    LF_ASSERT(key != NULL);
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t head = 0; head < args->heads; head++, out += args->head_dim)
            attend(args, r, head, key, out);
    free(key);
}
