#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/quant.h"
#include "kernel/index_score/index_score.h"
#include "kernel_check.h"
#include "vectors.h"

enum { LANES = 2, ENTRIES = 1300, PAGES = 11, ROWS_MAX = 40 };

struct world {
    uint32_t heads, dim, rows;
    uint16_t *q, *weight;
    uint8_t *page[LANES][PAGES];
    struct lf_paged keys[LANES];
    struct lf_row row[ROWS_MAX];
    uint32_t visible[ROWS_MAX];
};

// QF4e of a bf16 row: codes, then scales; values writes the dequantized bf16 back.
static void pack(uint16_t *x, uint32_t dim, uint8_t *codes, uint8_t *scales, int values) {
    for (uint32_t g = 0; g < dim / 32; g++) {
        uint8_t code[32];
        scales[g] = lf_qf4e_group(x + 32 * g, code);
        for (uint32_t i = 0; i < 32; i += 2)
            codes[16 * g + i / 2] = (uint8_t)(code[i] | code[i + 1] << 4);
        for (uint32_t i = 0; values && i < 32; i++)
            x[32 * g + i] = lf_bf16_from_f32(lf_e2m1_to_f32(code[i]) * lf_ue8m0_to_f32(scales[g]));
    }
}

static struct world open_world(uint32_t heads, uint32_t dim, enum lf_check_style style) {
    static const uint32_t lengths[] = {1, 63, 64, 65, 128, 0, 1023, 1024, 1025, 1300, 3, 700};
    struct lf_check_rng rng = {heads * 100 + dim + (uint32_t)style};
    struct world w = {.heads = heads, .dim = dim, .rows = ROWS_MAX};
    uint8_t codes[256], scales[8];
    uint16_t x[512];
    w.q = malloc((size_t)ROWS_MAX * heads * dim * sizeof *w.q);
    w.weight = malloc((size_t)ROWS_MAX * heads * sizeof *w.weight);
    lf_check_fill_bf16(&rng, style, 1.0f, w.q, (size_t)ROWS_MAX * heads * dim);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, w.weight, (size_t)ROWS_MAX * heads);
    for (uint32_t i = 0; i < ROWS_MAX * heads; i++)
        pack(w.q + (size_t)i * dim, dim, codes, scales, 1);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        w.keys[lane].page = w.page[lane];
        for (uint32_t i = 0; i < PAGES; i++)
            w.page[lane][i] = malloc(LF_PAGE_ROWS * (size_t)lf_qf4e_row_bytes(dim));
        for (uint32_t j = 0; j < ENTRIES; j++) {
            uint8_t *at = w.page[lane][j / 128] + j % 128 * lf_qf4e_row_bytes(dim);
            lf_check_fill_bf16(&rng, style, 1.0f, x, dim);
            pack(x, dim, at, at + dim / 2, 0);
        }
    }
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        w.row[r].lane = r % LANES;
        w.visible[r] = lengths[r % 12];
    }
    return w;
}

static void close_world(struct world *w) {
    for (uint32_t i = 0; i < LANES * PAGES; i++)
        free(w->page[i / PAGES][i % PAGES]);
    free(w->q);
    free(w->weight);
}

typedef void kernel_fn(struct lf_pool *pool, const struct lf_index_score_args *args);

static struct lf_index_score_args arguments(struct world *w, uint32_t first, uint32_t rows) {
    w->keys[0].page = w->page[0];
    w->keys[1].page = w->page[1];
    return (struct lf_index_score_args){
        .rows = rows, .heads = w->heads, .dim = w->dim, .row = w->row + first,
        .q = w->q + (size_t)first * w->heads * w->dim,
        .head_weight = w->weight + (size_t)first * w->heads,
        .weight_scale = (float)(1.0 / sqrt((double)w->heads) / sqrt((double)w->dim)),
        .keys = w->keys, .visible = w->visible + first, .score_stride = ENTRIES};
}

// Scores of rows first .. first+rows-1; what a row does not see keeps its pattern.
static float *score(struct world *w, uint32_t first, uint32_t rows, kernel_fn *kernel,
                    uint32_t threads) {
    struct lf_pool *pool;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_pool_open(&pool, threads, lf_index_score_scratch_bytes(w->heads, w->dim),
                                  &err), LF_OK);
    struct lf_index_score_args args = arguments(w, first, rows);
    struct lf_check_buffer out = lf_check_open(rows * ENTRIES * sizeof(float), 0);
    float *copy = malloc(out.bytes);
    lf_check_poison(&out, 0x5A);
    args.score = out.data;
    kernel(pool, &args);
    lf_check_guards(&out, "index_score");
    memcpy(copy, out.data, out.bytes);
    lf_check_close(&out);
    lf_pool_close(pool);
    return copy;
}

