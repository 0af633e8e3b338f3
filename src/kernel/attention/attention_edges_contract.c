// What is tested of attention on purpose: positions, lists, odd values, rounding points, windows.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "kernel/attention/attention_contract.h"

enum { COSTLY = 1 << 18, WINDOWS_MAX = 24 };

static const struct attention_shape *shape_of(const struct lf_shape *shape) {
    return (const void *)shape->args;
}

// Every position and kind of list of the record, as many as the shape's cost allows.
static void positions(struct lf_trial *trial, const struct lf_shape *shape) {
    uint32_t rows = shape->work > COSTLY ? 2 : 14;
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
    lf_call_judge(call);
    lf_call_close(call);
}

// Entries at both ends of pages, the first and the newest.
static void page_ends(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct attention_shape *s = shape_of(shape);
    uint32_t entry[] = {0, 127, 128, 255, 256, s->entries - 1}, n = 6;
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    n = n < s->args.topk ? n : s->args.topk;
    for (uint32_t i = 0; i < n; i++)
        *(uint32_t *)lf_call_at(call, SELECTED, 0, i) = entry[i];
    *(uint32_t *)lf_call_at(call, N_SELECTED, 0, 0) = n;
    lf_call_judge(call);
    // The scale of entry 0: all heads of the row that reads it are NaN.
    *(uint8_t *)lf_call_at(call, ENTRY, 0, s->args.head_dim / 2) = 0x7F;
    lf_call_judge(call);
    lf_call_close(call);
}

// A key that is NaN is felt by all heads of its row, a query's odd value by its head alone.
static void odd_values(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7FC1, 0x7F80, 0xFF80};
    const struct attention_shape *s = shape_of(shape);
    uint32_t dim = s->args.head_dim, qa8 = lf_qa8_row_bytes(dim);
    for (uint32_t i = 0; i < 3; i++) {
        struct lf_call *call = lf_call_open(trial, shape, 3, LF_STYLE_NORMAL);
        const struct attention_place *place = lf_call_at(call, PLACE, 1, 0);
        *(uint16_t *)lf_call_at(call, Q, 0, (s->args.heads - 1) * dim + 5) = odd[i];
        *(uint8_t *)lf_call_at(call, CALL_KEYS, 1, place->offset * qa8 + 7 * i) = i ? 0x7F : 0xFF;
        if (s->entries)
            *(uint8_t *)lf_call_at(call, ENTRY, 2, dim / 2) = 0x7F; // read by no list of row 2
        lf_call_judge(call);
        lf_call_close(call);
    }
}

// Kinds as float64 has them; the largest finite overflow in float32 and so become NaN.
static void hostile_queries(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct attention_shape *s = shape_of(shape);
    size_t wide = (size_t)s->args.heads * s->args.head_dim;
    for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++) {
        struct lf_call *call = lf_call_open(trial, shape, 3, LF_STYLE_NORMAL);
        lf_check_fill_hostile(kind, lf_call_at(call, Q, 1, 0), wide);
        if (kind != 2)
            lf_call_judge(call);
        else
            lf_call_run(call);
        for (size_t i = 0; kind == 2 && i < wide; i++)
            lf_expect_bits(call, O, 1, i, 0x7FC0, "a score is not finite");
        lf_call_close(call);
    }
}

// Equal scores, sinks that take all of the weight or none.
static void sinks(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float sink[] = {-90.0f, 60.0f, -0.0f};
    const struct attention_shape *s = shape_of(shape);
    for (uint32_t i = 0; i < 3; i++) {
        struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
        for (uint32_t h = 0; h < s->args.heads; h++)
            memcpy(lf_call_at(call, SINK, 0, h), &sink[i], sizeof *sink);
        memset(lf_call_at(call, Q, 0, 0), 0, (size_t)s->args.heads * s->args.head_dim * 2);
        lf_call_judge(call);
        lf_call_close(call);
    }
}

