// attention's own sums on CUDA: how far off they may be, and their bits.
#include <stdlib.h>
#include <string.h>
#include "kernel/attention/attention_contract.h"
#include "kernel/attention/attention_steps.h"
#include "kernel/reference.h"

static bool is_apart(const void *args) {
    (void)args;
    return true;
}

static void bound(const void *args, const double *ref, double *error) {
    lf_attention_bounds(args, true, ref, error);
}

static const struct lf_attention_args *args_of(const struct lf_call *call) {
    return &((const struct attention_shape *)(const void *)call->args)->args;
}

static void expect_head(struct lf_call *call, uint32_t row, uint32_t head, const uint16_t *o) {
    const struct lf_attention_args *a = args_of(call);
    for (uint32_t d = 0; d < a->head_dim; d++)
        lf_expect_bits(call, O, row, (size_t)head * a->head_dim + d, o[d],
                       "the contract's steps in integers");
}

static void expect(struct lf_call *call) {
    const struct lf_attention_args *a = args_of(call);
    float *sum = malloc(a->head_dim * (sizeof *sum + 2 * sizeof(uint16_t)));
    LF_ASSERT(sum);
    uint16_t *q = (uint16_t *)(sum + a->head_dim), *o = q + a->head_dim;
    for (uint32_t row = 0; row < a->rows; row++) {
        struct lf_attention_steps steps = lf_attention_steps(a, row);
        for (uint32_t head = 0; head < a->heads; head++) {
            size_t at = ((size_t)row * a->heads + head) * a->head_dim;
            float sink = (float)lf_ref_f32(a->sink, head);
            memcpy(q, a->q + at, a->head_dim * sizeof *q);
            lf_attention_step_head(a, &steps, q, sink, sum, o);
            expect_head(call, row, head, o);
        }
        free(steps.key);
    }
    free(sum);
}

const struct lf_own_sums lf_attention_cuda_sums = {is_apart, bound, expect};
