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
#include "kernel/attention/attention.h"
#include "kernel/cache_row.h"
#include "kernel_check.h"
#include "vectors.h"

enum { LANES = 3, LENGTH = 260, RING = 128, ROWS_MAX = 40 };

// Whole sequences of three lanes: what any call of any rows reads.
struct world {
    uint32_t heads, dim, window, topk;
    float scale, sink[8];
    uint16_t *q;            // [LANES][LENGTH][heads][dim]
    uint8_t *keys;          // QA8 [LANES][LENGTH]
    uint8_t *page[LANES][3];
    uint32_t *selected;     // [LANES][LENGTH][topk]
    uint32_t n_selected[LANES][LENGTH];
    struct lf_device device;
    int whole_span, no_entries;
};

struct call {
    uint32_t rows, n_spans;
    struct lf_row row[ROWS_MAX];
    struct lf_span span[LANES];
};

static void fill_rows(struct world *w, struct lf_check_rng *rng) {
    uint16_t x[512];
    uint8_t code[32];
    size_t qa8 = lf_qa8_row_bytes(w->dim), qf4s = lf_qf4s_row_bytes(w->dim);
    for (uint32_t i = 0; i < LANES * LENGTH; i++) {
        lf_check_fill_bf16(rng, LF_STYLE_NORMAL, 1.0f, x, w->dim);
        for (uint32_t g = 0; g < w->dim / 32; g++)
            w->keys[i * qa8 + w->dim + g] = lf_qa8_group(x + 32 * g, w->keys + i * qa8 + 32 * g);
    }
    for (uint32_t i = 0; i < LANES * LENGTH; i++) {
        uint8_t *at = w->page[i / LENGTH][i % LENGTH / LF_PAGE_ROWS] + i % LENGTH % 128 * qf4s;
        lf_check_fill_bf16(rng, LF_STYLE_NORMAL, 1.0f, x, w->dim);
        for (uint32_t g = 0; g < w->dim / 16; g++) {
            at[w->dim / 2 + g] = lf_qf4s_group(x + 16 * g, code);
            for (uint32_t j = 0; j < 8; j++)
                at[8 * g + j] = (uint8_t)(code[2 * j] | code[2 * j + 1] << 4);
        }
    }
}

// n_selected walks through 0, one, all that fit, and lists that end on a block of 64.
static void fill_lists(struct world *w, struct lf_check_rng *rng) {
    for (uint32_t i = 0; i < LANES * LENGTH; i++) {
        uint32_t p = i % LENGTH, window = p + 1 < w->window ? p + 1 : w->window;
        uint32_t visible = p + 1, n = lf_check_below(rng, visible + 1);
        if (p % 5 == 0)
            n = 0;
        if (p % 5 == 1)
            n = (64 - window % 64) % 64;
        n = n > w->topk ? w->topk : n > visible ? visible : n;
        w->n_selected[i / LENGTH][p] = n;
        for (uint32_t j = 0; j < n; j++)
            w->selected[(size_t)i * w->topk + j] = (uint32_t)((uint64_t)j * visible / n);
    }
}

static struct world open_world(uint32_t heads, uint32_t dim) {
    struct lf_check_rng rng = {heads * 1000 + dim};
    struct world w = {.heads = heads, .dim = dim, .window = 32, .topk = 90,
                      .scale = (float)(1.0 / sqrt((double)dim))};
    struct lf_error err = LF_ERROR_INIT;
    size_t n = (size_t)LANES * LENGTH;
    w.q = malloc(n * heads * dim * sizeof *w.q);
    w.keys = malloc(n * lf_qa8_row_bytes(dim));
    w.selected = calloc(n * w.topk, sizeof *w.selected);
    for (uint32_t i = 0; i < LANES * 3; i++)
        w.page[i / 3][i % 3] = malloc(LF_PAGE_ROWS * (size_t)lf_qf4s_row_bytes(dim));
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.5f, w.q, n * heads * dim);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, w.sink, heads);
    fill_rows(&w, &rng);
    fill_lists(&w, &rng);
    assert_int_equal(lf_pool_open(&w.device.pool, 2, lf_attention_scratch_bytes(heads, dim), &err),
                     LF_OK);
    return w;
}

static void close_world(struct world *w) {
    for (uint32_t i = 0; i < LANES * 3; i++)
        free(w->page[i / 3][i % 3]);
    lf_pool_close(w->device.pool);
    free(w->q);
    free(w->keys);
    free(w->selected);
}

