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

enum { LANES = 3, LENGTH = 260, RING = 128, ROWS_MAX = 40, U16_NAN = 0x7FC0 };

// Whole sequences of three lanes: what any call of any rows reads.
struct world {
    uint32_t heads, dim, window, topk;
    float scale, sink[8];
    uint16_t *q;            // [LANES][LENGTH][heads][dim]
    uint8_t *keys;          // QA8 [LANES][LENGTH]
    uint8_t *page[LANES][3];
    uint32_t *selected;     // [LANES][LENGTH][topk]
    uint32_t n_selected[LANES][LENGTH];
    struct lf_pool *pool[4];
    int whole_span, no_entries;
};

struct call {
    uint32_t rows, n_spans;
    struct lf_row row[ROWS_MAX];
    struct lf_span span[LANES];
};

static void fill_rows(struct world *w, struct lf_check_rng *rng, enum lf_check_style style) {
    uint16_t x[512];
    uint8_t code[32];
    size_t qa8 = lf_qa8_row_bytes(w->dim), qf4s = lf_qf4s_row_bytes(w->dim);
    for (uint32_t i = 0; i < LANES * LENGTH; i++) {
        lf_check_fill_bf16(rng, style, 1.0f, x, w->dim);
        for (uint32_t g = 0; g < w->dim / 32; g++)
            w->keys[i * qa8 + w->dim + g] = lf_qa8_group(x + 32 * g, w->keys + i * qa8 + 32 * g);
    }
    for (uint32_t i = 0; i < LANES * LENGTH; i++) {
        uint8_t *at = w->page[i / LENGTH][i % LENGTH / LF_PAGE_ROWS] + i % LENGTH % 128 * qf4s;
        lf_check_fill_bf16(rng, style, 1.0f, x, w->dim);
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

static struct world open_world(uint32_t heads, uint32_t dim, enum lf_check_style style) {
    struct lf_check_rng rng = {heads * 1000 + dim + (uint32_t)style};
    struct world w = {.heads = heads, .dim = dim, .window = 32, .topk = 90,
                      .scale = (float)(1.0 / sqrt((double)dim))};
    struct lf_error err = LF_ERROR_INIT;
    size_t n = (size_t)LANES * LENGTH;
    w.q = malloc(n * heads * dim * sizeof *w.q);
    w.keys = malloc(n * lf_qa8_row_bytes(dim));
    w.selected = calloc(n * w.topk, sizeof *w.selected);
    for (uint32_t i = 0; i < LANES * 3; i++)
        w.page[i / 3][i % 3] = malloc(LF_PAGE_ROWS * (size_t)lf_qf4s_row_bytes(dim));
    // wide keys meet small queries: scores beyond exp's range would make the bound void
    float q_scale = style == LF_STYLE_WIDE ? 0x1p-30f : 1.5f;
    lf_check_fill_bf16(&rng, style, q_scale, w.q, n * heads * dim);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, w.sink, heads);
    fill_rows(&w, &rng, style);
    fill_lists(&w, &rng);
    for (uint32_t threads = 1; threads <= 3; threads++)
        assert_int_equal(lf_pool_open(&w.pool[threads], threads,
                                      lf_attention_scratch_bytes(heads, dim), &err), LF_OK);
    return w;
}

static void close_world(struct world *w) {
    for (uint32_t i = 0; i < LANES * 3; i++)
        free(w->page[i / 3][i % 3]);
    for (uint32_t threads = 1; threads <= 3; threads++)
        lf_pool_close(w->pool[threads]);
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

typedef void kernel_fn(struct lf_pool *pool, const struct lf_attention_args *args);

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
static struct lf_check_buffer attend(const struct world *w, const struct call *call,
                                     kernel_fn *kernel, uint32_t threads) {
    struct operands o;
    size_t bytes = (size_t)call->rows * w->heads * w->dim * sizeof(uint16_t);
    struct lf_check_buffer out = lf_check_open(bytes, 0);
    gather(&o, w, call);
    lf_check_poison(&out, 0x5A);
    o.args.o = out.data;
    kernel(w->pool[threads], &o.args);
    lf_check_guards(&out, "attention");
    release(&o);
    return out;
}

static void check_same(const struct world *w, const char *what, const struct call *call,
                       const struct lf_check_buffer *out) {
    size_t bytes = (size_t)w->heads * w->dim * sizeof(uint16_t);
    for (uint32_t r = 0; r < call->rows; r++) {
        struct call alone = {0};
        add_span(&alone, call->row[r].lane, call->row[r].position, 1);
        struct lf_check_buffer one = attend(w, &alone, lf_attention_avx2, 1);
        lf_check_same(what, (uint8_t *)out->data + r * bytes, one.data, bytes);
        lf_check_close(&one);
    }
}

// The contract's bound for one head, from the float64 scores of its list.
static void bound_head(const struct world *w, const struct operands *o, uint32_t r, uint32_t head,
                       const double *ref, double *limit) {
    uint32_t dim = w->dim, lane = o->args.row[r].lane, n = 0;
    uint64_t p = o->args.row[r].position, first = p + 1 > w->window ? p + 1 - w->window : 0;
    float key[256][512];
    double z[256], magnitude[256], m = -INFINITY, u = 0x1p-24;
    for (uint64_t t = first; t <= p; t++)
        lf_qa8_widen(key[n++], w->keys + (lane * LENGTH + t) * lf_qa8_row_bytes(dim), dim);
    for (uint32_t i = 0; i < o->n_selected[r]; i++)
        lf_qf4s_widen(key[n++], lf_paged_row(&o->paged[lane], o->selected[r * w->topk + i],
                                             lf_qf4s_row_bytes(dim)), dim);
    const uint16_t *q = o->q + ((size_t)r * w->heads + head) * dim;
    for (uint32_t t = 0; t < n; t++) {
        z[t] = magnitude[t] = 0.0;
        for (uint32_t d = 0; d < dim; d++) {
            double v = (double)lf_bf16_to_f32(q[d]) * (double)key[t][d] * (double)w->scale;
            z[t] += v;
            magnitude[t] += fabs(v);
        }
        m = fmax(m, z[t]);
    }
    double blocks = ceil(n / 64.0), sums = lf_check_gamma(8.0 + blocks), sink = w->sink[head];
    double total = exp(sink - m), off = total * expm1(u * fabs(sink - m) + 4.0 * u);
    memset(limit, 0, dim * sizeof *limit);
    for (uint32_t t = 0; t < n; t++) {
        double e = lf_check_gamma(dim / 16.0 + 5.0) * magnitude[t] +
                   u * (fabs(z[t]) + fabs(z[t] - m)) + (3.0 * blocks + 4.0) * u;
        double weight = exp(z[t] - m);
        total += weight;
        off += weight * (expm1(e) + sums);
        for (uint32_t d = 0; d < dim; d++)
            limit[d] += weight * fabs((double)key[t][d]) * (expm1(e) + sums + 0x1p-8) * 1.01;
    }
    for (uint32_t d = 0; d < dim; d++)
        limit[d] = (limit[d] + fabs(ref[d]) * off) / (total - off) + u * fabs(ref[d]) + 1e-37;
}

static void check_bound(uint32_t heads, uint32_t dim, enum lf_check_style style) {
    struct world w = open_world(heads, dim, style);
    struct call call = {0};
    add_span(&call, 0, 61, 2);
    add_span(&call, 1, 0, 3);
    add_span(&call, 2, 250, 3);
    struct operands o;
    gather(&o, &w, &call);
    size_t n = (size_t)call.rows * heads * dim;
    double *ref = malloc(n * sizeof *ref), *limit = malloc(n * sizeof *limit);
    lf_attention_f64(&o.args, ref);
    for (uint32_t i = 0; i < call.rows * heads; i++)
        bound_head(&w, &o, i / heads, i % heads, ref + (size_t)i * dim, limit + (size_t)i * dim);
    struct lf_check_buffer out = attend(&w, &call, lf_attention_avx2, 2);
    double worst = lf_check_bound_bf16(lf_check_style_name(style), out.data, ref, limit, n);
    print_message("%s %ux%u: worst ratio %.3f\n", lf_check_style_name(style), heads, dim, worst);
    assert_true(worst > 0.05);
    lf_check_close(&out);
    release(&o);
    free(ref);
    free(limit);
    close_world(&w);
}

static void every_element_is_within_its_bound_of_float64(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(5, 64, style);
        check_bound(2, 512, style);
    }
}

// positions 0, 1, W-1, W, W+1, page and block edges, calls of 1 .. 17 rows cut anywhere
static void rows_alone_equal_rows_in_any_call(void **state) {
    (void)state;
    struct world w = open_world(5, 64, LF_STYLE_NORMAL);
    static const uint32_t sizes[] = {2, 3, 8, 17};
    for (uint32_t i = 0; i < 4; i++) {
        struct call call = {0};
        add_span(&call, 2, 29 + i, sizes[i]);
        add_span(&call, 0, 0, 2);
        add_span(&call, 1, 120 + 40 * i, sizes[i]);
        struct lf_check_buffer out = attend(&w, &call, lf_attention_avx2, 1 + i % 3);
        check_same(&w, "a row in a call", &call, &out);
        lf_check_close(&out);
    }
    close_world(&w);
}

static void hostile_rows_touch_no_other_row(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++) {
        struct world w = open_world(5, 64, LF_STYLE_NORMAL);
        size_t wide = (size_t)w.heads * w.dim;
        lf_check_fill_hostile(kind, w.q + (1 * LENGTH + 101) * wide, wide);
        struct call call = {0};
        add_span(&call, 0, 70, 3);
        add_span(&call, 1, 100, 4);
        struct lf_check_buffer out = attend(&w, &call, lf_attention_avx2, 2);
        check_same(&w, "a row beside a hostile one", &call, &out);
        const uint16_t *o = out.data;
        for (size_t i = 0; i < wide; i++) {
            int is_nan = (o[4 * wide + i] & 0x7FFF) > 0x7F80;
            assert_int_equal(is_nan, kind < 3); // the largest finite overflows
            assert_false((o[3 * wide + i] & 0x7FFF) > 0x7F80);
            assert_false((o[5 * wide + i] & 0x7FFF) > 0x7F80);
        }
        lf_check_close(&out);
        close_world(&w);
    }
}

