// attention on CUDA in its contract's order (LF_ATTENTION_CUDA_CONTRACT), for who judges it.
#pragma once
#include <stdlib.h>
#include "base/error.h"
#include "kernel/attention/attention_f64.h"
#include "kernel/linear/mma_step.h"
#include "kernel/math.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"

enum { LF_ATTENTION_STEP = 16, LF_ATTENTION_BLOCK = 64 };

// A row's list as bf16: key after key, and element after element with zeros up to a whole block.
struct lf_attention_steps {
    uint32_t n, padded;
    uint16_t *key, *element; // [n][head_dim], [head_dim][padded]
};

// The caller frees key.
static inline struct lf_attention_steps lf_attention_steps(const struct lf_attention_args *a,
                                                           uint32_t row) {
    struct attention_list list = lf_attention_f64_list(a, row);
    uint32_t dim = a->head_dim, block = LF_ATTENTION_BLOCK;
    struct lf_attention_steps s = {list.n, (list.n + block - 1) / block * block, NULL, NULL};
    s.key = calloc(((size_t)s.n + s.padded) * dim, sizeof *s.key);
    LF_ASSERT(s.key);
    s.element = s.key + (size_t)s.n * dim;
    for (uint32_t t = 0; t < s.n; t++)
        for (uint32_t d = 0; d < dim; d++) {
            uint16_t value = lf_bf16_from_f32((float)list.key[(size_t)t * dim + d]);
            s.key[(size_t)t * dim + d] = s.element[(size_t)d * s.padded + t] = value;
        }
    free(list.key);
    return s;
}

static inline float lf_attention_step_chain(const uint16_t *a, const uint16_t *b, uint32_t n) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < n; i += LF_ATTENTION_STEP)
        sum = lf_mma_step(a + i, b + i, sum);
    return sum;
}

// A head's maximum and denominator so far.
struct lf_attention_softmax {
    float m, denominator;
};

// A block's scores to bf(P), zeros from `terms` on; returns exp(m - m').
static inline float lf_attention_step_weights(const float *z, uint32_t terms, uint16_t *weight,
                                              struct lf_attention_softmax *soft) {
    float top = soft->m, sum[16] = {0};
    for (uint32_t t = 0; t < terms; t++)
        top = z[t] > top ? z[t] : top;
    for (uint32_t t = 0; t < LF_ATTENTION_BLOCK; t++) {
        float p = t < terms ? lf_exp(z[t] - top) : 0.0f;
        sum[t % 16] += p;
        weight[t] = lf_bf16_settle(p);
    }
    float shrink = lf_exp(soft->m - top);
    soft->denominator = fmaf(soft->denominator, shrink, lf_tree16(sum));
    soft->m = top;
    return shrink;
}

// o of one head of the row; q: its query, sum: room for head_dim numbers.
static inline void lf_attention_step_head(const struct lf_attention_args *a,
                                          const struct lf_attention_steps *s, const uint16_t *q,
                                          float sink, float *sum, uint16_t *o) {
    struct lf_attention_softmax soft = {-1e30f, 0.0f};
    for (uint32_t d = 0; d < a->head_dim; d++)
        sum[d] = 0.0f;
    for (uint32_t t0 = 0; t0 < s->n; t0 += LF_ATTENTION_BLOCK) {
        float z[LF_ATTENTION_BLOCK];
        uint16_t weight[LF_ATTENTION_BLOCK];
        uint32_t terms = s->n - t0 < LF_ATTENTION_BLOCK ? s->n - t0 : LF_ATTENTION_BLOCK;
        for (uint32_t t = 0; t < terms; t++) {
            const uint16_t *key = s->key + (size_t)(t0 + t) * a->head_dim;
            float v = lf_attention_step_chain(q, key, a->head_dim) * a->scale;
            z[t] = v + (v - v); // NaN unless finite
        }
        float shrink = lf_attention_step_weights(z, terms, weight, &soft);
        for (uint32_t d = 0; d < a->head_dim; d++) {
            const uint16_t *element = s->element + (size_t)d * s->padded + t0;
            float block = lf_attention_step_chain(weight, element, LF_ATTENTION_BLOCK);
            sum[d] = fmaf(sum[d], shrink, block);
        }
    }
    float total = soft.denominator + lf_exp(sink - soft.m);
    for (uint32_t d = 0; d < a->head_dim; d++)
        o[d] = lf_bf16_settle(sum[d] / total);
}
