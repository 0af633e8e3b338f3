// What the gates know of index_score.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/number.h"
#include "base/quant.h"
#include "contract/record.h"
#include "kernel/index_score/index_score.h"
#include "kernel/reference.h"
#include "kernel/table.h"

// Sets that sum codes as integers.
enum { WITH_CODES = 1 << LF_ISA_AVX2 | 1 << LF_ISA_AVX512 | 1 << LF_ISA_NEON };
enum { ROW, Q, HEAD_WEIGHT, KEYS, PAGE, PAGED, VISIBLE, BLOCKS, N_BLOCKS, SCORE, OPERANDS };

// The kernel's arguments, and how many entries a row may see here.
struct score_shape {
    struct lf_index_score_args args;
    uint32_t entries;
};

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                struct score_shape s) {
    struct lf_index_score_args *a = &s.args;
    a->weight_scale = (float)(1.0 / sqrt(a->heads) / sqrt(a->dim));
    lf_shapes_add(shapes, rows, &s, sizeof s, "%s %ux%u, %u of %zu%s", model, a->heads, a->dim,
                  s.entries, a->score_stride, a->candidates.topk_blocks ? ", in blocks" : "")
        ->work = (uint64_t)s.entries * a->heads * a->dim / 8;
}

// Rows as far apart as served; keys are cut, the far shape has all of the longest context.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    uint64_t context = smaller(t->positions_max, served->context);
    struct score_shape s = {.args = {.heads = t->index_heads, .dim = t->index_dim,
                                     .score_stride = context},
                            .entries = 1301};
    add(shapes, served->name, (uint32_t)smaller((16u << 20) / context, 256), s);
    // So few blocks that they cannot hold all of the entries.
    s.args.candidates.block_size = t->candidate_block_size;
    s.args.candidates.topk_blocks =
        (uint32_t)smaller(t->candidate_blocks, s.entries / 4 / t->candidate_block_size);
    add(shapes, served->name, (uint32_t)smaller((16u << 20) / context, 256), s);
    struct score_shape far = {.args = {.heads = 1, .dim = 32, .score_stride = served->context},
                              .entries = (uint32_t)served->context};
    add(shapes, "far", 16, far);
}

static void ragged(struct lf_shapes *shapes) {
    struct score_shape s = {.args = {.heads = 7, .dim = 96, .score_stride = 140}, .entries = 131};
    add(shapes, "ragged", 64, s);
    s.args.candidates.block_size = 7, s.args.candidates.topk_blocks = 11;
    add(shapes, "ragged", 64, s);
    s.args.heads = 2, s.args.dim = 64, s.args.score_stride = s.entries = 257;
    add(shapes, "ragged", 64, s);
}

// Everything, page edges, edges of blocks and tasks, none, one; then any.
static uint32_t visible_of(const struct score_shape *s, uint32_t row) {
    static const uint32_t list[] = {UINT32_MAX, 129, 128, 64,  0,    1,    127,
                                    1025,       65,  63,  192, 1024, 1023, 256};
    uint32_t n = sizeof list / sizeof *list;
    return (uint32_t)smaller(row < n ? list[row] : row * 2654435761u % 300, s->entries);
}

static void fill_visible(const struct lf_fill *fill, void *data, size_t n) {
    (void)n;
    *(uint32_t *)data = visible_of(fill->args, fill->row);
}

static void fill_blocks(const struct lf_fill *fill, void *data, size_t n) {
    const struct score_shape *s = fill->args;
    lf_check_fill_blocks(visible_of(s, fill->row), s->args.candidates.block_size, data,
                         (uint32_t)n);
}

static void fill_n_blocks(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_candidates *c = &((const struct score_shape *)fill->args)->args.candidates;
    uint32_t visible = visible_of(fill->args, fill->row);
    (void)n;
    *(uint32_t *)data = (uint32_t)smaller((visible + c->block_size - 1) / c->block_size,
                                          c->topk_blocks);
}

static void fill_row(const struct lf_fill *fill, void *data, size_t n) {
    (void)fill;
    memset(data, 0, n);
}

// Queries carry QF4e values; cancelling ones meet keys whose pairs are equal.
static void fill_q(const struct lf_fill *fill, void *data, size_t n) {
    uint16_t *x = data;
    lf_check_fill_bf16(fill->rng, fill->style, 1.0f, x, n);
    for (size_t at = 0; at < n; at += LF_QF4E_GROUP) {
        uint8_t code[LF_QF4E_GROUP], scale = lf_qf4e_group(x + at, code);
        for (size_t i = 0; i < LF_QF4E_GROUP; i++)
            x[at + i] = lf_bf16_from_f32(lf_e2m1_to_f32(code[i]) * lf_ue8m0_to_f32(scale));
    }
}