// a lone own key of one sign against an infinite q: the softmax of -infinity is not a silent 0
static void minus_infinity_shows_as_nan(void **state) {
    (void)state;
    struct world w = open_world(5, 64, LF_STYLE_NORMAL);
    memset(w.keys, 0x38, lf_qa8_row_bytes(w.dim));
    for (uint32_t d = 0; d < w.dim; d++)
        w.q[d] = 0xFF80;
    struct call call = {0};
    add_span(&call, 0, 0, 1);
    struct lf_check_buffer out = attend(&w, &call, lf_attention_avx2, 1);
    for (uint32_t d = 0; d < w.dim; d++)
        assert_int_equal(((uint16_t *)out.data)[d], U16_NAN);
    assert_true((((uint16_t *)out.data)[w.dim] & 0x7FFF) < 0x7F80);
    lf_check_close(&out);
    close_world(&w);
}

// a NaN code in a window key or an entry reaches the rows that read it, and no other
static void a_nan_key_shows_only_where_it_is_read(void **state) {
    (void)state;
    struct world w = open_world(5, 64, LF_STYLE_NORMAL);
    struct call call = {0};
    add_span(&call, 0, 100, 3);
    add_span(&call, 1, 100, 2);
    struct lf_check_buffer before = attend(&w, &call, lf_attention_avx2, 1);
    w.keys[(LENGTH + 101) * lf_qa8_row_bytes(w.dim) + 7] = 0x7F;
    w.n_selected[0][101] = 1;
    w.selected[101 * w.topk] = 3;
    for (uint32_t p = 100; p <= 102; p += 2)
        w.n_selected[0][p] = 0;
    w.page[0][0][3 * lf_qf4s_row_bytes(w.dim) + w.dim / 2] = 0xFF;
    struct lf_check_buffer after = attend(&w, &call, lf_attention_avx2, 1);
    size_t wide = (size_t)w.heads * w.dim;
    static const int nan_row[5] = {0, 1, 0, 0, 1};
    for (size_t i = 0; i < 5 * wide; i++) {
        int is_nan = ((uint16_t *)after.data)[i] == U16_NAN;
        assert_int_equal(is_nan, nan_row[i / wide]);
    }
    lf_check_same("the row beside", (uint16_t *)before.data + 3 * wide,
                  (uint16_t *)after.data + 3 * wide, wide * 2);
    lf_check_close(&before);
    lf_check_close(&after);
    close_world(&w);
}

