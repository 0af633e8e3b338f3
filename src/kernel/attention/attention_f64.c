#include "kernel/attention/attention_f64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "kernel/reference.h"

static double e2m1(int code) {
    static const double magnitude[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}

static void read_window_key(const struct lf_attention_args *args, uint32_t lane, uint64_t p,
                            double *key) {
    const struct lf_span *span = &args->span[lane];
    uint64_t dim = args->head_dim, bytes = dim / 32 * 33;
    const uint8_t *at = p >= span->pos0 ? args->call_keys + (span->first + p - span->pos0) * bytes
                                        : args->ring[lane] + p % args->ring_rows * bytes;
    for (uint64_t d = 0; d < dim; d++)
        key[d] = lf_ref_e4m3(at[d]) * lf_ref_ue8m0(at[dim + d / 32]);
}

static void read_entry(const struct lf_attention_args *args, uint32_t lane, uint64_t j,
                       double *key) {
    uint64_t dim = args->head_dim;
    const uint8_t *at = args->entries[lane].page[j / 128] + j % 128 * (dim / 16 * 9);
    for (uint64_t d = 0; d < dim; d++)
        key[d] = e2m1(at[d / 2] >> (d % 2 * 4) & 15) * lf_ref_e4m3(at[dim / 2 + d / 16]);
}

struct attention_list lf_attention_f64_list(const struct lf_attention_args *args, uint32_t row) {
    uint32_t lane = args->row[row].lane, dim = args->head_dim;
    const struct lf_span *span = &args->span[lane];
    uint64_t last = args->whole_span ? span->pos0 + span->rows - 1 : args->row[row].position;
    uint64_t anchor = args->whole_span ? span->pos0 : last + 1;
    uint64_t first = anchor < args->window ? 0 : anchor - args->window;
    uint32_t window = (uint32_t)(last - first + 1), selected = 0;
    if (args->entries)
        selected = args->n_selected[row];
    struct attention_list list = {.n = window + selected};
    list.key = malloc((size_t)list.n * dim * sizeof *list.key);
    LF_ASSERT(list.key != NULL);
    for (uint32_t t = 0; t < window; t++)
        read_window_key(args, lane, first + t, list.key + (size_t)t * dim);
    for (uint32_t t = 0; t < selected; t++)
        read_entry(args, lane, args->selected[(size_t)row * args->topk + t],
                   list.key + (size_t)(window + t) * dim);
    return list;
}

static double dot(const double *q, const double *key, uint32_t dim) {
    double sum = 0.0;
    for (uint32_t d = 0; d < dim; d++)
        sum += q[d] * key[d];
    return sum;
}

// z and q are room for the head's scores and query.
static void attend(const struct lf_attention_args *args, uint32_t row, uint32_t head,
                   struct attention_list list, double *z, double *q, double *out) {
    uint32_t dim = args->head_dim;
    double m = -HUGE_VAL, total;
    for (uint32_t d = 0; d < dim; d++)
        q[d] = lf_ref_bf16(args->q, ((size_t)row * args->heads + head) * dim + d);
    for (uint32_t t = 0; t < list.n; t++) {
        z[t] = dot(q, list.key + (size_t)t * dim, dim) * (double)args->scale;
        m = z[t] > m || isnan(z[t]) ? z[t] : m;
    }
    total = exp(lf_ref_f32(args->sink, head) - m);
    memset(out, 0, dim * sizeof *out);
    for (uint32_t t = 0; t < list.n; t++) {
        double p = exp(z[t] - m);
        total += p;
        for (uint32_t d = 0; d < dim; d++)
            out[d] += p * list.key[(size_t)t * dim + d];
    }
    for (uint32_t d = 0; d < dim; d++)
        out[d] /= total;
}

// out [rows][heads][head_dim]
void lf_attention_f64(const struct lf_attention_args *args, double *out) {
    for (uint32_t row = 0; row < args->rows; row++) {
        struct attention_list list = lf_attention_f64_list(args, row);
        double *z = malloc((list.n + args->head_dim) * sizeof *z);
        LF_ASSERT(z != NULL);
        for (uint32_t head = 0; head < args->heads; head++, out += args->head_dim)
            attend(args, row, head, list, z, z + list.n, out);
        free(list.key);
        free(z);
    }
}
