// What the gates know of index_select.
#include <math.h>
#include "contract/record.h"
#include "kernel/index_select/index_select.h"

enum { VISIBLE, SCORE, BLOCKS_IN, N_BLOCKS_IN, BLOCKS, N_BLOCKS, SELECTED, N_SELECTED, OPERANDS };
enum { LONG_ROW = 1 << 16 }; // entries from which a full sort a case would take too long

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                struct lf_index_select_args args) {
    static const char *const mode[] = {"free", "publish", "restrict"};
    if (args.mode == LF_CANDIDATES_NONE)
        args.block_size = args.topk_blocks = 0;
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %s %u of %zu", model, mode[args.mode],
                  args.topk, args.score_stride);
}

// Index sources below, at and above the candidate source; scores of as many rows as fit at once.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    uint64_t context = t->positions_max < served->context ? t->positions_max : served->context;
    uint64_t rows = (16u << 20) / context;
    for (uint32_t i = 0; i < t->n_index_sources; i++) {
        uint32_t layer = t->index_sources[i];
        struct lf_index_select_args args = {
            .topk = t->index_topk, .score_stride = context, .topk_blocks = t->candidate_blocks,
            .block_size = t->candidate_block_size,
            .mode = layer == t->candidate_source  ? LF_CANDIDATES_PUBLISH
                    : layer > t->candidate_source ? LF_CANDIDATES_RESTRICT
                                                  : LF_CANDIDATES_NONE};
        add(shapes, served->name, rows < 256 ? (uint32_t)rows : 256, args);
    }
}

static void ragged(struct lf_shapes *shapes) {
    for (uint32_t mode = LF_CANDIDATES_NONE; mode <= LF_CANDIDATES_RESTRICT; mode++) {
        add(shapes, "ragged", 64,
            (struct lf_index_select_args){.topk = 5, .score_stride = 301, .block_size = 7,
                                          .topk_blocks = 3, .mode = mode});
        add(shapes, "ragged", 64,
            (struct lf_index_select_args){.topk = 1, .score_stride = 33, .block_size = 1,
                                          .topk_blocks = 2, .mode = mode});
    }
}

// Everything there is, one past each limit, the limits, nothing, one; then any.
static uint32_t visible_of(const struct lf_index_select_args *a, uint32_t row) {
    uint32_t most = (uint32_t)a->score_stride, kept = a->block_size * a->topk_blocks;
    uint32_t list[] = {most,     a->topk + 1, a->topk,  most - 1, 0, 1, kept, kept + 1,
                       kept - 1, most - 8,    most / 2, kept + 9};
    uint32_t n = sizeof list / sizeof *list;
    uint32_t visible = row < n ? list[row] : row * 2654435761u % most;
    return visible > most ? most : visible;
}

static void fill_visible(const struct lf_fill *fill, void *data, size_t n) {
    (void)n;
    *(uint32_t *)data = visible_of(fill->args, fill->row);
}

static uint32_t blocks_of(const struct lf_index_select_args *a, uint32_t visible) {
    uint32_t n = visible / a->block_size + (visible % a->block_size != 0);
    return n < a->topk_blocks ? n : a->topk_blocks;
}

static void fill_n_blocks(const struct lf_fill *fill, void *data, size_t n) {
    (void)n;
    *(uint32_t *)data = blocks_of(fill->args, visible_of(fill->args, fill->row));
}

