#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/compress_pool/compress_pool.h"
#include "kernel_check.h"
#include "vectors.h"

enum { ENTRIES = 17, DIM = 75 };

typedef void kernel_fn(struct lf_pool *pool, const struct lf_compress_pool_args *args);

struct problem {
    float rows[2 * ENTRIES][2 * DIM]; // v then g
    const float *first[ENTRIES], *second[ENTRIES];
};

static struct problem *make(enum lf_check_style style) {
    struct lf_check_rng rng = {5 + (uint32_t)style};
    struct problem *p = malloc(sizeof *p);
    for (uint32_t i = 0; i < 2 * ENTRIES; i++) {
        float gates = style == LF_STYLE_WIDE ? 0x1p-12f : 3.0f;
        lf_check_fill_f32(&rng, style, 1.0f, p->rows[i], DIM);
        lf_check_fill_f32(&rng, style, gates, p->rows[i] + DIM, DIM);
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        p->first[i] = p->rows[2 * i];
        p->second[i] = p->rows[2 * i + 1];
    }
    return p;
}

static void pool_rows(const struct problem *p, uint32_t first, uint32_t entries, kernel_fn *kernel,
                      uint32_t threads, uint16_t *y) {
    struct lf_pool *pool = lf_check_pool(threads);
    struct lf_check_buffer out = lf_check_open(entries * DIM * sizeof(uint16_t), 0);
    struct lf_compress_pool_args args = {.entries = entries, .dim = DIM,
                                         .first = p->first + first, .second = p->second + first,
                                         .y = out.data};
    kernel(pool, &args);
    lf_check_guards(&out, "compress_pool");
    memcpy(y, out.data, out.bytes);
    lf_check_close(&out);
    lf_pool_close(pool);
}

static void every_element_is_within_its_bound_of_float64(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        struct problem *p = make(style);
        double ref[ENTRIES * DIM], limit[ENTRIES * DIM];
        uint16_t y[ENTRIES * DIM];
        struct lf_compress_pool_args args = {.entries = ENTRIES, .dim = DIM, .first = p->first,
                                             .second = p->second};
        lf_compress_pool_f64(&args, ref);
        for (uint32_t i = 0; i < ENTRIES * DIM; i++) {
            const float *first = p->first[i / DIM] + i % DIM;
            const float *second = p->second[i / DIM] + i % DIM;
            double gap = (double)first[DIM] - (double)second[DIM], a = 1.0 / (1.0 + exp(-gap));
            double size = a * fabs((double)first[0]) + (1.0 - a) * fabs((double)second[0]);
            // below float32's normal range a weight keeps no relative precision
            double tiny = 0x1p-126 * (fabs((double)first[0]) + fabs((double)second[0]));
            limit[i] = (fabs(gap) + 7.0) * 0x1p-24 * size + tiny;
        }
        pool_rows(p, 0, ENTRIES, lf_compress_pool_avx2, 2, y);
        double worst =
            lf_check_bound_bf16(lf_check_style_name(style), y, ref, limit, ENTRIES * DIM);
        assert_true(worst > 0.3);
        free(p);
    }
}

static void hostile(struct problem *p) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0x1.fffffep127f, -0.0f, 0x1p-149f};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t d = 0; d < 2 * DIM; d++)
            p->rows[4 * i + 2][d] = d % 3 ? odd[i] : -odd[i];
}

static void entries_alone_equal_entries_in_any_call(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2, 3, 8, 17};
    struct problem *p = make(LF_STYLE_NORMAL);
    hostile(p);
    for (uint32_t i = 0; i < 4; i++) {
        uint16_t all[ENTRIES * DIM], one[DIM];
        pool_rows(p, ENTRIES - sizes[i], sizes[i], lf_compress_pool_avx2, 1 + i % 3, all);
        for (uint32_t r = 0; r < sizes[i]; r++) {
            pool_rows(p, ENTRIES - sizes[i] + r, 1, lf_compress_pool_avx2, 1, one);
            lf_check_same("an entry in a call", all + r * DIM, one, sizeof one);
        }
    }
    free(p);
}

static void portable_and_avx2_and_all_thread_counts_agree(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        struct problem *p = make(style);
        uint16_t a[ENTRIES * DIM], b[ENTRIES * DIM];
        hostile(p);
        pool_rows(p, 0, ENTRIES, lf_compress_pool_portable, 1, a);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            pool_rows(p, 0, ENTRIES, lf_compress_pool_avx2, threads, b);
            lf_check_same("avx2 against portable", b, a, sizeof a);
        }
        free(p);
    }
}

// equal gates are a plain mean; a far lower gate leaves the other value alone
static void known_gates_give_known_entries(void **state) {
    (void)state;
    struct problem *p = make(LF_STYLE_NORMAL);
    uint16_t y[DIM];
    for (uint32_t d = 0; d < DIM; d++) {
        p->rows[0][d] = 1.5f;
        p->rows[1][d] = -0.5f;
        p->rows[0][DIM + d] = d % 2 ? 40.0f : 1e30f;
        p->rows[1][DIM + d] = d % 2 ? 40.0f : -1e30f;
    }
    p->rows[1][DIM + 7] = NAN;
    pool_rows(p, 0, 1, lf_compress_pool_avx2, 1, y);
    for (uint32_t d = 0; d < DIM; d++)
        assert_int_equal(y[d], d == 7 ? 0x7FC0 : d % 2 ? 0x3F00 : 0x3FC0);
    free(p);
}

static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "compressor_ratio2");
    struct lf_pool *pool = lf_check_pool(1);
    float rows[2][6];
    uint16_t y[3];
    static const char *const names[2][2] = {{"kv0", "score0"}, {"kv1", "score1"}};
    for (size_t i = 0; i < 12; i++)
        rows[i / 6][i % 6] =
            (float)vectors_number(vectors_get(v, names[i / 6][i % 6 / 3]), i % 3);
    const float *first = rows[0], *second = rows[1];
    struct lf_compress_pool_args args = {.entries = 1, .dim = 3, .first = &first,
                                         .second = &second, .y = y};
    lf_compress_pool_avx2(pool, &args);
    for (size_t i = 0; i < 3; i++)
        assert_true((double)lf_bf16_to_f32(y[i]) ==
                    vectors_number(vectors_get(v, "pooled_bf16"), i));
    lf_pool_close(pool);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
        cmocka_unit_test(every_element_is_within_its_bound_of_float64),
        cmocka_unit_test(entries_alone_equal_entries_in_any_call),
        cmocka_unit_test(portable_and_avx2_and_all_thread_counts_agree),
        cmocka_unit_test(known_gates_give_known_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
