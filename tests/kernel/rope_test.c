#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/rope/rope.h"
#include "kernel_check.h"
#include "model/rope_table.h"
#include "vectors.h"

enum { ROWS = 17, HEADS = 3, HEAD = 40, ROPE = 16, PAIRS = ROPE / 2, STRIDE = HEADS * HEAD + 5 };

typedef void kernel_fn(struct lf_pool *pool, const struct lf_rope_args *args);

struct problem {
    uint16_t x[ROWS * STRIDE];
    float cos[ROWS * PAIRS], sin[ROWS * PAIRS];
};

static struct problem make(enum lf_check_style style) {
    struct lf_check_rng rng = {77 + (uint32_t)style};
    struct problem p;
    lf_check_fill_bf16(&rng, style, 1.0f, p.x, ROWS * STRIDE);
    for (uint32_t i = 0; i < ROWS * PAIRS; i++) {
        double angle = lf_check_uniform(&rng) * 1000.0;
        p.cos[i] = (float)cos(angle);
        p.sin[i] = (float)sin(angle);
    }
    return p;
}

static struct lf_rope_args arguments(struct problem *p, uint32_t first, uint32_t rows,
                                     int inverse) {
    return (struct lf_rope_args){.rows = rows, .heads = HEADS, .head_dim = HEAD, .rope_dim = ROPE,
                                 .x = p->x + first * STRIDE, .x_stride = STRIDE,
                                 .cos = p->cos + first * PAIRS, .sin = p->sin + first * PAIRS,
                                 .inverse = inverse};
}

// Rows first .. first+rows-1 rotated, from there on: [rows][STRIDE] less the last row's tail.
static void rotate(struct problem *p, uint32_t first, uint32_t rows, int inverse,
                   kernel_fn *kernel, uint32_t threads, uint16_t *out) {
    struct lf_pool *pool = lf_check_pool(threads);
    size_t bytes = (rows * STRIDE - 5) * sizeof(uint16_t);
    struct lf_check_buffer x = lf_check_open(bytes, 0);
    struct lf_rope_args args = arguments(p, first, rows, inverse);
    memcpy(x.data, args.x, bytes);
    args.x = x.data;
    kernel(pool, &args);
    lf_check_guards(&x, "rope");
    memcpy(out, x.data, bytes);
    lf_check_close(&x);
    lf_pool_close(pool);
}

static void every_element_is_within_its_bound_of_float64(void **state) {
    (void)state;
    for (int i = 0; i < 2 * LF_STYLES; i++) {
        struct problem p = make((enum lf_check_style)(i / 2)), magnitude = p;
        struct lf_rope_args args = arguments(&p, 0, ROWS, i % 2);
        double ref[ROWS * HEADS * HEAD], limit[ROWS * HEADS * HEAD];
        uint16_t out[ROWS * STRIDE], dense[ROWS * HEADS * HEAD];
        lf_rope_f64(&args, ref);
        // e |c| + o |s| twice over: one sign pattern gives each sum of magnitudes
        for (uint32_t j = 0; j < ROWS * STRIDE; j++)
            magnitude.x[j] &= 0x7FFF;
        for (uint32_t j = 0; j < ROWS * PAIRS; j++) {
            magnitude.cos[j] = fabsf(magnitude.cos[j]) + fabsf(magnitude.sin[j]);
            magnitude.sin[j] = 0.0f;
        }
        args = arguments(&magnitude, 0, ROWS, 0);
        lf_rope_f64(&args, limit);
        rotate(&p, 0, ROWS, i % 2, lf_rope_avx2, 2, out);
        for (uint32_t j = 0; j < ROWS * HEADS * HEAD; j++) {
            uint32_t in_head = j % HEAD, mate = in_head < HEAD - ROPE ? j : j ^ 1;
            dense[j] = out[j / (HEADS * HEAD) * STRIDE + j % (HEADS * HEAD)];
            if (in_head < HEAD - ROPE)
                assert_true((double)lf_bf16_to_f32(dense[j]) == ref[j]);
            limit[j] = in_head < HEAD - ROPE ? 0.0 : limit[j];
            if (mate < j)
                limit[j] = limit[mate] = lf_check_gamma(2.0) * fmax(limit[j], limit[mate]);
        }
        double worst = lf_check_bound_bf16("rope", dense, ref, limit, ROWS * HEADS * HEAD);
        assert_true(worst > 0.5);
    }
}

