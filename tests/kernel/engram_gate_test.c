#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/engram_gate/engram_gate.h"
#include "kernel_check.h"
#include "rows_check.h"
#include "vectors.h"

enum { ROWS = 4, STREAMS = 4, DIM = 300, DOUBTFUL = 2 };

// The operands of a launch, weights at odd addresses.
struct launch {
    struct lf_engram_gate_args args;
    uint16_t *x, *kv;
    char *q_weight, *k_weight;
    float *gate;
};

static size_t streams_len(const struct launch *l) {
    return (size_t)l->args.rows * l->args.streams * l->args.dim;
}

static struct launch open_launch(enum lf_check_style style, uint32_t streams, uint32_t dim) {
    struct launch l = {.args = {.rows = ROWS, .streams = streams, .dim = dim, .eps = 1e-20f}};
    struct lf_check_rng rng = {.state = 71 + style};
    size_t weights = (size_t)streams * dim, n = ROWS * weights;
    l.args.dot_scale = (float)(1.0 / sqrt((double)dim));
    l.x = calloc(n, 2), l.kv = calloc(n + (size_t)ROWS * dim, 2);
    l.q_weight = calloc(weights + 1, 2), l.k_weight = calloc(weights + 1, 2);
    l.gate = calloc((size_t)ROWS * streams, 4);
    assert_true(l.x && l.kv && l.q_weight && l.k_weight && l.gate);
    lf_check_fill_bf16(&rng, style, 3.0f, l.x, n);
    lf_check_fill_bf16(&rng, style, 1.0f, l.kv, n + (size_t)ROWS * dim);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, (uint16_t *)(void *)l.q_weight, weights);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, (uint16_t *)(void *)l.k_weight, weights);
    memmove(l.q_weight + 1, l.q_weight, weights * 2);
    memmove(l.k_weight + 1, l.k_weight, weights * 2);
    l.args.q_weight = (const uint16_t *)(const void *)(l.q_weight + 1);
    l.args.k_weight = (const uint16_t *)(const void *)(l.k_weight + 1);
    l.args.x = l.x, l.args.kv = l.kv, l.args.gate = l.gate;
    return l;
}

static void close_launch(struct launch *l) {
    free(l->x), free(l->kv), free(l->q_weight), free(l->k_weight), free(l->gate);
}

static double weight_at(const char *bytes, size_t i) {
    uint16_t v;
    memcpy(&v, bytes + 1 + 2 * i, sizeof v);
    return (double)lf_bf16_to_f32(v);
}

// How far the gate of one stream may be off: sums, then square root and sigmoid by their slopes.
static double gate_error(const struct launch *l, size_t row, size_t i, size_t *doubtful) {
    size_t s = l->args.streams, dim = l->args.dim;
    double dot = 0, sum = 0, x2 = 0, key2 = 0, n = (double)dim, depth = n / 16 + 5;
    for (size_t d = 0; d < dim; d++) {
        double x = (double)lf_bf16_to_f32(l->x[(row * s + i) * dim + d]);
        double key = (double)lf_bf16_to_f32(l->kv[(row * (s + 1) + i) * dim + d]);
        double term = x * weight_at(l->q_weight, i * dim + d) * weight_at(l->k_weight, i * dim + d);
        dot += term * key, sum += fabs(term * key);
        x2 += x * x, key2 += key * key;
    }
    double factor = 1 / sqrt(x2 / n + 1e-20) / sqrt(key2 / n + 1e-20) / sqrt(n);
    double e = lf_check_gamma(depth + 1) * sum * factor;
    e += lf_check_gamma(depth + 12) * fabs(dot * factor);
    double size = fmax(fabs(dot * factor) - e, 1e-6);
    bool sign_in_doubt = e > 0 && fabs(dot * factor) <= e;
    *doubtful += sign_in_doubt;
    double flip = sign_in_doubt ? 2 * sqrt(1e-6) : 0;
    return 0.25 * (flip + e / (2 * sqrt(size)) + lf_check_gamma(2) * sqrt(size)) +
           lf_check_gamma(5);
}

static size_t check_bound(enum lf_check_style style, uint32_t s, uint32_t dim) {
    struct launch l = open_launch(style, s, dim);
    size_t n = streams_len(&l), doubtful = 0;
    double *ref = calloc(n + (size_t)ROWS * s, 8), *error = calloc(n, 8);
    double *gate_off = calloc((size_t)ROWS * s, 8);
    assert_true(ref && error && gate_off);
    lf_engram_gate_f64(&l.args, ref);
    for (size_t i = 0; i < (size_t)ROWS * s; i++) {
        gate_off[i] = gate_error(&l, i / s, i % s, &doubtful);
        for (size_t d = 0; d < dim; d++) {
            double value = (double)lf_bf16_to_f32(l.kv[(i / s * (s + 1) + s) * dim + d]);
            error[i * dim + d] = fabs(value) * gate_off[i] +
                                 lf_check_gamma(1) * (fabs(ref[i * dim + d]) + fabs(value));
        }
    }
    struct lf_pool *pool = lf_check_pool(1);
    lf_engram_gate_portable(pool, &l.args);
    lf_check_bound_f32("gate", l.gate, ref + n, gate_off, (size_t)ROWS * s);
    lf_check_bound_bf16(lf_check_style_name(style), l.x, ref, error, n);
    lf_pool_close(pool);
    close_launch(&l);
    free(ref), free(error), free(gate_off);
    return doubtful;
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    size_t doubtful = 0;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        doubtful += check_bound(style, STREAMS, DIM);
        doubtful += check_bound(style, 1, 17);
        doubtful += check_bound(style, 2, 1024);
    }
    assert_in_range(doubtful, 0, DOUBTFUL);
}