static void fill_head_weight(const struct lf_fill *fill, void *data, size_t n) {
    enum lf_check_style style = fill->style == LF_STYLE_WIDE ? LF_STYLE_WIDE : LF_STYLE_NORMAL;
    lf_check_fill_bf16(fill->rng, style, 1.0f, data, n);
}

static void fill_keys(const struct lf_fill *fill, void *data, size_t n) {
    const struct score_shape *s = fill->args;
    uint32_t dim = s->args.dim;
    uint8_t *key = data;
    (void)n;
    for (uint32_t entry = 0; entry < s->entries; entry++, key += lf_qf4e_row_bytes(dim))
        for (uint32_t g = 0; g < dim / 32; g++) {
            uint8_t *code = key + 16 * g;
            int power = fill->style == LF_STYLE_WIDE ? (int)lf_check_below(fill->rng, 40) - 20 : 0;
            key[dim / 2 + g] = (uint8_t)(127 + power);
            for (uint32_t i = 0; i < 16; i += 8) {
                uint64_t bits = lf_check_next(fill->rng);
                memcpy(code + i, &bits, 8);
            }
            for (uint32_t i = 0; i < 16; i++) {
                uint8_t low = code[i] & 15;
                if (fill->style == LF_STYLE_CANCELLING)
                    code[i] = (uint8_t)(low * 17);
                if (fill->style == LF_STYLE_SPARSE)
                    code[i] = lf_check_below(fill->rng, 8) ? 0 : low;
            }
        }
}