static void check_bound(uint32_t heads, uint32_t dim, enum lf_check_style style) {
    struct world w = open_world(heads, dim, style), magnitude = w;
    float *out = score(&w, 0, 12, lf_index_score_avx2, 2);
    double *ref = malloc(12 * ENTRIES * sizeof *ref), worst = 0.0;
    double *limit = malloc(12 * ENTRIES * sizeof *limit);
    struct lf_index_score_args args = arguments(&w, 0, 12);
    lf_index_score_f64(&args, ref);
    // all signs dropped, the same formula gives the sum of magnitudes: the bound's scale
    magnitude.q = malloc((size_t)12 * heads * dim * sizeof *w.q);
    magnitude.weight = malloc((size_t)12 * heads * sizeof *w.weight);
    for (size_t i = 0; i < (size_t)12 * heads * dim; i++)
        magnitude.q[i] = w.q[i] & 0x7FFF;
    for (size_t i = 0; i < (size_t)12 * heads; i++)
        magnitude.weight[i] = w.weight[i] & 0x7FFF;
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t j = 0; j < ENTRIES; j++)
            for (uint32_t i = 0; i < dim / 2; i++)
                w.page[lane][j / 128][j % 128 * lf_qf4e_row_bytes(dim) + i] &= 0x77;
    args = arguments(&magnitude, 0, 12);
    lf_index_score_f64(&args, limit);
    double depth = lf_check_gamma(dim / 16.0 + 4.0) + lf_check_gamma(heads + 1.0);
    for (uint32_t r = 0; r < 12; r++)
        for (uint32_t s = 0; s < w.visible[r]; s++) {
            uint32_t i = r * ENTRIES + s;
            double e = depth * limit[i];
            worst = fmax(worst, lf_check_bound_f32("score", out + i, ref + i, &e, 1));
        }
    print_message("%s %ux%u: worst ratio %.3f\n", lf_check_style_name(style), heads, dim, worst);
    free(magnitude.q);
    free(magnitude.weight);
    free(ref);
    free(limit);
    free(out);
    close_world(&w);
}

static void every_score_is_within_its_bound_of_float64(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(8, 32, style);
        check_bound(32, 128, style);
    }
}

static void rows_alone_equal_rows_in_any_call(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2, 3, 8, 17};
    struct world w = open_world(6, 64, LF_STYLE_NORMAL);
    for (uint32_t i = 0; i < LF_HOSTILE_KINDS; i++)
        lf_check_fill_hostile(i, w.q + (size_t)(4 * i + 3) * w.heads * w.dim, 64);
    for (uint32_t i = 0; i < 4; i++) {
        float *all = score(&w, i, sizes[i], lf_index_score_avx2, 1 + i % 3);
        for (uint32_t r = 0; r < sizes[i]; r++) {
            float *one = score(&w, i + r, 1, lf_index_score_avx2, 1);
            lf_check_same("a row in a call", all + r * ENTRIES, one, ENTRIES * sizeof *one);
            free(one);
        }
        free(all);
    }
    close_world(&w);
}

static void portable_and_avx2_and_all_thread_counts_agree(void **state) {
    (void)state;
    struct world w = open_world(6, 64, LF_STYLE_WIDE);
    lf_check_fill_hostile(0, w.q + (size_t)2 * w.heads * w.dim + 5, 1);
    lf_check_fill_hostile(1, w.q + (size_t)3 * w.heads * w.dim + 5, 1);
    float *a = score(&w, 0, 12, lf_index_score_portable, 1);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        float *b = score(&w, 0, 12, lf_index_score_avx2, threads);
        lf_check_same("avx2 against portable", b, a, 12 * ENTRIES * sizeof *a);
        free(b);
    }
    free(a);
    close_world(&w);
}

// a NaN in one head's query is in every score of that row; a NaN key only in its own
static void nan_stays_where_it_was(void **state) {
    (void)state;
    struct world w = open_world(6, 64, LF_STYLE_NORMAL);
    w.q[(size_t)3 * w.heads * w.dim + 70] = 0x7FC1;
    w.page[0][0][17 * lf_qf4e_row_bytes(w.dim) + w.dim / 2] = 255;
    float *out = score(&w, 2, 2, lf_index_score_avx2, 1);
    for (uint32_t s = 0; s < w.visible[2]; s++)
        assert_int_equal(isnan(out[s]) != 0, s == 17);
    for (uint32_t s = 0; s < w.visible[3]; s++)
        assert_true(isnan(out[ENTRIES + s]));
    assert_int_equal(lf_f32_bits(out[ENTRIES + w.visible[3]]), 0x5A5A5A5Au);
    free(out);
    close_world(&w);
}

static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "index");
    struct lf_pool *pool = lf_check_pool(1);
    uint16_t q[2][32] = {{0}}, weight[2];
    uint8_t keys[10 * 17] = {0}, *page = keys;
    float out[10];
    for (size_t h = 0; h < 2; h++) {
        weight[h] = lf_bf16_from_f32((float)vectors_number(vectors_get(v, "head_weight"), h));
        for (size_t d = 0; d < 2; d++)
            q[h][d] = lf_bf16_from_f32(
                (float)vectors_number(json_array_get(vectors_get(v, "iq"), h), d));
    }
    for (size_t s = 0; s < 10; s++) {
        const json_t *key = json_array_get(vectors_get(v, "keys"), s);
        keys[17 * s] = (uint8_t)(lf_e2m1_from_f32((float)vectors_number(key, 0)) |
                                 lf_e2m1_from_f32((float)vectors_number(key, 1)) << 4);
        keys[17 * s + 16] = 127;
    }
    const struct lf_row row = {0};
    const struct lf_paged paged = {&page};
    const uint32_t visible = 10;
    struct lf_index_score_args args = {
        .rows = 1, .heads = 2, .dim = 32, .row = &row, .q = q[0], .head_weight = weight,
        .weight_scale = 1.0f, .keys = &paged, .visible = &visible, .score = out,
        .score_stride = 10};
    lf_index_score_avx2(pool, &args);
    for (size_t s = 0; s < 10; s++)
        assert_true((double)out[s] == vectors_number(vectors_get(v, "scores"), s));
    lf_pool_close(pool);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
        cmocka_unit_test(every_score_is_within_its_bound_of_float64),
        cmocka_unit_test(rows_alone_equal_rows_in_any_call),
        cmocka_unit_test(portable_and_avx2_and_all_thread_counts_agree),
        cmocka_unit_test(nan_stays_where_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