static void rows_alone_equal_rows_in_any_call(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2, 3, 8, 17};
    struct problem p = make(LF_STYLE_WIDE);
    uint16_t all[ROWS * STRIDE], one[STRIDE];
    for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++)
        lf_check_fill_hostile(kind, p.x + (3 * kind + 1) * STRIDE, STRIDE);
    for (uint32_t i = 0; i < 4; i++) {
        rotate(&p, ROWS - sizes[i], sizes[i], (int)i % 2, lf_rope_avx2, 1 + i % 3, all);
        for (uint32_t r = 0; r < sizes[i]; r++) {
            rotate(&p, ROWS - sizes[i] + r, 1, (int)i % 2, lf_rope_avx2, 1, one);
            lf_check_same("a row in a call", all + r * STRIDE, one, HEADS * HEAD * 2);
        }
    }
}

static void portable_and_avx2_and_all_thread_counts_agree(void **state) {
    (void)state;
    struct problem p = make(LF_STYLE_CANCELLING);
    uint16_t a[ROWS * STRIDE], b[ROWS * STRIDE];
    for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++)
        lf_check_fill_hostile(kind, p.x + (kind + 1) * STRIDE, STRIDE);
    rotate(&p, 0, ROWS, 1, lf_rope_portable, 1, a);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        rotate(&p, 0, ROWS, 1, lf_rope_avx2, threads, b);
        lf_check_same("avx2 against portable", b, a, (ROWS * STRIDE - 5) * 2);
    }
}

static void nan_shows_in_its_pair_only(void **state) {
    (void)state;
    struct problem p = make(LF_STYLE_NORMAL);
    uint16_t out[STRIDE];
    p.x[HEAD - ROPE + 4] = 0xFFFF;
    rotate(&p, 0, 1, 0, lf_rope_avx2, 1, out);
    for (uint32_t i = 0; i < HEADS * HEAD; i++)
        assert_int_equal(out[i] == 0x7FC0, i == HEAD - ROPE + 4 || i == HEAD - ROPE + 5);
}

static void expect_row(const json_t *want, const uint16_t *got) {
    for (size_t i = 0; i < 64; i++)
        if ((double)lf_bf16_to_f32(got[i]) != vectors_number(want, i))
            fail_msg("element %zu is %.9g, expected %.9g", i, (double)lf_bf16_to_f32(got[i]),
                     vectors_number(want, i));
}

// rope.json: a rotation and its inverse, on bf16 data, exactly
static void the_vectors_come_out(void **state) {
    (void)state;
    json_t *file = vectors_load("rope"), *row;
    const json_t *input = vectors_get(file, "rotation_input_bf16");
    struct lf_topology topology = {.rope_dim = 64, .rope_theta = 10000.0,
                                   .compress_rope_theta = 160000.0};
    topology.rope_scaling = (struct lf_rope_scaling){true, 16.0, 32.0, 1.0, 65536};
    struct lf_pool *pool = lf_check_pool(1);
    size_t n;
    json_array_foreach(vectors_get(file, "rotation"), n, row) {
        bool compressed = strcmp(json_string_value(vectors_get(row, "table")), "plain") != 0;
        uint64_t position = (uint64_t)json_integer_value(vectors_get(row, "position"));
        struct lf_rope_table table;
        float c[32], s[32];
        uint16_t x[64];
        lf_rope_table_init(&table, &topology, compressed);
        lf_rope_rows(&table, &position, 1, c, s);
        for (size_t i = 0; i < 64; i++)
            x[i] = lf_bf16_from_f32((float)vectors_number(input, i));
        struct lf_rope_args args = {.rows = 1, .heads = 1, .head_dim = 64, .rope_dim = 64, .x = x,
                                    .x_stride = 64, .cos = c, .sin = s};
        lf_rope_avx2(pool, &args);
        expect_row(vectors_get(row, "forward"), x);
        args.inverse = 1;
        lf_rope_avx2(pool, &args);
        expect_row(vectors_get(row, "inverse_of_forward"), x);
    }
    assert_int_equal(n, 4);
    lf_pool_close(pool);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_come_out),
        cmocka_unit_test(every_element_is_within_its_bound_of_float64),
        cmocka_unit_test(rows_alone_equal_rows_in_any_call),
        cmocka_unit_test(portable_and_avx2_and_all_thread_counts_agree),
        cmocka_unit_test(nan_shows_in_its_pair_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