static uint32_t pages_of(const struct score_shape *s) {
    return (s->entries + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS;
}

static void describe(const void *args, struct lf_operand *o) {
    const struct score_shape *s = args;
    const struct lf_index_score_args *a = &s->args;
    o[ROW] = lf_operand("row", LF_RULE, LF_U8, sizeof(struct lf_row));
    o[ROW].fill = fill_row;
    o[Q] = lf_operand("q", LF_IN, LF_BF16, (size_t)a->heads * a->dim);
    o[Q].fill = fill_q;
    o[HEAD_WEIGHT] = lf_operand("head_weight", LF_IN, LF_BF16, a->heads);
    o[HEAD_WEIGHT].fill = fill_head_weight;
    o[KEYS] = lf_operand("keys", LF_IN, LF_U8, (size_t)s->entries * lf_qf4e_row_bytes(a->dim));
    o[KEYS].fill = fill_keys, o[KEYS].align = 1;
    o[PAGE] = lf_operand("pages", LF_POINTER, LF_U64, pages_of(s));
    o[PAGED] = lf_operand("paged", LF_POINTER, LF_U64, 1);
    o[VISIBLE] = lf_operand("visible", LF_RULE, LF_U32, 1);
    o[VISIBLE].fill = fill_visible;
    o[BLOCKS] = lf_operand("blocks", LF_RULE, LF_U32, a->candidates.topk_blocks);
    o[BLOCKS].fill = fill_blocks;
    o[N_BLOCKS] = lf_operand("n_blocks", LF_RULE, LF_U32, a->candidates.topk_blocks != 0);
    o[N_BLOCKS].fill = fill_n_blocks;
    o[SCORE] = lf_operand("score", LF_OUT, LF_F32, s->entries);
    o[SCORE].pitch = a->score_stride;
}

// Lanes run against places, so that neither can stand for the other.
static void bind(const struct lf_call *call, void *args) {
    struct score_shape *s = args;
    struct lf_index_score_args *a = &s->args;
    struct lf_row *row = call->data[ROW];
    struct lf_paged *paged = call->data[PAGED];
    uint8_t **page = call->data[PAGE];
    size_t page_bytes = (size_t)LF_PAGE_ROWS * lf_qf4e_row_bytes(a->dim);
    for (uint32_t i = 0; i < call->rows; i++) {
        uint32_t lane = call->rows - 1 - i;
        row[i] = (struct lf_row){.lane = lane, .index = i};
        paged[lane].page = page + (size_t)i * pages_of(s);
        for (uint32_t p = 0; p < pages_of(s); p++)
            paged[lane].page[p] = lf_call_at(call, KEYS, i, p * page_bytes);
    }
    a->rows = call->rows, a->row = row, a->q = call->data[Q];
    a->head_weight = call->data[HEAD_WEIGHT], a->keys = paged;
    a->visible = call->data[VISIBLE], a->score = call->data[SCORE];
    if (a->candidates.topk_blocks)
        a->candidates.blocks = call->data[BLOCKS], a->candidates.n_blocks = call->data[N_BLOCKS];
}

static size_t columns(const void *args) {
    return ((const struct score_shape *)args)->args.score_stride;
}

static bool written(const void *args, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_index_score_args *a = &((const struct score_shape *)args)->args;
    (void)operand;
    return column < lf_items_of(&a->candidates, row, a->visible[row]).n;
}

static void read_key(const struct lf_index_score_args *a, uint32_t row, uint32_t entry,
                     double *key) {
    static const double magnitude[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    const uint8_t *at = a->keys[a->row[row].lane].page[entry / LF_PAGE_ROWS] +
                        entry % LF_PAGE_ROWS * (a->dim / 2 + a->dim / 32);
    for (uint32_t d = 0; d < a->dim; d += 32) {
        double scale = lf_ref_ue8m0(at[a->dim / 2 + d / 32]);
        for (uint32_t i = d; i < d + 32; i++) {
            uint8_t code = at[i / 2] >> (i % 2 * 4) & 15;
            key[i] = (code & 8 ? -scale : scale) * magnitude[code & 7];
        }
    }
}

// The header's bound; what float32 loses below its normal range is at most 2^-150 a step.
static double bound_one(const struct lf_index_score_args *a, uint32_t row, const double *q,
                        const double *key) {
    double dots = lf_check_gamma(a->dim / 16.0 + 4.0), heads = lf_check_gamma(a->heads + 1.0);
    double error = 0.0;
    for (uint32_t h = 0; h < a->heads; h++, q += a->dim) {
        double sum = 0.0, size = 0.0;
        double w = fabs(lf_ref_bf16(a->head_weight, (size_t)row * a->heads + h) *
                        (double)a->weight_scale);
        for (uint32_t d = 0; d < a->dim; d++) {
            sum += q[d] * key[d];
            size += fabs(q[d] * key[d]);
        }
        double off = dots * size + a->dim * 0x1p-150;
        error += w * (off + heads * fmax(sum, 0.0)) + 0x1p-150 * (1.0 + fmax(sum, 0.0));
    }
    return error;
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_index_score_args *a = &((const struct score_shape *)args)->args;
    size_t wide = (size_t)a->heads * a->dim;
    double *q = malloc((wide + a->dim) * sizeof *q);
    (void)ref;
    LF_ASSERT(q);
    for (uint32_t row = 0; row < a->rows; row++, error += a->score_stride) {
        for (size_t i = 0; i < wide; i++)
            q[i] = lf_ref_bf16(a->q, row * wide + i);
        struct lf_items items = lf_items_of(&a->candidates, row, a->visible[row]);
        for (uint32_t i = 0; i < items.n; i++) {
            read_key(a, row, lf_item_entry(&items, i), q + wide);
            error[i] = bound_one(a, row, q, q + wide);
        }
    }
    free(q);
}

// A NaN of one head is in all scores of its row, that of a key in its own alone.
static void nan_edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct score_shape *s = (const void *)shape->args;
    uint32_t dim = s->args.dim, key_bytes = lf_qf4e_row_bytes(dim);
    static const uint16_t odd[] = {0x7FC1, 0x7F80, 0xFF80};
    for (uint32_t i = 0; i < 3; i++) {
        struct lf_call *call = lf_call_open(trial, shape, 3, LF_STYLE_NORMAL);
        *(uint16_t *)lf_call_at(call, Q, 1, dim * (s->args.heads - 1) + 5) = odd[i];
        *(uint16_t *)lf_call_at(call, HEAD_WEIGHT, 2, 0) = odd[i];
        *(uint8_t *)lf_call_at(call, KEYS, 0, 17 * key_bytes + dim / 2) = 255;
        lf_call_judge(call);
        lf_call_close(call);
    }
}

// Every code beside scales 0x00, 0x01, 0x7F, 0xFE; the largest only where float32 holds it.
static void code_edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint8_t scale[] = {0x00, 0x01, 0x7F, 0xFE};
    const struct score_shape *s = (const void *)shape->args;
    uint32_t dim = s->args.dim, key_bytes = lf_qf4e_row_bytes(dim);
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    for (uint32_t i = 0; i < s->args.heads * dim; i++)
        *(uint16_t *)lf_call_at(call, Q, 0, i) = i % 3 ? 0x0080 : 0x8100;
    for (uint32_t entry = 0; entry < 16 && entry < s->entries; entry++) {
        uint8_t *key = lf_call_at(call, KEYS, 0, (size_t)entry * key_bytes);
        memset(key + dim / 2, scale[entry % 4], dim / 32);
        for (uint32_t i = 0; i < dim / 2; i++)
            key[i] = (uint8_t)(entry % 4 == 3 ? i % 4 * 0x11 | (i % 8 < 4) << 7 : i * 37 + entry);
    }
    lf_call_judge(call);
    lf_call_close(call);
}

