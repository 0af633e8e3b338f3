#include "kernel/sample/sample.h"

#include <math.h>
#include <stdlib.h>
#include "base/error.h"

struct candidate {
    double logit, x;
    uint32_t id;
};

static int by_order(const void *left, const void *right) {
    const struct candidate *a = left, *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

// Philox4x32-10 of S-1 on plain arrays, then S-2 and S-3 with the library's logarithm.
static double gumbel(uint64_t seed, uint64_t position, uint32_t id) {
    uint64_t c[4] = {id, position & UINT32_MAX, position >> 32, 0};
    uint64_t k[2] = {seed & UINT32_MAX, seed >> 32};
    for (int round = 0; round < 10; round++) {
        uint64_t low = 0xD2511F53u * c[0], high = 0xCD9E8D57u * c[2];
        uint64_t next[4] = {high >> 32 ^ c[1] ^ k[0], high & UINT32_MAX,
                            low >> 32 ^ c[3] ^ k[1], low & UINT32_MAX};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k[0] = (k[0] + 0x9E3779B9u) & UINT32_MAX;
        k[1] = (k[1] + 0xBB67AE85u) & UINT32_MAX;
    }
    double u = ldexp((double)((c[1] << 32 | c[0]) >> 12) + 0.5, -52);
    return -log(-log(u));
}

// Sorted candidates of a row; 0 where the row is not usable.
static size_t gather(const struct lf_sample_args *args, size_t row, struct candidate *out) {
    const float *logits = args->logits + row * args->logits_stride;
    const uint32_t *mask = args->row[row].mask;
    size_t n = 0;
    for (uint32_t id = 0; id < args->vocab; id++) {
        if (isnan(logits[id]) || (isinf(logits[id]) && logits[id] > 0))
            return 0;
        if (isinf(logits[id]) || (mask && !(mask[id / 32] & (uint32_t)1 << id % 32)))
            continue;
        out[n].logit = (double)logits[id];
        out[n].x = out[n].logit / args->row[row].rule->temperature;
        out[n++].id = id;
    }
    qsort(out, n, sizeof *out, by_order);
    return n;
}

// Equal infinities, of a temperature too small for float64, count as equal.
static uint64_t mass(const struct candidate *c, const struct candidate *first) {
    double below = c->x == first->x ? 0.0 : c->x - first->x;
    return (uint64_t)floor(ldexp(exp(below), 40));
}

static size_t keep_nucleus(const struct candidate *c, size_t n, double top_p) {
    unsigned __int128 total = 0, before = 0;
    for (size_t i = 0; i < n; i++)
        total += mass(&c[i], &c[0]);
    uint64_t share = (uint64_t)floor(top_p * 4294967296.0 + 0.5);
    unsigned __int128 need = (total * share + UINT32_MAX) / ((uint64_t)1 << 32);
    if (need == 0)
        need = 1;
    size_t kept = 0;
    while (kept < n && before < need)
        before += mass(&c[kept++], &c[0]);
    return kept;
}

static size_t filter(const struct candidate *c, size_t n, const struct lf_sampling *rule) {
    if (rule->top_k > 0 && (uint64_t)rule->top_k < n)
        n = (size_t)rule->top_k;
    if (rule->top_p < 1)
        n = keep_nucleus(c, n, rule->top_p);
    while (rule->min_p > 0 && n > 1 && c[n - 1].x < c[0].x + log(rule->min_p))
        n--;
    return n;
}

// out [rows][2]: the drawn id and how many candidates were left, by a full sort; LF_SAMPLE_NONE.
void lf_sample_f64(const struct lf_sample_args *args, double *out) {
    struct candidate *c = calloc(args->vocab, sizeof *c);
    LF_ASSERT(c || args->vocab == 0);
    for (size_t row = 0; row < args->rows; row++) {
        const struct lf_sample_row *r = &args->row[row];
        size_t n = gather(args, row, c), kept = 0, best = 0;
        if (n && r->rule->temperature > 0) {
            kept = filter(c, n, r->rule);
            double lead = -INFINITY;
            for (size_t i = 0; i < kept; i++) {
                double score = c[i].x + gumbel(r->rule->seed, r->position, c[i].id);
                if (score > lead) {
                    lead = score;
                    best = i;
                }
            }
        }
        out[2 * row] = n ? (double)c[best].id : (double)LF_SAMPLE_NONE;
        out[2 * row + 1] = (double)kept;
    }
    free(c);
}