static void fill_blocks(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_index_select_args *a = fill->args;
    lf_check_fill_blocks(visible_of(a, fill->row), a->block_size, data, (uint32_t)n);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_index_select_args *a = args;
    bool reads = a->mode == LF_CANDIDATES_RESTRICT, writes = a->mode == LF_CANDIDATES_PUBLISH;
    o[VISIBLE] = lf_operand("visible", LF_RULE, LF_U32, 1);
    o[VISIBLE].fill = fill_visible;
    o[SCORE] = lf_operand("score", LF_IN, LF_F32, a->score_stride);
    o[BLOCKS_IN] = lf_operand("blocks", LF_RULE, LF_U32, reads ? a->topk_blocks : 0);
    o[BLOCKS_IN].fill = fill_blocks;
    o[N_BLOCKS_IN] = lf_operand("n_blocks", LF_RULE, LF_U32, reads);
    o[N_BLOCKS_IN].fill = fill_n_blocks;
    o[BLOCKS] = lf_operand("blocks", LF_OUT, LF_U32, writes ? a->topk_blocks : 0);
    o[N_BLOCKS] = lf_operand("n_blocks", LF_OUT, LF_U32, writes);
    o[SELECTED] = lf_operand("selected", LF_OUT, LF_U32, a->topk);
    o[N_SELECTED] = lf_operand("n_selected", LF_OUT, LF_U32, 1);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_index_select_args *a = args;
    bool reads = a->mode == LF_CANDIDATES_RESTRICT;
    a->rows = call->rows, a->visible = call->data[VISIBLE], a->score = call->data[SCORE];
    a->blocks = call->data[reads ? BLOCKS_IN : BLOCKS];
    a->n_blocks = call->data[reads ? N_BLOCKS_IN : N_BLOCKS];
    a->selected = call->data[SELECTED], a->n_selected = call->data[N_SELECTED];
}

static size_t columns(const void *args) {
    const struct lf_index_select_args *a = args;
    return (size_t)a->topk + a->topk_blocks;
}

// How many entries a row lists: never more than its blocks hold.
static uint32_t listed(const struct lf_index_select_args *a, uint32_t row) {
    uint32_t n = a->visible[row];
    struct lf_candidates candidates = {a->blocks, a->n_blocks, a->block_size, a->topk_blocks};
    if (a->mode == LF_CANDIDATES_RESTRICT && n > a->topk)
        n = lf_items_of(&candidates, row, n).n;
    return n < a->topk ? n : a->topk;
}

static bool written(const void *args, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_index_select_args *a = args;
    if (operand == SELECTED)
        return column < listed(a, row);
    return operand != BLOCKS || column < blocks_of(a, a->visible[row]);
}

// Scores are inputs, so the choice of the full sort is the only right one.
static void judge(struct lf_call *call, const double *ref) {
    const struct lf_index_select_args *a = (const void *)call->args;
    for (uint32_t row = 0; row < call->rows; row++, ref += a->topk + a->topk_blocks) {
        uint32_t n = 0, blocks = 0;
        for (; n < a->topk && ref[n] >= 0.0; n++)
            lf_judge_element(call, SELECTED, row, n, ref[n], -1.0);
        lf_expect(call, n == listed(a, row), N_SELECTED, row, 0, "float64 lists another number");
        lf_judge_element(call, N_SELECTED, row, 0, n, -1.0);
        if (a->mode != LF_CANDIDATES_PUBLISH)
            continue;
        for (; blocks < a->topk_blocks && ref[a->topk + blocks] >= 0.0; blocks++)
            lf_judge_element(call, BLOCKS, row, blocks, ref[a->topk + blocks], -1.0);
        lf_judge_element(call, N_BLOCKS, row, 0, blocks, -1.0);
    }
}

// Items take the values in turn, the last item of each row its own unless that is NaN.
static void choose(struct lf_trial *trial, const struct lf_shape *shape, const float *value,
                   uint32_t n, float last) {
    const struct lf_index_select_args *a = (const void *)shape->args;
    uint32_t rows = a->score_stride > LONG_ROW ? 1 : 2;
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t items = *(uint32_t *)lf_call_at(call, VISIBLE, row, 0);
        float *score = lf_call_at(call, SCORE, row, 0);
        if (a->mode == LF_CANDIDATES_RESTRICT)
            items = lf_items_of(&(struct lf_candidates){lf_call_at(call, BLOCKS_IN, row, 0),
                                                        lf_call_at(call, N_BLOCKS_IN, row, 0),
                                                        a->block_size, a->topk_blocks},
                                0, items).n;
        for (uint32_t i = 0; i < items; i++)
            score[i] = value[(i + row) % n];
        if (!isnan(last))
            score[items - 1] = last;
    }
    lf_call_judge(call);
    lf_call_close(call);
}

