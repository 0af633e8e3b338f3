// What the gates know of row_gather.
#include <string.h>
#include "contract/record.h"
#include "kernel/row_gather/row_gather.h"
#include "model/state.h"

enum { X, PICK, INDEX, Y, OPERANDS };
// A row of the record brings so many rows of x, of which it takes one.
enum { OFFERED = 3 };
// In the first row's pick: y is x.
#define IN_PLACE 0x80000000u

struct shape {
    struct lf_row_gather_args args;
    struct lf_row_gather_job job;
    uint32_t plain; // without an index: x holds the rows themselves
};
_Static_assert(sizeof(struct shape) <= LF_ARGS_BYTES, "a shape of row_gather");

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, const char *what,
                size_t bytes, size_t gap) {
    struct shape shape = {.job = {.row_bytes = bytes, .x_pitch = bytes + gap}, .plain = gap == 1};
    shape.job.y_pitch = bytes + 2 * gap;
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %s, %zu bytes", model, what, bytes);
}

// What is dropped, what a draft pass reads, what a boundary leaves.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    size_t half = sizeof(uint16_t), word = sizeof(uint32_t);
    const char *name = served->name;
    uint32_t chunk = served->chunk_rows;
    add(shapes, name, chunk, "streams", half * t->streams * t->hidden, 0);
    add(shapes, name, chunk, "input", half * t->hidden, 0);
    add(shapes, name, chunk, "mixes", word * t->streams, 0);
    add(shapes, name, chunk, "selection", word * t->index_topk, 0);
    add(shapes, name, chunk, "counts", word, 0);
    add(shapes, name, chunk, "rotations", word * (t->rope_dim / 2), 0);
    if (t->n_draft_taps)
        add(shapes, name, 128, "taps", half * t->n_draft_taps * t->hidden, 0);
    add(shapes, name, 4, "logits", word * t->vocab, 0);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, "one", 1, 0);
    add(shapes, "ragged", 64, "gaps", 8201, 7);
    add(shapes, "ragged", 64, "no index", 4099, 1);
}

static void fill_pick(const struct lf_fill *fill, void *data, size_t n) {
    (void)n;
    *(uint32_t *)data = lf_check_below(fill->rng, OFFERED);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    uint32_t offered = s->plain ? 1 : OFFERED;
    o[X] = lf_operand("x", LF_IN, LF_U8, offered * s->job.x_pitch);
    o[X].align = 1;
    o[PICK] = lf_operand("pick", LF_RULE, LF_U32, 1);
    o[PICK].fill = fill_pick;
    o[INDEX] = lf_operand("index", LF_POINTER, LF_U32, s->plain ? 0 : 1);
    o[Y] = lf_operand("y", LF_OUT, LF_U8, s->job.row_bytes);
    o[Y].pitch = s->job.y_pitch, o[Y].align = 1;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    uint32_t *index = s->plain ? NULL : call->data[INDEX];
    bool in_place = *(uint32_t *)lf_call_at(call, PICK, 0, 0) & IN_PLACE;
    for (uint32_t r = 0; index && r < call->rows; r++)
        index[r] = r * OFFERED + (*(uint32_t *)lf_call_at(call, PICK, r, 0) & ~IN_PLACE);
    s->job.rows = call->rows, s->job.index = index;
    s->job.x = call->data[X], s->job.y = call->data[in_place ? X : Y];
    s->job.y_pitch = in_place ? s->job.x_pitch : s->job.y_pitch;
    s->args = (struct lf_row_gather_args){1, &s->job};
}

// In place: of every row's three the picked one moves down, as rows that stay close up.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct shape *s = (const void *)shape->args;
    uint32_t rows = shape->rows < 9 ? shape->rows : 9, offered = s->plain ? 1 : OFFERED;
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
    uint8_t *x = call->data[X];
    // The rows of x are their own numbers.
    for (uint32_t i = 0; i < rows * offered; i++)
        memset(x + i * s->job.x_pitch, (int)(i + 1), s->job.row_bytes);
    *(uint32_t *)lf_call_at(call, PICK, 0, 0) |= IN_PLACE;
    lf_call_run(call);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t pick = s->plain ? 0 : *(uint32_t *)lf_call_at(call, PICK, r, 0) & ~IN_PLACE;
        size_t at = r % offered * s->job.x_pitch;
        uint8_t want = (uint8_t)(r * offered + pick + 1);
        lf_expect_bits(call, X, r / offered, at, want, "the row that its index names");
        lf_expect_bits(call, X, r / offered, at + s->job.row_bytes - 1, want,
                       "the row that its index names");
    }
    lf_call_close(call);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct shape *s = args;
    product[0] = (struct lf_product){"rows", rows, 32};
    product[1] = (struct lf_product){"tasks of a job", s->job.row_bytes / 4096 + 1, 32};
    return 2;
}

static const struct lf_control controls[] = {
    {1, "past the first task, the row before it", LF_GATE_BOUND, 0},
    {2, "the last byte is not copied", LF_GATE_BOUND | LF_GATE_MEMORY, 0},
    {3, "a write past the row", LF_GATE_MEMORY, 0},
    {4, "the row at place 5 takes the one before it", LF_GATE_ROWS, 0},
    {5, "the gaps between rows of x are read", LF_GATE_BOUND, 0},
    {6, "rows are overwritten before they are read", LF_GATE_EDGES, 0},
    {7, "the index is not read", LF_GATE_BOUND | LF_GATE_EDGES, 0},
};

const struct lf_record lf_row_gather_record = {
    .name = "row_gather", .file = "src/kernel/row_gather/row_gather_cpu.c",
    .contract = LF_ROW_GATHER_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .edges = edges, .products = products,
    .stack_bytes = 4096, .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