static void add_span(struct call *call, uint32_t lane, uint64_t pos0, uint32_t rows) {
    call->span[lane] = (struct lf_span){call->rows, rows, pos0};
    for (uint32_t i = 0; i < rows; i++) {
        call->row[call->rows] = (struct lf_row){.lane = lane, .position = pos0 + i,
                                                .index = call->rows};
        call->rows++;
    }
}

struct operands {
    struct lf_attention_args args;
    struct lf_paged paged[LANES];
    uint8_t *ring[LANES], *call_keys;
    uint16_t *q;
    uint32_t *selected, n_selected[ROWS_MAX];
    char sink[1 + 8 * sizeof(float)];
};

// Lays one call's operands out as the model does: older keys in rings, the call's own beside them.
static void gather(struct operands *o, const struct world *w, const struct call *call) {
    size_t bytes = lf_qa8_row_bytes(w->dim), wide = (size_t)w->heads * w->dim;
    o->q = malloc(call->rows * wide * sizeof *o->q);
    o->selected = malloc(call->rows * w->topk * sizeof *o->selected);
    o->call_keys = malloc(call->rows * bytes);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        o->ring[lane] = malloc(RING * bytes);
        memset(o->ring[lane], 0x7F, RING * bytes);
        uint64_t end = call->span[lane].pos0;
        for (uint64_t p = end > RING ? end - RING : 0; p < end; p++)
            memcpy(o->ring[lane] + p % RING * bytes, w->keys + (lane * LENGTH + p) * bytes, bytes);
        o->paged[lane].page = (uint8_t **)w->page[lane];
    }
    for (uint32_t r = 0; r < call->rows; r++) {
        size_t at = call->row[r].lane * LENGTH + call->row[r].position;
        memcpy(o->q + r * wide, w->q + at * wide, wide * sizeof *o->q);
        memcpy(o->call_keys + r * bytes, w->keys + at * bytes, bytes);
        memcpy(o->selected + r * w->topk, w->selected + at * w->topk, w->topk * sizeof(uint32_t));
        o->n_selected[r] = w->n_selected[call->row[r].lane][call->row[r].position];
    }
    memcpy(o->sink + 1, w->sink, sizeof w->sink);
    o->args = (struct lf_attention_args){
        .rows = call->rows, .heads = w->heads, .head_dim = w->dim, .row = call->row, .q = o->q,
        .scale = w->scale, .sink = (const float *)(const void *)(o->sink + 1),
        .window = w->window, .whole_span = w->whole_span,
        .span = call->span, .call_keys = o->call_keys, .ring = o->ring, .ring_rows = RING,
        .entries = w->no_entries ? NULL : o->paged, .selected = o->selected,
        .n_selected = o->n_selected, .topk = w->topk};
}

static void release(struct operands *o) {
    for (uint32_t lane = 0; lane < LANES; lane++)
        free(o->ring[lane]);
    free(o->q);
    free(o->selected);
    free(o->call_keys);
}

// The output, between guards: [rows][heads][dim]; the caller closes it.
static struct lf_check_buffer attend(struct world *w, const struct call *call) {
    struct operands o;
    size_t bytes = (size_t)call->rows * w->heads * w->dim * sizeof(uint16_t);
    struct lf_check_buffer out = lf_check_open(bytes, 0);
    gather(&o, w, call);
    lf_check_poison(&out, 0x5A);
    o.args.o = out.data;
    lf_attention_avx2(&w->device, &o.args);
    lf_check_guards(&out, "attention");
    release(&o);
    return out;
}

static void no_entries_is_the_empty_list(void **state) {
    (void)state;
    struct world w = open_world(5, 64);
    struct call call = {0};
    add_span(&call, 0, 60, 5);
    w.no_entries = 1;
    struct lf_check_buffer a = attend(&w, &call);
    w.no_entries = 0;
    memset(w.n_selected, 0, sizeof w.n_selected);
    struct lf_check_buffer b = attend(&w, &call);
    lf_check_same("window only", a.data, b.data, a.bytes);
    lf_check_close(&a);
    lf_check_close(&b);
    close_world(&w);
}

// model.md 11.4: every draft row reads the W context rows before the block and the whole block
static void a_draft_block_sees_all_its_rows(void **state) {
    (void)state;
    static const uint64_t starts[] = {3, 32, 100};
    for (uint32_t i = 0; i < 3; i++) {
        struct world w = open_world(5, 64);
        size_t wide = (size_t)w.heads * w.dim, at = starts[i] * wide;
        for (uint32_t j = 0; j < 4; j++)
            memcpy(w.q + at + j * wide, w.q + at + 4 * wide, wide * sizeof *w.q);
        w.no_entries = 1;
        struct call call = {0};
        add_span(&call, 0, starts[i], 5);
        w.whole_span = 1;
        struct lf_check_buffer block = attend(&w, &call);
        w.whole_span = 0;
        w.window += 5;
        struct lf_check_buffer last = attend(&w, &call);
        for (uint32_t j = 0; j < 5; j++)
            lf_check_same("a row of the block", (uint16_t *)block.data + j * wide,
                          (uint16_t *)last.data + 4 * wide, 2 * wide);
        lf_check_close(&block);
        lf_check_close(&last);
        close_world(&w);
    }
}

