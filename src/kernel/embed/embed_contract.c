// What the gates know of embed.
#include <string.h>
#include "contract/record.h"
#include "kernel/embed/embed.h"

enum { ROW, ID, TABLE, STREAMS_OUT, PRE, OPERANDS };

struct shape {
    struct lf_embed_args args;
    struct lf_matrix table;
    uint32_t drawn; // ids as sample leaves them, no pre
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t vocab, uint32_t dim) {
    struct shape shape = {.args = {.streams = streams},
                          .table = {.format = LF_WEIGHT_BF16, .out = vocab, .in = dim}};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u ids, %u x %u", model, vocab, streams,
                  dim);
}

// All ids in narrow rows, and whole rows of fewer ids: the full table is 1.3 GB.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    add(shapes, served->name, served->chunk_rows, t->streams, t->vocab, 8);
    add(shapes, served->name, served->chunk_rows, t->streams, 1024, t->hidden);
    // The drafter reads one row an id.
    struct shape drafts = {.args = {.streams = 1, .id_none = 7}, .drawn = 1,
                           .table = {.format = LF_WEIGHT_BF16, .out = 1024, .in = 256}};
    drafts.args.out_stride = 256 + t->hidden;
    lf_shapes_add(shapes, served->launch_rows, &drafts, sizeof drafts, "%s drawn ids",
                  served->name);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 3, 5, 7);
}

static void fill_row(const struct lf_fill *fill, void *data, size_t n) {
    const struct shape *shape = fill->args;
    struct lf_row row = {.token = lf_check_below(fill->rng, shape->table.out),
                         .position = fill->row};
    memcpy(data, &row, n);
}

// One in four drew nothing.
static void fill_id(const struct lf_fill *fill, void *data, size_t n) {
    const struct shape *shape = fill->args;
    (void)n;
    *(uint32_t *)data = fill->row % 4 == 3 ? UINT32_MAX
                                           : lf_check_below(fill->rng, shape->table.out);
}

// Any finite bits: the table is large and only copied.
static void fill_table(const struct lf_fill *fill, void *data, size_t n) {
    uint16_t *bits = data;
    for (size_t i = 0; i < n; i++)
        bits[i] = (uint16_t)lf_check_next(fill->rng) & 0xBFFF;
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *shape = args;
    o[ROW] = lf_operand("row", LF_RULE, LF_U8, shape->drawn ? 0 : sizeof(struct lf_row));
    o[ROW].fill = fill_row;
    o[ID] = lf_operand("id", LF_RULE, LF_U32, shape->drawn);
    o[ID].fill = fill_id;
    o[TABLE] = lf_operand("table", LF_WEIGHT, LF_BF16, (size_t)shape->table.out * shape->table.in);
    o[TABLE].align = 1, o[TABLE].fill = fill_table;
    o[STREAMS_OUT] = lf_operand("streams_out", LF_OUT, LF_BF16,
                                (size_t)shape->args.streams * shape->table.in);
    o[STREAMS_OUT].pitch = shape->args.out_stride;
    o[PRE] = lf_operand("pre", LF_OUT, LF_F32, shape->drawn ? 0 : shape->args.streams);
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *shape = args;
    shape->table.data = call->data[TABLE];
    shape->args.rows = call->rows, shape->args.row = shape->drawn ? NULL : call->data[ROW];
    shape->args.id = shape->drawn ? call->data[ID] : NULL;
    shape->args.pre = shape->drawn ? NULL : call->data[PRE];
    shape->args.table = &shape->table, shape->args.streams_out = call->data[STREAMS_OUT];
}

// The first and the last id; every bit pattern, NaN payloads too, comes out as it is.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct shape *s = (const void *)shape->args;
    if (s->drawn)
        return;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (uint32_t r = 0; r < 2; r++) {
        struct lf_row *row = lf_call_at(call, ROW, r, 0);
        row->token = r ? s->table.out - 1 : 0;
        for (uint32_t c = 0; c < s->table.in; c++) {
            uint16_t bits = (uint16_t)(0x7F70 + 0x8011 * c + r);
            memcpy(lf_call_at(call, TABLE, 0, (size_t)row->token * s->table.in + c), &bits, 2);
        }
    }
    lf_call_run(call);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t c = 0; c < s->args.streams * s->table.in; c++)
            lf_expect_bits(call, STREAMS_OUT, r, c,
                           (uint16_t)(0x7F70 + 0x8011 * (c % s->table.in) + r), "the id's row");
    lf_call_close(call);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    (void)args;
    product[0] = (struct lf_product){"rows of the last task", (uint64_t)rows + 15, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the last id reads the row before it", LF_GATE_EDGES, 0},
    {2, "the last column is not copied", LF_GATE_MEMORY, 0},
    {3, "a write past the last stream", LF_GATE_MEMORY, 0},
    {4, "the streams after the first are the next id's", LF_GATE_BOUND, 0},
    {5, "the sixteenth row takes its neighbour's id", LF_GATE_ROWS, 0},
    {6, "no id reads the first row", LF_GATE_BOUND, 0},
    {7, "every stream mixed alike", LF_GATE_BOUND, 0},
};

const struct lf_record lf_embed_record = {
    .name = "embed", .file = "src/kernel/embed/embed_cpu.c", .contract = LF_EMBED_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .edges = edges, .products = products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