// Every length around the limits, alone and in blocks that end anywhere.
static void lengths(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct lf_index_select_args *a = (const void *)shape->args;
    uint32_t rows = shape->rows < 24 ? shape->rows : 24;
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_SPARSE);
    lf_call_judge(call);
    lf_call_close(call);
    call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    if (a->mode == LF_CANDIDATES_RESTRICT)
        *(uint32_t *)lf_call_at(call, N_BLOCKS_IN, 0, 0) = 0;
    lf_call_judge(call);
    lf_call_close(call);
}

// Ties, both zeros, NaN among numbers and alone, infinities, neighbours, the newest at both ends.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float same[] = {0.25f}, zeros[] = {-0.0f, 0.0f, 0.0f, -0.0f, -0.0f},
                       mixed[] = {NAN, 1, -NAN, 2, 1}, nan_only[] = {NAN},
                       infinite[] = {INFINITY, -INFINITY, 0, NAN, -INFINITY},
                       near[] = {1, 0x1.000002p0f, 0x1.fffffep-1f, 1, 0x1p-149f, -0x1p-149f, 0};
    const struct lf_index_select_args *a = (const void *)shape->args;
    choose(trial, shape, same, 1, 0.5f);
    if (a->score_stride > LONG_ROW)
        return;
    choose(trial, shape, zeros, 5, NAN);
    choose(trial, shape, same, 1, NAN);
    choose(trial, shape, same, 1, -INFINITY);
    choose(trial, shape, mixed, 5, NAN);
    choose(trial, shape, nan_only, 1, NAN);
    choose(trial, shape, nan_only, 1, -INFINITY);
    choose(trial, shape, infinite, 5, NAN);
    choose(trial, shape, near, 7, NAN);
    lengths(trial, shape);
    for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++) {
        struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
        lf_check_fill_hostile_f32(kind, lf_call_at(call, SCORE, 1, 0), a->score_stride);
        lf_call_judge(call);
        lf_call_close(call);
    }
}

static size_t scratch(const void *args) {
    const struct lf_index_select_args *a = args;
    return lf_index_select_scratch_bytes(a->topk, a->topk_blocks);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_index_select_args *a = args;
    product[0] = (struct lf_product){"tasks", rows, 32};
    product[1] = (struct lf_product){"end of a block", a->score_stride + a->block_size, 32};
    return 2;
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_index_select_args *a = args;
    uint64_t turn = 8192, blocks = a->block_size ? a->score_stride / a->block_size + 1 : 0;
    product[0] = (struct lf_product){"items of the last turn", a->score_stride + 2 * turn, 32};
    product[1] = (struct lf_product){"end of a block", blocks * a->block_size, 32};
    product[2] = (struct lf_product){"choices", 2ull * rows, 32};
    return 3;
}

static const struct lf_control controls[] = {
    {1, "the newest entries instead of the best", LF_GATE_BOUND, 0},
    {2, "half the candidate blocks", LF_GATE_BOUND, 0},
    {3, "ties to the higher index", LF_GATE_EDGES, 0},
    {4, "the last candidate is skipped", LF_GATE_BOUND | LF_GATE_EDGES, 0},
    {5, "blocks in no order", LF_GATE_BOUND, LF_CPU_SETS},
    {6, "the published blocks ignored", LF_GATE_BOUND, 0},
    {7, "NaN above every number", LF_GATE_EDGES, 0},
    {8, "-0 below +0", LF_GATE_EDGES, 0},
    {9, "the newest block is not forced in", LF_GATE_BOUND, 0},
    {10, "the sixth row of a launch reads the fifth's scores", LF_GATE_ROWS, 0},
    {11, "a write past the row's list", LF_GATE_MEMORY, 0},
    {12, "entries of the newest block past what is visible", LF_GATE_BOUND, 0},
    {13, "the second part of a row is left out", LF_GATE_ROWS, 0},
};

const struct lf_record lf_index_select_record = {
    .name = "index_select", .file = "src/kernel/index_select/index_select_cpu.c",
    .contract = LF_INDEX_SELECT_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .columns = columns,
    .judge = judge, .written = written, .edges = edges, .scratch = scratch, .products = products,
    .cuda_products = cuda_products,
    .stack_bytes = 16384, .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