// Queries of any bf16 values, which no code stands for.
static void value_edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct score_shape *s = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (uint32_t i = 0; i < s->args.heads * s->args.dim; i++)
        *(uint16_t *)lf_call_at(call, Q, 1, i) = (uint16_t)(0x3F00 + i * 37 % 256);
    lf_call_judge(call);
    lf_call_close(call);
}

static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct score_shape *s = (const void *)shape->args;
    if (s->entries > 1 << 16)
        return;
    uint32_t rows = shape->rows < 14 ? shape->rows : 14;
    struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_SPARSE);
    lf_call_judge(call);
    lf_call_close(call);
    nan_edges(trial, shape);
    code_edges(trial, shape);
    value_edges(trial, shape);
    for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++) {
        if (kind == 2) // sums of the largest pass float32 in some order
            continue;
        call = lf_call_open(trial, shape, 3, LF_STYLE_NORMAL);
        lf_check_fill_hostile(kind, lf_call_at(call, Q, 1, 0), s->args.heads * s->args.dim);
        lf_check_fill_hostile(kind, lf_call_at(call, HEAD_WEIGHT, 2, 0), s->args.heads);
        lf_call_judge(call);
        lf_call_close(call);
    }
}

static size_t scratch(const void *args) {
    const struct score_shape *s = args;
    return lf_index_score_scratch_bytes(s->args.heads, s->args.dim);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct score_shape *s = args;
    uint64_t parts = (s->args.score_stride + 1023) / 1024;
    uint64_t groups = (rows + LF_INDEX_SCORE_ROWS - 1) / LF_INDEX_SCORE_ROWS;
    product[0] = (struct lf_product){"tasks", groups * parts, 32};
    product[1] = (struct lf_product){"entries of a row's tasks", parts * 1024, 32};
    product[2] = (struct lf_product){"bytes of a page",
                                     LF_PAGE_ROWS * (uint64_t)lf_qf4e_row_bytes(s->args.dim), 32};
    return 3;
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_index_score_args *a = &((const struct score_shape *)args)->args;
    (void)rows;
    product[0] = (struct lf_product){"items fetched ahead", 4ull * a->score_stride + 1024, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "no ReLU", LF_GATE_BOUND, 0},
    {2, "each head with the weight of the next", LF_GATE_BOUND, 0},
    {3, "the weights' scale left out", LF_GATE_BOUND, 0},
    {4, "the last key of a page read as the one before", LF_GATE_BOUND, 0},
    {5, "the last head left out", LF_GATE_BOUND, 0},
    {6, "dot products rounded to bf16", LF_GATE_BOUND, 0},
    {7, "a block is stored in full whatever is visible", LF_GATE_MEMORY, 0},
    {8, "the first lane's keys for every row", LF_GATE_ROWS, 0},
    {9, "the ReLU of a NaN is 0", LF_GATE_EDGES, 0},
    {10, "the newest entry is not scored", LF_GATE_BOUND | LF_GATE_MEMORY, 0},
    {11, "a query of other values cut to codes", LF_GATE_EDGES, WITH_CODES},
    {12, "the middle of the keys' codes stays in", LF_GATE_BOUND, WITH_CODES},
    {13, "a row's blocks ignored", LF_GATE_BOUND, 0},
};

const struct lf_record lf_index_score_record = {
    .name = "index_score", .file = "src/kernel/index_score/index_score_cpu.c",
    .contract = LF_INDEX_SCORE_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .columns = columns,
    .bound = bound, .written = written, .edges = edges, .scratch = scratch, .products = products,
    .cuda_products = cuda_products,
    .stack_bytes = 8192, .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
