#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/table.h"
#include "kernel_check.h"
#include "vectors.h"

static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "index");
    struct lf_device *device = lf_check_device(1);
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
    lf_index_score_avx2(device, &args);
    for (size_t s = 0; s < 10; s++)
        assert_true((double)out[s] == vectors_number(vectors_get(v, "scores"), s));
    lf_check_device_close(device);
    json_decref(file);
}

enum { ROWS = 19, HEADS = 5, ENTRIES = 200, BLOCKS = 6 };

// Rows of two lanes, in runs longer and shorter than what shares a block of keys.
struct problem {
    uint32_t dim, visible[ROWS];
    struct lf_row row[ROWS];
    uint16_t *q, weight[ROWS * HEADS];
    uint8_t *keys, *page[2][2];
    struct lf_paged paged[2];
    float *score;
    uint32_t blocks[ROWS * BLOCKS], n_blocks[ROWS];
    struct lf_candidates candidates; // zeros, or the blocks
};

static uint64_t state = 1;

static uint32_t below(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static void open_problem(struct problem *p, uint32_t dim) {
    size_t row_bytes = lf_qf4e_row_bytes(dim);
    p->dim = dim;
    p->q = malloc((size_t)ROWS * HEADS * dim * 2);
    p->keys = malloc(4 * LF_PAGE_ROWS * row_bytes);
    p->score = malloc(ROWS * ENTRIES * sizeof *p->score);
    for (uint32_t i = 0; i < 4; i++)
        p->page[i / 2][i % 2] = p->keys + i * LF_PAGE_ROWS * row_bytes;
    for (uint32_t i = 0; i < 2; i++)
        p->paged[i].page = p->page[i];
    for (uint32_t r = 0; r < ROWS; r++) {
        p->row[r].lane = r < 12 ? 0 : r % 2;
        p->visible[r] = r < 2 ? ENTRIES : below(ENTRIES + 1);
        for (uint32_t h = 0; h < HEADS; h++)
            p->weight[r * HEADS + h] = (uint16_t)(0x3C00 + below(1024) + (below(2) << 15));
    }
}

static void close_problem(struct problem *p) {
    free(p->q);
    free(p->keys);
    free(p->score);
}

// Powers of two of a query's groups and of a key's differ by up to spread each.
static void fill(struct problem *p, uint32_t spread) {
    static const float value[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    size_t row_bytes = lf_qf4e_row_bytes(p->dim);
    for (size_t i = 0; i < (size_t)ROWS * HEADS * p->dim; i += 32) {
        float scale = lf_ue8m0_to_f32((uint8_t)(120 + below(spread + 1)));
        for (size_t j = i; j < i + 32; j++)
            p->q[j] = lf_bf16_from_f32((below(2) ? 1.0f : -1.0f) * value[below(8)] * scale);
    }
    for (size_t r = 0; r < 4 * LF_PAGE_ROWS; r++) {
        uint8_t *key = p->keys + r * row_bytes;
        for (uint32_t i = 0; i < p->dim / 2; i++)
            key[i] = (uint8_t)below(256);
        for (uint32_t g = 0; g < p->dim / 32; g++)
            key[p->dim / 2 + g] = (uint8_t)(125 + below(spread + 1));
    }
}

// What codes cannot be: other values, infinity, NaN scales, all zeros beside the smallest scale.
static void spoil(struct problem *p) {
    size_t row_bytes = lf_qf4e_row_bytes(p->dim);
    p->q[3 * HEADS * p->dim + 7] = lf_bf16_from_f32(1.0078125f);
    p->q[4 * HEADS * p->dim] = 0x7F80;
    memset(p->q + 5 * HEADS * p->dim, 0, p->dim * 2);
    p->q[6 * HEADS * p->dim] = 0x0001;
    p->keys[9 * row_bytes + p->dim / 2] = 255;
    memset(p->keys + 70 * row_bytes, 0x80, p->dim / 2);
    memset(p->keys + 70 * row_bytes + p->dim / 2, 1, p->dim / 32);
    p->keys[130 * row_bytes + p->dim / 2] = 0;
}

static void check_sets(struct problem *p, struct lf_device *device) {
    float *expected = malloc(ROWS * ENTRIES * sizeof *expected);
    struct lf_index_score_args args = {
        .rows = ROWS, .heads = HEADS, .dim = p->dim, .row = p->row, .q = p->q,
        .head_weight = p->weight, .weight_scale = 0.0625f, .keys = p->paged,
        .visible = p->visible, .score = expected, .score_stride = ENTRIES,
        .candidates = p->candidates};
    memset(expected, 0xAA, ROWS * ENTRIES * sizeof *expected);
    lf_index_score_portable(device, &args);
    args.score = p->score;
    for (enum lf_isa isa = LF_ISA_AVX2; isa < LF_ISAS; isa++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_kernels k;
        if (!lf_isa_present(isa))
            continue;
        assert_int_equal(lf_kernels_init(&k, isa, &err), LF_OK);
        memset(p->score, 0xAA, ROWS * ENTRIES * sizeof *p->score);
        k.index_score(device, &args);
        assert_memory_equal(p->score, expected, ROWS * ENTRIES * sizeof *p->score);
    }
    free(expected);
}

// Rows 0 to 5 and a third of the others have few blocks, the rest all there are.
static void choose_blocks(struct problem *p, uint32_t size) {
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t n = 0, all = (p->visible[r] + size - 1) / size;
        for (uint32_t b = 0; b < all && n < BLOCKS; b++)
            if (all <= BLOCKS || ((r < 6 || r % 3 == 0) && below(all) < BLOCKS))
                p->blocks[r * BLOCKS + n++] = b;
        if (n && below(2))
            p->blocks[r * BLOCKS + n - 1] = all - 1;
        p->n_blocks[r] = n;
    }
    p->candidates = (struct lf_candidates){p->blocks, p->n_blocks, size, BLOCKS};
}

// model.md 8.7: nothing else of a row's score depends on its blocks
static void the_entries_of_blocks_have_the_scores_that_they_have_among_all(void **unused) {
    (void)unused;
    static const uint32_t sizes[] = {1, 7, 8, 64};
    struct lf_device *device = lf_check_device(3);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct problem p = {0};
        float *all = malloc(ROWS * ENTRIES * sizeof *all);
        open_problem(&p, 128);
        fill(&p, 2);
        spoil(&p);
        check_sets(&p, device);
        memcpy(all, p.score, ROWS * ENTRIES * sizeof *all);
        choose_blocks(&p, sizes[s]);
        check_sets(&p, device);
        for (uint32_t r = 0; r < ROWS; r++) {
            uint32_t n = 0;
            for (uint32_t i = 0; i < p.n_blocks[r] * sizes[s]; i++) {
                uint32_t entry = p.blocks[r * BLOCKS + i / sizes[s]] * sizes[s] + i % sizes[s];
                if (entry < p.visible[r])
                    assert_memory_equal(&p.score[r * ENTRIES + n++], &all[r * ENTRIES + entry], 4);
            }
            for (; n < ENTRIES; n++)
                assert_memory_equal(&p.score[r * ENTRIES + n], "\xAA\xAA\xAA\xAA", 4);
        }
        close_problem(&p);
        free(all);
    }
    lf_check_device_close(device);
}

// The portable set has the definition alone; sums of codes take its place where they are exact.
static void sums_of_codes_have_the_bits_of_the_definition(void **unused) {
    (void)unused;
    struct lf_device *device = lf_check_device(2);
    static const uint32_t dims[] = {32, 96, 128, 256};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        struct problem p = {0};
        open_problem(&p, dims[d]);
        for (uint32_t spread = 0; spread < 9; spread++) {
            fill(&p, spread);
            check_sets(&p, device);
            spoil(&p);
            check_sets(&p, device);
        }
        close_problem(&p);
    }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
        cmocka_unit_test(the_entries_of_blocks_have_the_scores_that_they_have_among_all),
        cmocka_unit_test(sums_of_codes_have_the_bits_of_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
