#include "kernel/logprobs/logprobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"

struct candidate {
    double logit;
    uint32_t id;
};

static int by_order(const void *left, const void *right) {
    const struct candidate *a = left, *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

// Candidates of a row, sorted; 0 where there is no distribution.
static size_t gather(const float *logits, uint32_t vocab, struct candidate *out) {
    size_t n = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        if (isnan(logits[id]) || (isinf(logits[id]) && logits[id] > 0))
            return 0;
        if (!isinf(logits[id]))
            out[n++] = (struct candidate){(double)logits[id], id};
    }
    qsort(out, n, sizeof *out, by_order);
    return n;
}

// out [rows][LF_LOGPROBS_F64_COLUMNS], by a full sort and the library's functions.
void lf_logprobs_f64(const struct lf_logprobs_args *args, double *out) {
    struct candidate *c = calloc(args->vocab, sizeof *c);
    LF_ASSERT(c || args->vocab == 0);
    for (size_t r = 0; r < args->rows; r++) {
        const float *logits = args->logits + r * args->logits_stride;
        double *row = out + r * LF_LOGPROBS_F64_COLUMNS, sum = 0;
        size_t n = gather(logits, args->vocab, c);
        memset(row, 0, LF_LOGPROBS_F64_COLUMNS * sizeof *row);
        row[0] = (double)NAN;
        if (!n)
            continue;
        for (size_t i = n; i-- > 0;)
            sum += exp(c[i].logit - c[0].logit);
        for (size_t i = 0; i < n && i < args->top; i++) {
            row[2 + i] = c[i].id;
            row[2 + LF_LOGPROBS_MAX + i] = (c[i].logit - c[0].logit) - log(sum);
            row[1] = (double)(i + 1);
        }
        if (args->drawn[r] < args->vocab)
            row[0] = ((double)logits[args->drawn[r]] - c[0].logit) - log(sum);
    }
    free(c);
}