static void the_example_of_the_vectors_gates_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *part = vectors_get(file, "engram_gate");
    uint16_t x[8], kv[12], q[8], k[8];
    float gate[2];
    for (size_t i = 0; i < 8; i++) {
        x[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "h"), i / 4), i % 4));
        kv[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "key"), i / 4), i % 4));
        q[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "q_weight"), i / 4), i % 4));
        k[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "k_weight"), i / 4), i % 4));
        if (i < 4)
            kv[8 + i] = lf_bf16_from_f32((float)vectors_number(vectors_get(part, "value"), i));
    }
    struct lf_engram_gate_args args = {.rows = 1, .streams = 2, .dim = 4, .x = x, .kv = kv};
    args.q_weight = q, args.k_weight = k, args.dot_scale = 0.5f, args.eps = 1e-20f;
    args.gate = gate;
    struct lf_pool *pool = lf_check_pool(1);
    lf_engram_gate_portable(pool, &args);
    for (size_t i = 0; i < 2; i++) {
        json_t *want = json_array_get(vectors_get(part, "result"), i);
        assert_true(fabs((double)gate[i] - json_number_value(vectors_get(want, "gate"))) < 2e-3);
        for (size_t d = 0; d < 4; d++)
            assert_true(fabs((double)lf_bf16_to_f32(x[i * 4 + d]) -
                             vectors_number(vectors_get(want, "out"), d)) < 8e-3);
    }
    lf_pool_close(pool);
    json_decref(file);
}

// The gate of one stream of 16 whose key is the stream times sign.
static float simple_gate(float value, float sign, uint8_t dead, uint16_t x[16]) {
    uint16_t kv[32], weight[16];
    float gate;
    for (int d = 0; d < 16; d++) {
        x[d] = lf_bf16_from_f32(value);
        kv[d] = lf_bf16_from_f32(value * sign);
        kv[16 + d] = lf_bf16_from_f32(2.0f);
        weight[d] = lf_bf16_from_f32(1.0f);
    }
    struct lf_engram_gate_args args = {.rows = 1, .streams = 1, .dim = 16, .x = x, .kv = kv};
    args.q_weight = weight, args.k_weight = weight, args.dot_scale = 0.25f, args.eps = 1e-20f;
    args.gate = &gate, args.dead = &dead;
    struct lf_pool *pool = lf_check_pool(1);
    lf_engram_gate_portable(pool, &args);
    lf_pool_close(pool);
    return gate;
}

static void the_sign_of_the_dot_survives_the_square_root(void **state) {
    (void)state;
    uint16_t x[16];
    // dot = 16 * 1 * 0.25 = 4, its root 2
    assert_true(fabs((double)simple_gate(1.0f, 1.0f, 0, x) - 1 / (1 + exp(-2.0))) < 1e-6);
    assert_true(fabs((double)simple_gate(1.0f, -1.0f, 0, x) - 1 / (1 + exp(2.0))) < 1e-6);
}

static void a_zero_row_has_the_least_gate_and_no_nan(void **state) {
    (void)state;
    uint16_t x[16];
    json_t *file = vectors_load("blocks");
    double want = json_number_value(
        vectors_get(vectors_get(file, "engram_gate"), "gate_when_dot_is_plus_zero"));
    assert_true(fabs((double)simple_gate(0.0f, 1.0f, 0, x) - want) < 1e-6);
    json_decref(file);
}

static void a_dead_row_keeps_its_streams(void **state) {
    (void)state;
    uint16_t x[16];
    assert_true(simple_gate(1.5f, 1.0f, 1, x) == 0.0f);
    for (int d = 0; d < 16; d++)
        assert_int_equal(x[d], lf_bf16_from_f32(1.5f));
}

static void a_nan_shows_in_its_stream(void **state) {
    (void)state;
    uint16_t x[16];
    assert_true(isnan(simple_gate(NAN, 1.0f, 0, x)));
    for (int d = 0; d < 16; d++)
        assert_int_equal(x[d], 0x7FC0);
}

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_engram_gate_args args = *(const struct lf_engram_gate_args *)shape;
    args.rows = rows;
    args.x = operand[0], args.kv = operand[1], args.dead = operand[2], args.gate = operand[3];
    lf_check_kernels(isa)->engram_gate(pool, &args);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct launch l = open_launch(LF_STYLE_NORMAL, STREAMS, DIM);
    uint8_t dead[ROWS] = {0, 1, 0, 0};
    l.x[2 * STREAMS * DIM + 5] = 0x7FC7, l.kv[4] = 0x7F80;
    struct lf_rows_case c = {.name = "engram_gate", .shape = &l.args, .rows = ROWS,
                             .operands = 4, .run = run,
                             .operand = {{LF_ROWS_INOUT, STREAMS * DIM * 2, l.x},
                                         {LF_ROWS_IN, (STREAMS + 1) * DIM * 2, l.kv},
                                         {LF_ROWS_FIXED, 1, dead},
                                         {LF_ROWS_OUT, STREAMS * 4, NULL}}};
    lf_rows_check(&c);
    close_launch(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_example_of_the_vectors_gates_as_published),
        cmocka_unit_test(the_sign_of_the_dot_survives_the_square_root),
        cmocka_unit_test(a_zero_row_has_the_least_gate_and_no_nan),
        cmocka_unit_test(a_dead_row_keeps_its_streams),
        cmocka_unit_test(a_nan_shows_in_its_stream),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
