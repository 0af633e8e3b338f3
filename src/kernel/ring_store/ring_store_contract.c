// What the gates know of ring_store.
#include <string.h>
#include "contract/record.h"
#include "kernel/ring_store/ring_store.h"
#include "model/state.h"

enum { RULE, X, RING, ROW, SPAN, LANE, OPERANDS };
enum { DEPTH = 5 };

// What a row brings: rows of its lane before and after it in the call, and whether it is dropped.
struct rule {
    uint64_t position;
    uint32_t before, after, depth;
    uint32_t lane; // 1 + the lane of a call whose rows share one; 0: a lane of its own
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, const char *what,
                struct lf_ring_store_args args) {
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %s %u bytes, %u rows", model, what,
                  args.row_bytes, args.ring_rows);
}

// Window keys, raw rows of open pairs, one tapped layer of a row's taps (wide: fewer rows).
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    struct lf_state_shape s;
    lf_state_shape_init(&s, t, served->context);
    lf_state_shape_add_drafter(&s);
    struct lf_ring_store_args keys = {.row_bytes = s.window_bytes, .ring_pitch = s.window_bytes};
    keys.ring_rows = keys.kept = s.ring_rows, keys.depth_min = DEPTH;
    struct lf_ring_store_args open = {.row_bytes = 2 * t->head_dim * (uint32_t)sizeof(float)};
    open.ring_pitch = open.row_bytes, open.ring_rows = open.kept = s.open_rows;
    struct lf_ring_store_args taps = {.row_bytes = t->hidden * (uint32_t)sizeof(uint16_t)};
    taps.ring_pitch = s.tap_size * sizeof(uint16_t), taps.ring_rows = taps.kept = 4;
    add(shapes, served->name, served->chunk_rows, "keys", keys);
    add(shapes, served->name, served->chunk_rows, "open", open);
    if (s.tap_size)
        add(shapes, served->name, served->chunk_rows, "taps", taps);
}

static void ragged(struct lf_shapes *shapes) {
    struct lf_ring_store_args one = {.row_bytes = 1, .ring_pitch = 1, .ring_rows = 1, .kept = 1};
    struct lf_ring_store_args gaps = {.row_bytes = 33, .ring_pitch = 40, .ring_rows = 8,
                                      .kept = 5, .depth_min = DEPTH};
    add(shapes, "ragged", 64, "one", one);
    add(shapes, "ragged", 64, "gaps", gaps);
}

// A third of the rows is followed by more than a ring holds; a fifth was dropped before.
static void fill_rule(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_ring_store_args *a = fill->args;
    struct rule rule = {.position = 4096 + lf_check_below(fill->rng, 1 << 20)};
    rule.before = lf_check_below(fill->rng, 100);
    rule.after = fill->row % 3 == 1 ? a->kept : lf_check_below(fill->rng, a->kept);
    rule.depth = fill->row % 5 == 3 ? DEPTH - 1 : DEPTH;
    memcpy(data, &rule, n);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_ring_store_args *a = args;
    o[RULE] = lf_operand("rule", LF_RULE, LF_U8, sizeof(struct rule));
    o[RULE].fill = fill_rule;
    o[X] = lf_operand("x", LF_IN, LF_U8, a->row_bytes);
    o[X].align = 1;
    o[RING] = lf_operand("ring", LF_INOUT, LF_U8,
                         (a->ring_rows - 1) * a->ring_pitch + a->row_bytes);
    o[RING].align = 1;
    o[ROW] = lf_operand("row", LF_POINTER, LF_U64, sizeof(struct lf_row) / 8);
    o[SPAN] = lf_operand("span", LF_POINTER, LF_U64, sizeof(struct lf_span) / 8);
    o[LANE] = lf_operand("lanes", LF_POINTER, LF_U64, 1);
}

// Every place has a lane of its own; call places run the other way.
static void bind(const struct lf_call *call, void *args) {
    struct lf_ring_store_args *a = args;
    struct lf_row *row = call->data[ROW];
    struct lf_span *span = call->data[SPAN];
    uint8_t **lane = call->data[LANE];
    a->rows = call->rows, a->x = call->data[X];
    a->row = row, a->span = span, a->ring = lane;
    memset(span, 0, call->rows * sizeof *span);
    for (uint32_t r = 0; r < call->rows; r++) {
        const struct rule *rule = lf_call_at(call, RULE, r, 0);
        uint32_t own = rule->lane ? rule->lane - 1 : r;
        row[r] = (struct lf_row){.lane = own, .position = rule->position, .depth = rule->depth,
                                 .index = call->rows - 1 - r};
        span[own] = (struct lf_span){.pos0 = rule->position - rule->before,
                                     .rows = rule->before + 1 + rule->after};
        lane[r] = lf_call_at(call, RING, r, 0);
    }
}

