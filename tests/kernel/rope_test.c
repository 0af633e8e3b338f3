#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>
#include "base/number.h"
#include "kernel/rope/rope.h"
#include "kernel_check.h"
#include "model/rope_table.h"
#include "vectors.h"

enum { ROWS = 17, HEADS = 3, HEAD = 40, ROPE = 16, PAIRS = ROPE / 2, STRIDE = HEADS * HEAD + 5 };

typedef void kernel_fn(struct lf_device *device, const struct lf_rope_args *args);

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
    struct lf_device *device = lf_check_device(threads);
    size_t bytes = (rows * STRIDE - 5) * sizeof(uint16_t);
    struct lf_check_buffer x = lf_check_open(bytes, 0);
    struct lf_rope_args args = arguments(p, first, rows, inverse);
    memcpy(x.data, args.x, bytes);
    args.x = x.data;
    kernel(device, &args);
    lf_check_guards(&x, "rope");
    memcpy(out, x.data, bytes);
    lf_check_close(&x);
    lf_check_device_close(device);
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
    struct lf_device *device = lf_check_device(1);
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
        lf_rope_avx2(device, &args);
        expect_row(vectors_get(row, "forward"), x);
        args.inverse = 1;
        lf_rope_avx2(device, &args);
        expect_row(vectors_get(row, "inverse_of_forward"), x);
    }
    assert_int_equal(n, 4);
    lf_check_device_close(device);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_come_out),
        cmocka_unit_test(nan_shows_in_its_pair_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