static void portable_and_avx2_and_all_thread_counts_agree(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        struct world w = open_world(5, 64, style);
        size_t wide = (size_t)w.heads * w.dim;
        lf_check_fill_hostile((uint32_t)style, w.q + (LENGTH + 40) * wide, wide);
        struct call call = {0};
        add_span(&call, 1, 39, 3);
        add_span(&call, 2, 201, 1);
        struct lf_check_buffer a = attend(&w, &call, lf_attention_portable, 1);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            struct lf_check_buffer b = attend(&w, &call, lf_attention_avx2, threads);
            lf_check_same("avx2 against portable", b.data, a.data, a.bytes);
            lf_check_close(&b);
        }
        struct call alone = {0};
        add_span(&alone, 2, 201, 1);
        struct lf_check_buffer b = attend(&w, &alone, lf_attention_avx2, 3);
        lf_check_same("heads shared out", b.data, (uint16_t *)a.data + 3 * wide, b.bytes);
        lf_check_close(&b);
        lf_check_close(&a);
        close_world(&w);
    }
}

// engine.md X-1, chunk independence: the window comes from the ring, from the call, from both
static void cuts_of_a_prompt_give_the_same_bits(void **state) {
    (void)state;
    struct world w = open_world(5, 64, LF_STYLE_NORMAL);
    struct call whole = {0}, head = {0}, tail = {0};
    add_span(&whole, 0, 40, 40);
    add_span(&head, 0, 40, 13);
    add_span(&tail, 0, 53, 27);
    struct lf_check_buffer a = attend(&w, &whole, lf_attention_avx2, 2);
    struct lf_check_buffer b = attend(&w, &head, lf_attention_avx2, 2);
    struct lf_check_buffer c = attend(&w, &tail, lf_attention_avx2, 2);
    lf_check_same("the first part", a.data, b.data, b.bytes);
    lf_check_same("the second part", (uint8_t *)a.data + b.bytes, c.data, c.bytes);
    lf_check_close(&a);
    lf_check_close(&b);
    lf_check_close(&c);
    close_world(&w);
}