static bool written(const void *args, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_ring_store_args *a = args;
    (void)operand;
    const struct lf_row *at = &a->row[row];
    const struct lf_span *span = &a->span[row];
    if (at->depth < a->depth_min || at->position + a->kept < span->pos0 + span->rows)
        return false;
    return column / a->ring_pitch == at->position % a->ring_rows &&
           column % a->ring_pitch < a->row_bytes;
}

// Rings as they ought to be, whole: what is not stored stays.
static void judge(struct lf_call *call, const double *ref) {
    const struct lf_ring_store_args *a = (const void *)call->args;
    size_t bytes = (a->ring_rows - 1) * a->ring_pitch + a->row_bytes;
    for (uint32_t row = 0; row < call->rows; row++, ref += bytes) {
        const uint8_t *ring = lf_call_at(call, RING, row, 0);
        for (size_t i = 0; i < bytes; i++)
            if (ring[i] != ref[i])
                lf_expect_bits(call, RING, row, i, (uint64_t)ref[i], "the ring by position");
    }
}

// A chunk of one lane, longer than the ring where it may be; another lane's ring stays as it is.
static void run_chunk(struct lf_trial *trial, const struct lf_shape *shape, uint64_t pos0,
                      uint32_t rows, uint32_t dropped) {
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
    for (uint32_t r = 0; r < rows; r++)
        *(struct rule *)lf_call_at(call, RULE, r, 0) =
            (struct rule){.position = pos0 + r, .before = r, .after = rows - 1 - r, .lane = 1,
                          .depth = r < dropped ? DEPTH - 1 : DEPTH};
    lf_call_judge(call);
    lf_call_close(call);
}

// One row and how many follow it: up to the last that is kept, and the first that is not.
static void run_follow(struct lf_trial *trial, const struct lf_shape *shape, uint64_t position,
                       uint32_t after) {
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    *(struct rule *)lf_call_at(call, RULE, 0, 0) =
        (struct rule){.position = position, .after = after, .depth = DEPTH};
    lf_call_judge(call);
    lf_call_close(call);
}

static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint64_t position[] = {0, 1, 126, 127, 128, 129, (1 << 20) - 1, UINT32_MAX - 1};
    const struct lf_ring_store_args *a = (const void *)shape->args;
    uint32_t most = shape->rows < 19 ? shape->rows : 19;
    for (uint32_t i = 0; i < sizeof position / sizeof *position; i++) {
        run_follow(trial, shape, position[i], 0);
        run_follow(trial, shape, position[i], a->kept - 1);
        run_follow(trial, shape, position[i], a->kept);
    }
    if (a->ring_rows > 32)
        return;
    run_chunk(trial, shape, 0, most, 0);
    run_chunk(trial, shape, a->ring_rows - 1, most, 3);
    run_chunk(trial, shape, UINT32_MAX - 1, most, 0);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    (void)args;
    product[0] = (struct lf_product){"rows of the last task", (uint64_t)rows + 15, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "written one position late", LF_GATE_BOUND | LF_GATE_MEMORY, 0},
    {2, "a row that later ones of its span overwrite is stored", LF_GATE_BOUND | LF_GATE_MEMORY, 0},
    {3, "written to the neighbour's lane", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {4, "a dropped row is stored", LF_GATE_BOUND, 0},
    {5, "the last byte is not copied", LF_GATE_BOUND, 0},
    {6, "a write past the row", LF_GATE_MEMORY, 0},
    {7, "the row at its place before rows were dropped", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {8, "the first row of the second task is not stored", LF_GATE_ROWS, 0},
    {9, "the oldest row that is kept is left out", LF_GATE_EDGES, 0},
    {10, "positions compared in 32 bits", LF_GATE_EDGES, 0},
};

const struct lf_record lf_ring_store_record = {
    .name = "ring_store", .file = "src/kernel/ring_store/ring_store_cpu.c",
    .contract = LF_RING_STORE_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .judge = judge, .written = written, .edges = edges, .products = products,
    .stack_bytes = 4096, .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