// blocks.json: a sink, an empty slot left out; two of the keys as compressed entries
static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "attention");
    struct lf_device *device = lf_check_device(1);
    uint16_t q[2][32] = {{0}}, o[2][32];
    uint8_t window[33] = {0}, page[3 * 18] = {0}, *pages[1] = {page};
    float sink[2];
    for (size_t h = 0; h < 2; h++) {
        sink[h] = (float)vectors_number(vectors_get(v, "sink"), h);
        for (size_t d = 0; d < 4; d++)
            q[h][d] = lf_bf16_from_f32(
                (float)vectors_number(json_array_get(vectors_get(v, "q"), h), d));
    }
    const json_t *kv = vectors_get(v, "kv");
    for (size_t d = 0; d < 4; d++) {
        window[d] = lf_e4m3_from_f32((float)vectors_number(json_array_get(kv, 0), d));
        for (size_t row = 2; row <= 3; row++) {
            float x = (float)vectors_number(json_array_get(kv, row), d);
            page[(row - 1) * 18 + d / 2] |= (uint8_t)(lf_e2m1_from_f32(x) << d % 2 * 4);
            page[(row - 1) * 18 + 16] = 0x38;
        }
    }
    window[32] = 127;
    const uint32_t selected[2] = {1, 2}, n_selected = 2;
    const struct lf_row row = {0};
    const struct lf_span span = {.rows = 1};
    const struct lf_paged paged = {pages};
    struct lf_attention_args args = {
        .rows = 1, .heads = 2, .head_dim = 32, .row = &row, .q = q[0], .scale = 0.5f, .sink = sink,
        .window = 8, .span = &span, .call_keys = window, .ring_rows = 8, .entries = &paged,
        .selected = selected, .n_selected = &n_selected, .topk = 2, .o = o[0]};
    lf_attention_avx2(device, &args);
    double f64[2][32];
    lf_attention_f64(&args, f64[0]);
    for (size_t h = 0; h < 2; h++)
        for (size_t d = 0; d < 4; d++) {
            double want = vectors_number(json_array_get(vectors_get(v, "out"), h), d);
            assert_true(fabs(f64[h][d] - want) < 1e-7);
            assert_true(fabs((double)lf_bf16_to_f32(o[h][d]) - want) <= 0x1p-7);
        }
    lf_check_device_close(device);
    json_decref(file);
}

// model.md 3.1: the vectorizing decoders against the plain ones, for every code and scale
static void packed_rows_widen_exactly(void **state) {
    (void)state;
    for (uint32_t scale = 0; scale < 256; scale++) {
        uint8_t qa8[8 * 33], qf4s[18], qf4e[17];
        float a[256], b[32], c[32];
        for (uint32_t i = 0; i < 256; i++)
            qa8[i] = (uint8_t)i;
        memset(qa8 + 256, (int)scale, 8);
        for (uint32_t i = 0; i < 16; i++)
            qf4s[i] = qf4e[i] = (uint8_t)(i << 4 | (15 - i));
        qf4s[16] = qf4s[17] = qf4e[16] = (uint8_t)scale;
        lf_qa8_widen(a, qa8, 256);
        lf_qf4s_widen(b, qf4s, 32);
        lf_qf4e_widen(c, qf4e, 32);
        float power = lf_ue8m0_to_f32((uint8_t)scale), step = lf_e4m3_to_f32((uint8_t)scale);
        for (uint32_t i = 0; i < 256; i++) {
            float want = lf_e4m3_to_f32((uint8_t)i) * power;
            assert_true(a[i] == want || (isnan(a[i]) && isnan(want)));
        }
        for (uint32_t i = 0; i < 32; i++) {
            float code = lf_e2m1_to_f32(i % 2 ? (uint8_t)(i / 2) : (uint8_t)(15 - i / 2));
            assert_true(b[i] == code * step || (isnan(b[i]) && isnan(code * step)));
            assert_true(c[i] == code * power || (isnan(c[i]) && isnan(code * power)));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
        cmocka_unit_test(packed_rows_widen_exactly),
        cmocka_unit_test(no_entries_is_the_empty_list),
        cmocka_unit_test(a_draft_block_sees_all_its_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
