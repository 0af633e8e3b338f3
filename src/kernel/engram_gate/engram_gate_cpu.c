#include "kernel/engram_gate/engram_gate.h"

#include <math.h>
#include <stdbool.h>
#include "device/pool.h"
#include "kernel/columns.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/sum16.h"

// The three sums of one stream, 16 partials each.
struct sums {
    float x2[16], key2[16], dot[16];
};

// Adds a block of columns; a block starts at a multiple of 16.
static void add_block(struct sums *sums, const float *x, const float *key, float *w,
                      const float *k_weight, uint32_t n) {
    for (uint32_t c = 0; c < n; c++)
        w[c] = x[c] * (w[c] * k_weight[c]);
    lf_dot16_add(sums->x2, x, x, n);
    lf_dot16_add(sums->key2, key, key, n);
    lf_dot16_add(sums->dot, w, key, n);
}

// 1/sqrt(mean + eps) of a finished sum of squares.
static float inverse_rms(const float partial[16], const struct lf_engram_gate_args *a) {
#if LF_FAULT == 2
    return 1.0f / sqrtf(lf_tree16(partial) / (float)a->dim); // 2: eps left out
#endif
    return 1.0f / sqrtf(lf_tree16(partial) / (float)a->dim + a->eps);
}

static float gate_of(const struct lf_engram_gate_args *a, const uint16_t *x, const uint16_t *key,
                     uint32_t stream) {
    struct sums sums = {0};
    size_t first = (size_t)stream * a->dim;
    const char *q_weight = (const char *)a->q_weight, *k_weight = (const char *)a->k_weight;
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float xs[LF_COLUMNS], keys[LF_COLUMNS], qs[LF_COLUMNS], ks[LF_COLUMNS];
        lf_columns_widen(xs, x + d, n);
        lf_columns_widen(keys, key + d, n);
        lf_columns_widen(qs, q_weight + 2 * (first + d), n);
        lf_columns_widen(ks, k_weight + 2 * (first + d), n);
#if LF_FAULT == 6
        for (uint32_t c = 0; c < n; c++)
            ks[c] = 1.0f; // 6: k_weight left out
#elif LF_FAULT == 10
        n -= d + n == a->dim; // 10: the last column is not in the sums
#elif LF_FAULT == 17
        for (uint32_t c = 0; c < n; c++)
            qs[c] = 1.0f; // 17: q_weight left out
#endif
        add_block(&sums, xs, keys, qs, ks, n);
    }
    float dot = lf_tree16(sums.dot), x_inverse = inverse_rms(sums.x2, a);
    float key_inverse = inverse_rms(sums.key2, a), scale = a->dot_scale;
#if LF_FAULT == 7
    key_inverse = 1; // 7: the key is not normalised
#elif LF_FAULT == 8
    scale = 1; // 8: dot_scale left out
#elif LF_FAULT == 16
    x_inverse = 1; // 16: the streams are not normalised
#endif
    dot = dot * (x_inverse * key_inverse) * scale;
    float size = fabsf(dot) < 1e-6f ? 1e-6f : fabsf(dot);
#if LF_FAULT == 3
    return lf_sigmoid(copysignf(size, dot)); // 3: no root
#elif LF_FAULT == 4
    return lf_sigmoid(sqrtf(size)); // 4: the sign lost
#elif LF_FAULT == 5
    size = fabsf(dot); // 5: no least dot
#elif LF_FAULT == 18
    return isnan(dot) ? 0.0f : lf_sigmoid(copysignf(sqrtf(size), dot)); // 18: a NaN counts as 0
#elif LF_FAULT == 19
    return copysignf(sqrtf(size), dot); // 19: no sigmoid
#endif
    return lf_sigmoid(copysignf(sqrtf(size), dot));
}

static void join_stream(const struct lf_engram_gate_args *a, uint16_t *x, const uint16_t *value,
                        float gate) {
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float xs[LF_COLUMNS], values[LF_COLUMNS];
        lf_columns_widen(xs, x + d, n);
        lf_columns_widen(values, value + d, n);
#if LF_FAULT == 14
        gate = lf_bf16_to_f32(lf_bf16_settle(gate)); // 14: the gate in bf16
#endif
        for (uint32_t c = 0; c < n; c++) {
#if LF_FAULT == 15
            xs[c] += lf_bf16_to_f32(lf_bf16_settle(gate * values[c])); // 15: the product in bf16
            continue;
#endif
            xs[c] = fmaf(gate, values[c], xs[c]);
        }
        lf_columns_round(x + d, xs, n);
    }
}

static void gate_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_engram_gate_args *a = ctx;
    uint32_t streams = a->streams;
    const uint16_t *kv = a->kv + (size_t)row * (streams + 1) * a->dim;
    const uint16_t *value = kv + (size_t)streams * a->dim;
    bool dead = a->dead && a->dead[row];
    (void)worker;
#if LF_FAULT == 9
    value -= a->dim; // 9: the last stream's key
#elif LF_FAULT == 11
    dead = false; // 11: dead rows are joined
#elif LF_FAULT == 12
    kv -= row == 5 ? (size_t)(streams + 1) * a->dim : 0; // 12: the neighbour's keys
#elif LF_FAULT == 13
    a->x[(size_t)(row + 1) * streams * a->dim] = 0; // 13: a write past the last stream
#endif
    for (uint32_t i = 0; i < streams; i++) {
        uint16_t *x = a->x + ((size_t)row * streams + i) * a->dim;
        float gate = dead ? 0.0f : gate_of(a, x, kv + (size_t)i * a->dim, i);
#if LF_FAULT == 1
        gate = 0; // 1: every gate is zero, Engram is left out
#endif
        if (a->gate)
            a->gate[(size_t)row * streams + i] = lf_f32_settle(gate);
        join_stream(a, x, value, gate);
    }
}

void LF_KERNEL_NAME(lf_engram_gate)(struct lf_device *device,
                                    const struct lf_engram_gate_args *args) {
    lf_pool_run(device->pool, args->rows, gate_row, (void *)args);
}
