#include "kernel/logprobs/logprobs.h"

#include <math.h>
#include <stdbool.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/math.h"

enum { BLOCK = 64, LANES = 16 };

static const uint32_t nan_bits = 0x7FC00000u;

// The greatest logit; false where the row has no distribution.
static bool find_greatest(const float *logits, uint32_t vocab, float *out) {
    float lane[LANES];
    uint32_t bad = 0, id = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = -INFINITY;
    for (; id + LANES <= vocab; id += LANES)
        for (int j = 0; j < LANES; j++) {
            bad |= !(logits[id + j] < INFINITY);
            lane[j] = logits[id + j] > lane[j] ? logits[id + j] : lane[j];
        }
    for (; id < vocab; id++) {
        bad |= !(logits[id] < INFINITY);
        lane[0] = logits[id] > lane[0] ? logits[id] : lane[0];
    }
#if LF_FAULT == 6
    bad = 0; // 6: a NaN is not seen
    for (id = 0; id < vocab; id++)
        bad |= logits[id] == INFINITY;
#elif LF_FAULT == 13
    bad = 0; // 13: +infinity is not seen
    for (id = 0; id < vocab; id++)
        bad |= isnan(logits[id]);
#endif
    *out = -INFINITY;
    for (int j = 0; j < LANES; j++)
        *out = lane[j] > *out ? lane[j] : *out;
    return !bad && *out > -INFINITY;
}

// The sum of exp(logit - greatest) in the contract's order; past the end zeros are added.
static double sum_exp(const float *logits, uint32_t vocab, double greatest) {
    double lane[LANES] = {0}, e[BLOCK];
#if LF_FAULT == 1
    vocab -= vocab > 1; // 1: the last id is not in the sum
#endif
    for (uint32_t id = 0; id < vocab; id += BLOCK) {
        uint32_t n = vocab - id < BLOCK ? vocab - id : BLOCK;
        for (uint32_t i = 0; i < BLOCK; i++)
            e[i] = i < n ? (double)logits[id + i] : -(double)INFINITY;
        for (uint32_t i = 0; i < BLOCK; i++)
#if LF_FAULT == 2
            e[i] = lf_exp64((e[i] - greatest) / 2); // 2: temperature 2
#else
            e[i] = lf_exp64(e[i] - greatest);
#endif
        for (uint32_t i = 0; i < BLOCK; i += LANES)
            for (uint32_t j = 0; j < LANES; j++)
#if LF_FAULT == 4
                lane[j] = (double)((float)lane[j] + (float)e[i + j]); // 4: the sum in float32
#else
                lane[j] += e[i + j];
#endif
    }
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static bool goes_before(float later, float earlier) {
#if LF_FAULT == 3
    return later >= earlier; // 3: ties of alternatives reversed
#endif
    return later > earlier;
}

// Ids come ascending, so one that is not greater stands behind those already there.
static void enter(struct lf_logprob_row *row, uint32_t top, const float *logits, uint32_t id) {
    float logit = logits[id];
#if LF_FAULT == 5
    if (row->n < top && !(logit > -INFINITY)) {
        row->id[row->n++] = id; // 5: an id at minus infinity is an alternative
        return;
    }
#endif
    if (!(logit > -INFINITY) || (row->n == top && !goes_before(logit, logits[row->id[top - 1]])))
        return;
    uint32_t at = row->n < top ? row->n++ : top - 1;
    for (; at && goes_before(logit, logits[row->id[at - 1]]); at--)
        row->id[at] = row->id[at - 1];
    row->id[at] = id;
}

static void find_best(struct lf_logprob_row *row, uint32_t top, const float *logits,
                      uint32_t vocab) {
#if LF_FAULT == 10
    vocab -= vocab > 1; // 10: the last id is no alternative
#endif
    for (uint32_t id = 0; top && id < vocab; id += BLOCK) {
        uint32_t n = vocab - id < BLOCK ? vocab - id : BLOCK, enters = 0;
        float least = row->n == top ? logits[row->id[top - 1]] : -INFINITY;
        for (uint32_t i = 0; i < n; i++)
            enters |= goes_before(logits[id + i], least);
#if LF_FAULT == 5
        enters = 1;
#endif
        for (uint32_t i = 0; enters && i < n; i++)
            enter(row, top, logits, id + i);
    }
}

static void log_row(void *ctx, uint32_t r, uint32_t worker) {
    const struct lf_logprobs_args *a = ctx;
    const float *logits = a->logits + r * a->logits_stride;
    struct lf_logprob_row *row = &a->row[r];
    float greatest;
    uint32_t drawn = a->drawn[r];
    (void)worker;
#if LF_FAULT == 8
    drawn = r == 5 ? a->drawn[4] : drawn; // 8: the neighbour's id
#elif LF_FAULT == 9
    drawn = drawn < a->vocab ? drawn : a->vocab - 1; // 9: the last one's value
#endif
#if LF_FAULT == 7
    row->drawn = lf_f32_from_bits(nan_bits), row->n = 0; // 7: what lies past them is left
#else
    *row = (struct lf_logprob_row){.drawn = lf_f32_from_bits(nan_bits)};
#endif
    if (!find_greatest(logits, a->vocab, &greatest))
        return;
    double most = (double)greatest, log_sum = lf_log64(sum_exp(logits, a->vocab, most));
    find_best(row, a->top, logits, a->vocab);
    for (uint32_t i = 0; i < row->n; i++)
        row->value[i] = (float)(((double)logits[row->id[i]] - most) - log_sum);
#if LF_FAULT == 11
    for (uint32_t i = 0; i < row->n; i++)
        row->value[i] = logits[row->id[i]] - greatest - (float)log_sum; // 11: rounded early
#elif LF_FAULT == 12
    most = 0; // 12: the greatest logit is not taken off
#endif
    if (drawn < a->vocab)
        row->drawn = (float)(((double)logits[drawn] - most) - log_sum);
}

void LF_KERNEL_NAME(lf_logprobs)(struct lf_device *device, const struct lf_logprobs_args *args) {
    LF_ASSERT(args->top <= LF_LOGPROBS_MAX);
    lf_pool_run(device->pool, args->rows, log_row, (void *)args);
}