// model.md 12.3: rows of a call may be dropped, the others keep their places
static void dropped_rows_change_nothing(void **state) {
    (void)state;
    struct world w = open_world(5, 64, LF_STYLE_NORMAL);
    struct call call = {0};
    add_span(&call, 0, 40, 20);
    struct lf_check_buffer all = attend(&w, &call, lf_attention_avx2, 1);
    struct operands o;
    gather(&o, &w, &call);
    size_t wide = (size_t)w.heads * w.dim;
    uint16_t *out = malloc(3 * wide * sizeof *out);
    o.args.rows = 3;
    o.args.row += 17;
    o.args.q += 17 * wide;
    o.args.selected += 17 * w.topk;
    o.args.n_selected += 17;
    o.args.o = out;
    lf_attention_avx2(w.pool[1], &o.args);
    lf_check_same("the last rows", out, (uint16_t *)all.data + 17 * wide, 6 * wide);
    free(out);
    release(&o);
    lf_check_close(&all);
    close_world(&w);
}

static void no_entries_is_the_empty_list(void **state) {
    (void)state;
    struct world w = open_world(5, 64, LF_STYLE_NORMAL);
    struct call call = {0};
    add_span(&call, 0, 60, 5);
    w.no_entries = 1;
    struct lf_check_buffer a = attend(&w, &call, lf_attention_avx2, 1);
    w.no_entries = 0;
    memset(w.n_selected, 0, sizeof w.n_selected);
    struct lf_check_buffer b = attend(&w, &call, lf_attention_avx2, 1);
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
        struct world w = open_world(5, 64, LF_STYLE_NORMAL);
        size_t wide = (size_t)w.heads * w.dim, at = starts[i] * wide;
        for (uint32_t j = 0; j < 4; j++)
            memcpy(w.q + at + j * wide, w.q + at + 4 * wide, wide * sizeof *w.q);
        w.no_entries = 1;
        struct call call = {0};
        add_span(&call, 0, starts[i], 5);
        w.whole_span = 1;
        struct lf_check_buffer block = attend(&w, &call, lf_attention_avx2, 1);
        w.whole_span = 0;
        w.window += 5;
        struct lf_check_buffer last = attend(&w, &call, lf_attention_avx2, 1);
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
    struct lf_pool *pool = lf_check_pool(1);
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
    lf_attention_avx2(pool, &args);
    double f64[2][32];
    lf_attention_f64(&args, f64[0]);
    for (size_t h = 0; h < 2; h++)
        for (size_t d = 0; d < 4; d++) {
            double want = vectors_number(json_array_get(vectors_get(v, "out"), h), d);
            assert_true(fabs(f64[h][d] - want) < 1e-7);
            assert_true(fabs((double)lf_bf16_to_f32(o[h][d]) - want) <= 0x1p-7);
        }
    lf_pool_close(pool);
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
        cmocka_unit_test(every_element_is_within_its_bound_of_float64),
        cmocka_unit_test(rows_alone_equal_rows_in_any_call),
        cmocka_unit_test(hostile_rows_touch_no_other_row),
        cmocka_unit_test(minus_infinity_shows_as_nan),
        cmocka_unit_test(a_nan_key_shows_only_where_it_is_read),
        cmocka_unit_test(portable_and_avx2_and_all_thread_counts_agree),
        cmocka_unit_test(cuts_of_a_prompt_give_the_same_bits),
        cmocka_unit_test(dropped_rows_change_nothing),
        cmocka_unit_test(no_entries_is_the_empty_list),
        cmocka_unit_test(a_draft_block_sees_all_its_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