// model.md 8.8: weights of the value sum are bf16, those of the denominator float32.
static void rounding_points(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct attention_shape *s = shape_of(shape);
    uint32_t dim = s->args.head_dim;
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    struct attention_place *place = lf_call_at(call, PLACE, 0, 0);
    double *ref = malloc(2 * dim * sizeof *ref);
    LF_ASSERT(ref);
    place->position = s->args.window < 60 ? s->args.window - 1 : 59;
    place->offset = 0;
    if (s->entries)
        *(uint32_t *)lf_call_at(call, N_SELECTED, 0, 0) = 0;
    lf_call_judge(call);
    struct lf_attention_args *a = (void *)call->args;
    struct attention_list list = lf_attention_f64_list(a, 0);
    for (uint32_t h = 0; h < a->heads && list.n <= 64; h++) {
        lf_attention_bound(a, 0, h, list, true, lf_call_own_sums(call), ref, ref + dim);
        for (uint32_t d = 0; d < dim; d++)
            lf_judge_element(call, O, 0, (size_t)h * dim + d, ref[d], ref[dim + d]);
    }
    free(list.key);
    free(ref);
    lf_call_close(call);
}

void lf_attention_edges(struct lf_trial *trial, const struct lf_shape *shape) {
    positions(trial, shape);
    rounding_points(trial, shape);
    if (shape_of(shape)->entries)
        page_ends(trial, shape);
    if (shape->work > COSTLY)
        return;
    odd_values(trial, shape);
    hostile_queries(trial, shape);
    sinks(trial, shape);
}

// Rows first .. first+rows-1 of the whole call as a window, the ring as earlier windows left it.
static struct lf_call *open_window(struct lf_trial *trial, const struct lf_shape *shape,
                                   const struct lf_call *whole, uint32_t first, uint32_t rows) {
    const struct attention_shape *s = shape_of(shape);
    size_t qa8 = lf_qa8_row_bytes(s->args.head_dim);
    size_t wide = (size_t)s->args.heads * s->args.head_dim * sizeof(uint16_t);
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
    const struct attention_place *place = lf_call_at(whole, PLACE, 0, 0);
    const uint8_t *key = lf_call_at(whole, CALL_KEYS, 0, 0);
    memcpy(lf_call_at(call, RING, 0, 0), lf_call_at(whole, RING, 0, 0), s->args.ring_rows * qa8);
    for (uint32_t i = 0; i < first; i++)
        memcpy(lf_call_at(call, RING, 0, (place[i].position % s->args.ring_rows) * qa8),
               key + i * qa8, qa8);
    memcpy(lf_call_at(call, CALL_KEYS, 0, 0), key + first * qa8, rows * qa8);
    for (uint32_t i = 0; i < rows; i++) {
        struct attention_place *to = lf_call_at(call, PLACE, i, 0);
        *to = (struct attention_place){.position = place[first + i].position, .follows = i > 0};
        memcpy(lf_call_at(call, Q, i, 0), lf_call_at(whole, Q, first + i, 0), wide);
        if (!s->entries)
            continue;
        memcpy(lf_call_at(call, SELECTED, i, 0), lf_call_at(whole, SELECTED, first + i, 0),
               s->args.topk * sizeof(uint32_t));
        memcpy(lf_call_at(call, N_SELECTED, i, 0), lf_call_at(whole, N_SELECTED, first + i, 0),
               sizeof(uint32_t));
    }
    return call;
}

static void compare(struct lf_call *call, const struct lf_call *whole, uint32_t first) {
    const struct attention_shape *s = (const void *)call->args;
    size_t wide = (size_t)s->args.heads * s->args.head_dim;
    for (uint32_t i = 0; i < call->rows; i++)
        for (size_t c = 0; c < wide; c++)
            lf_expect_bits(call, O, i, c, *(uint16_t *)lf_call_at(whole, O, first + i, c),
                           "the rows in one window give this");
}

// The rows of one lane in one call, then cut: keys come from the call, from the ring, from both.
void lf_attention_windows(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint32_t widths[] = {1, 2, 7, 16};
    const struct attention_shape *s = shape_of(shape);
    uint32_t rows = shape->work > COSTLY ? 3 : WINDOWS_MAX;
    if (s->args.whole_span)
        return; // a draft block is never cut
    struct lf_call *whole = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
    for (uint32_t i = 0; i < rows; i++) {
        struct attention_place *place = lf_call_at(whole, PLACE, i, 0);
        *place = (struct attention_place){.position = 2 * s->args.ring_rows - 3u + i,
                                          .follows = i > 0};
    }
    lf_call_run(whole);
    for (uint32_t w = 0; w < 4; w++)
        for (uint32_t first = 0; first < rows; first += widths[w]) {
            uint32_t n = rows - first < widths[w] ? rows - first : widths[w];
            if (n == rows) // the whole again
                continue;
            struct lf_call *call = open_window(trial, shape, whole, first, n);
            lf_call_run(call);
            compare(call, whole, first);
            lf_call_close(call);
        }
    lf_call_close(whole);
}
