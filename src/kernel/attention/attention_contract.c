// What the gates know of attention.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/quant.h"
#include "contract/record.h"
#include "kernel/attention/attention_contract.h"
#include "kernel/linear/mma_walk.h"
#include "kernel/reference.h"

static uint32_t ring_for(uint32_t rows) {
    uint32_t ring = 1;
    while (ring < rows)
        ring *= 2;
    return ring;
}

static void add(struct lf_shapes *shapes, const char *model, const char *kind, uint32_t rows,
                struct attention_shape s) {
    struct lf_attention_args *a = &s.args;
    a->scale = (float)(1.0 / sqrt(a->head_dim));
    uint32_t list = a->window + (s.entries ? a->topk : 0);
    lf_shapes_add(shapes, rows, &s, sizeof s, "%s %s %ux%u of %llu", model, kind, a->heads,
                  a->head_dim, (unsigned long long)s.context)
        ->work = (uint64_t)a->heads * a->head_dim * list / 4;
}

// Layers of ratio 0, those of the compressed ratios and draft blocks.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    static const char *const kinds[] = {"window", "ratio 1", "ratio 2"};
    const struct lf_topology *t = served->t;
    uint64_t context = t->positions_max < served->context ? t->positions_max : served->context;
    struct attention_shape s = {
        .args = {.heads = t->heads, .head_dim = t->head_dim, .window = t->window,
                 .ring_rows = ring_for(t->window + served->window_rows - 1)},
        .call_rows = served->window_rows, .context = context};
    bool has[3] = {false};
    for (uint32_t layer = 0; layer < t->layers; layer++)
        has[t->ratio[layer]] = true;
    for (uint32_t ratio = 0; ratio < 3; ratio++) {
        s.entries = ratio ? (uint32_t)(context / ratio) : 0;
        // How many pages a lane has says nothing of a launch that is only looked at.
        if (served->whole && s.entries > LF_PAGE_ROWS)
            s.entries = LF_PAGE_ROWS;
        s.args.topk = ratio ? t->index_topk : 0;
        // The kernel sees a ratio only in how many entries there are: the most are enough.
        if (has[ratio] && !(ratio == 2 && has[1] && t->heads > 16))
            add(shapes, served->name, kinds[ratio], served->chunk_rows, s);
    }
    s.entries = s.args.topk = 0;
    s.args.whole_span = 1, s.call_rows = t->draft_block;
    if (t->draft_layers)
        add(shapes, served->name, "draft", served->slots * t->draft_block, s);
}

// Heads that fill no tile and are shared out, a window from the call alone, a list of one block.
static void ragged(struct lf_shapes *shapes) {
    struct attention_shape s = {
        .args = {.heads = 13, .head_dim = 32, .window = 7, .ring_rows = 8, .topk = 130},
        .call_rows = 20, .entries = 515, .context = 1030};
    add(shapes, "ragged", "compressed", 64, s);
    s.args.heads = 1, s.args.head_dim = 96, s.args.topk = 3;
    add(shapes, "ragged", "compressed", 64, s);
    s.args.whole_span = 1, s.args.heads = 2, s.args.topk = s.entries = 0, s.call_rows = 70;
    add(shapes, "ragged", "draft", 64, s);
}

// The last of the context, page edges, the first two, a window nearly, exactly and more than full.
static uint64_t position_of(const struct attention_shape *s, uint32_t row) {
    uint32_t w = s->args.window;
    uint64_t list[] = {s->context - 1, 129,    w - 2u, 1,   0,   w - 1u,
                       w,              w + 1u, 126,    127, 128, s->context - w};
    uint32_t n = sizeof list / sizeof *list;
    return (row < n ? list[row] : row * 2654435761u) % s->context;
}

static void fill_place(const struct lf_fill *fill, void *data, size_t n) {
    const struct attention_shape *s = fill->args;
    uint32_t row = fill->row;
    struct attention_place *place = data;
    (void)n;
    *place = (struct attention_place){.position = position_of(s, row)};
    // Behind the row the call has at least one key more.
    place->offset = s->args.whole_span ? row % s->call_rows : row * 5 % (s->call_rows - 1);
    if (place->offset > place->position)
        place->offset = (uint32_t)place->position;
}

static void fill_nothing(const struct lf_fill *fill, void *data, size_t n) {
    (void)fill;
    memset(data, 0, n);
}

// Scores of about one; cancelling queries meet keys whose neighbours are equal.
static void fill_q(const struct lf_fill *fill, void *data, size_t n) {
    static const float scale[LF_STYLES] = {1.5f, 0x1p-30f, 64.0f, 6.0f};
    lf_check_fill_bf16(fill->rng, fill->style, scale[fill->style], data, n);
}

static void fill_values(const struct lf_fill *fill, uint16_t *x, size_t n) {
    bool pairs = fill->style == LF_STYLE_CANCELLING;
    lf_check_fill_bf16(fill->rng, pairs ? LF_STYLE_NORMAL : fill->style, 1.0f, x, n);
    for (size_t i = 0; pairs && i < n; i += 2)
        x[i + 1] = x[i];
}

static void fill_qa8(const struct lf_fill *fill, void *data, size_t n) {
    uint32_t dim = ((const struct attention_shape *)fill->args)->args.head_dim;
    uint16_t x[LF_QA8_GROUP];
    uint8_t *at = data, *end = at + n;
    for (; at < end; at += lf_qa8_row_bytes(dim))
        for (uint32_t g = 0; g < dim / LF_QA8_GROUP; g++) {
            fill_values(fill, x, LF_QA8_GROUP);
            at[dim + g] = lf_qa8_group(x, at + LF_QA8_GROUP * g);
        }
}

static void fill_qf4s(const struct lf_fill *fill, void *data, size_t n) {
    uint32_t dim = ((const struct attention_shape *)fill->args)->args.head_dim;
    uint16_t x[LF_QF4S_GROUP];
    uint8_t *at = data, *end = at + n, code[LF_QF4S_GROUP];
    for (; at < end; at += lf_qf4s_row_bytes(dim))
        for (uint32_t g = 0; g < dim / LF_QF4S_GROUP; g++) {
            fill_values(fill, x, LF_QF4S_GROUP);
            at[dim / 2 + g] = lf_qf4s_group(x, code);
            for (uint32_t i = 0; i < LF_QF4S_GROUP / 2; i++)
                at[8 * g + i] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
        }
}

// A full list, one that ends on a block of 64, none, one.
static uint32_t selected_of(const struct attention_shape *s, uint32_t row) {
    uint64_t position = position_of(s, row), visible = position + 1;
    uint64_t window = visible < s->args.window ? visible : s->args.window;
    uint64_t n[] = {s->args.topk, (64 - window % 64) % 64, 0, 1}, most = s->args.topk;
    visible = visible < s->entries ? visible : s->entries;
    most = most < visible ? most : visible;
    return (uint32_t)(n[row % 4] < most ? n[row % 4] : most);
}

static void fill_n_selected(const struct lf_fill *fill, void *data, size_t n) {
    (void)n;
    *(uint32_t *)data = selected_of(fill->args, fill->row);
}

// Ascending up to the newest entry; unused places hold what may not be read.
static void fill_selected(const struct lf_fill *fill, void *data, size_t n) {
    const struct attention_shape *s = fill->args;
    uint64_t visible = position_of(s, fill->row) + 1, kept = selected_of(s, fill->row);
    uint32_t *selected = data;
    visible = visible < s->entries ? visible : s->entries;
    for (uint32_t i = 0; i < n; i++)
        selected[i] = i < kept ? (uint32_t)((i + 1) * visible / kept - 1) : UINT32_MAX;
}

static uint32_t pages_of(const struct attention_shape *s) {
    return (s->entries + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS;
}

static void describe(const void *args, struct lf_operand *o) {
    const struct attention_shape *s = args;
    const struct lf_attention_args *a = &s->args;
    size_t qa8 = lf_qa8_row_bytes(a->head_dim), qf4s = lf_qf4s_row_bytes(a->head_dim);
    size_t wide = (size_t)a->heads * a->head_dim, memory = s->entries ? PAGES_HELD : 0;
    o[ROW] = lf_operand("row", LF_RULE, LF_U8, sizeof(struct lf_row));
    o[SPAN] = lf_operand("span", LF_RULE, LF_U8, sizeof(struct lf_span));
    o[PLACE] = lf_operand("place", LF_RULE, LF_U8, sizeof(struct attention_place));
    o[ROW].fill = o[SPAN].fill = fill_nothing, o[PLACE].fill = fill_place;
    o[Q] = lf_operand("q", LF_IN, LF_BF16, wide);
    o[Q].fill = fill_q;
    o[SINK] = lf_operand("sink", LF_WEIGHT, LF_F32, a->heads);
    o[SINK].align = 1;
    o[CALL_KEYS] = lf_operand("call_keys", LF_IN, LF_U8, s->call_rows * qa8);
    o[RING] = lf_operand("ring", LF_IN, LF_U8, a->ring_rows * qa8);
    o[CALL_KEYS].fill = o[RING].fill = fill_qa8, o[CALL_KEYS].align = o[RING].align = 1;
    o[RING_AT] = lf_operand("rings", LF_POINTER, LF_U64, 1);
    o[ENTRY] = lf_operand("entries", LF_IN, LF_U8, memory * LF_PAGE_ROWS * qf4s);
    o[ENTRY].fill = fill_qf4s, o[ENTRY].align = 1;
    o[PAGE] = lf_operand("pages", LF_POINTER, LF_U64, pages_of(s));
    o[PAGED] = lf_operand("paged", LF_POINTER, LF_U64, memory ? 1 : 0);
    o[SELECTED] = lf_operand("selected", LF_RULE, LF_U32, a->topk);
    o[SELECTED].fill = fill_selected;
    o[N_SELECTED] = lf_operand("n_selected", LF_RULE, LF_U32, memory ? 1 : 0);
    o[N_SELECTED].fill = fill_n_selected;
    o[O] = lf_operand("o", LF_OUT, LF_BF16, wide);
}

// The pages of a long context lie in few: page p in that of p mod PAGES_HELD.
static void bind_lane(const struct lf_call *call, const struct attention_shape *s, uint32_t place,
                      uint32_t lane) {
    size_t page_bytes = (size_t)LF_PAGE_ROWS * lf_qf4s_row_bytes(s->args.head_dim);
    struct lf_paged *paged = call->data[PAGED];
    uint8_t **page = call->data[PAGE], **ring = call->data[RING_AT];
    ring[lane] = lf_call_at(call, RING, place, 0);
    for (uint32_t p = 0; p < pages_of(s); p++) {
        paged[lane].page = page + (size_t)place * pages_of(s);
        paged[lane].page[p] = lf_call_at(call, ENTRY, place, p % PAGES_HELD * page_bytes);
    }
}

// Lanes run against places, so that neither can stand for the other.
static void bind(const struct lf_call *call, void *args) {
    struct attention_shape *s = args;
    struct lf_attention_args *a = &s->args;
    const struct attention_place *place = call->data[PLACE];
    struct lf_row *row = call->data[ROW];
    struct lf_span *span = call->data[SPAN];
    uint32_t first = 0;
    for (uint32_t i = 0; i < call->rows; i++) {
        first = place[i].follows ? first : i;
        uint32_t lane = call->rows - 1 - first;
        row[i] = (struct lf_row){.lane = lane, .position = place[i].position, .index = i};
        if (first != i)
            continue;
        span[lane] = (struct lf_span){.first = i * s->call_rows, .rows = s->call_rows,
                                      .pos0 = place[i].position - place[i].offset};
        bind_lane(call, s, i, lane);
    }
    a->rows = call->rows, a->row = row, a->q = call->data[Q], a->sink = call->data[SINK];
    a->span = span, a->call_keys = call->data[CALL_KEYS], a->ring = call->data[RING_AT];
    a->entries = s->entries ? call->data[PAGED] : NULL;
    a->selected = call->data[SELECTED], a->n_selected = call->data[N_SELECTED];
    a->o = call->data[O];
}

// q . k of the query at element `at` and what the sum of the CPU may be off.
static struct lf_mma_walk dot(const struct lf_attention_args *a, size_t at, const double *key) {
    struct lf_mma_walk sum = {0};
    for (uint32_t d = 0; d < a->head_dim; d++) {
        double v = lf_ref_bf16(a->q, at + d) * key[d];
        sum.sum += v;
        sum.error += fabs(v);
    }
    sum.error *= lf_check_gamma(a->head_dim / 16.0 + 5.0);
    return sum;
}

// The same, and what CUDA's may be off.
static struct lf_mma_walk dot_of_steps(const struct lf_attention_args *a, size_t at,
                                       const double *key) {
    struct lf_mma_walk sum = {0};
    uint16_t q[16], k[16];
    for (uint32_t d = 0; d < a->head_dim; d++) {
        memcpy(&q[d % 16], a->q + at + d, sizeof *q);
        k[d % 16] = lf_bf16_from_f32((float)key[d]);
        if (d % 16 == 15)
            lf_mma_walk_step(&sum, q, k);
    }
    return sum;
}

// z_t and e_t of the header for one head; returns the greatest z.
static double scores(const struct lf_attention_args *a, uint32_t row, uint32_t head, bool own,
                     struct attention_list list, double *z, double *e) {
    double m = -INFINITY, blocks = ceil(list.n / 64.0), u = 0x1p-24;
    size_t at = ((size_t)row * a->heads + head) * a->head_dim;
    for (uint32_t t = 0; t < list.n; t++) {
        const double *key = list.key + (size_t)t * a->head_dim;
        struct lf_mma_walk sum = own ? dot_of_steps(a, at, key) : dot(a, at, key);
        z[t] = sum.sum * (double)a->scale;
        e[t] = sum.error * (double)a->scale;
        m = fmax(m, z[t]);
    }
    for (uint32_t t = 0; t < list.n; t++)
        e[t] += u * (fabs(z[t]) + fabs(z[t] - m)) + (3.0 * blocks + 4.0) * u;
    return m;
}

// rounded: slack is left only where float32 may round a weight to either side.
void lf_attention_bound(const struct lf_attention_args *a, uint32_t row, uint32_t head,
                        struct attention_list list, bool rounded, bool own, double *ref,
                        double *error) {
    uint32_t dim = a->head_dim, n = list.n;
    double *z = malloc(2 * n * sizeof *z), *e = z + n, u = 0x1p-24;
    LF_ASSERT(z);
    double m = scores(a, row, head, own, list, z, e), sink = lf_ref_f32(a->sink, head);
    double sums = lf_check_gamma(8.0 + ceil(n / 64.0)), top = fmax(m, sink), f = exp(m - top);
    double value_sums = own ? lf_check_gamma(ceil(n / 64.0)) + 4 * 1.25 * 0x1p-21 : sums;
    double total = exp(sink - top), off = total * expm1(u * fabs(sink - m) + 4.0 * u);
    memset(error, 0, dim * sizeof *error);
    if (rounded)
        memset(ref, 0, dim * sizeof *ref);
    for (uint32_t t = 0; t < n; t++) {
        double p = exp(z[t] - m), near = expm1(e[t]), spacing = 2 * lf_check_half_bf16(p);
        double bf = rint(p / spacing) * spacing, tie = fabs(fabs(p - bf) - spacing / 2);
        const double *key = list.key + (size_t)t * dim;
        double slack = !rounded ? p * 0x1p-8 : tie <= p * near ? spacing : 0.0;
        total += f * p;
        off += f * p * (near + sums);
        for (uint32_t d = 0; d < dim; d++) {
            error[d] += f * fabs(key[d]) * (p * (near + value_sums) * 1.01 + slack + 0x1p-134);
            if (rounded)
                ref[d] += f * bf * key[d];
        }
    }
    for (uint32_t d = 0; d < dim; d++) {
        ref[d] = rounded ? ref[d] / total : ref[d];
        error[d] = (error[d] + fabs(ref[d]) * off) / (total - off) + u * fabs(ref[d]) + 0x1p-126;
        error[d] += sink - m > 88.0 ? fabs(ref[d]) : 0.0; // the denominator may be infinite
    }
    free(z);
}

void lf_attention_bounds(const struct attention_shape *shape, bool own, const double *ref,
                         double *error) {
    const struct lf_attention_args *a = &shape->args;
    double *held = malloc(a->head_dim * sizeof *held);
    LF_ASSERT(held);
    for (uint32_t row = 0; row < a->rows; row++) {
        struct attention_list list = lf_attention_f64_list(a, row);
        for (uint32_t head = 0; head < a->heads; head++) {
            memcpy(held, ref, a->head_dim * sizeof *held);
            lf_attention_bound(a, row, head, list, false, own, held, error);
            ref += a->head_dim, error += a->head_dim;
        }
        free(list.key);
    }
    free(held);
}

static void bound(const void *args, const double *ref, double *error) {
    lf_attention_bounds(args, false, ref, error);
}

static size_t scratch(const void *args) {
    const struct lf_attention_args *a = &((const struct attention_shape *)args)->args;
    return lf_attention_scratch_bytes(a->heads, a->head_dim);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct attention_shape *s = args;
    uint64_t list = (uint64_t)s->args.window + s->call_rows + s->args.topk;
    product[0] = (struct lf_product){"tasks", rows * (uint64_t)((s->args.heads + 5) / 6), 32};
    product[1] = (struct lf_product){"keys of a list", list + 64, 32};
    product[2] = (struct lf_product){"key rows of a call", (uint64_t)rows * s->call_rows, 32};
    return 3;
}

enum { CUDA = 1 << LF_SET_CUDA };

static const struct lf_control controls[] = {
    {1, "the sink left out", LF_GATE_BOUND, 0},
    {2, "the oldest key of the window lost", LF_GATE_BOUND, 0},
    {3, "the selected entries ignored", LF_GATE_BOUND, 0},
    {4, "a key of the future read", LF_GATE_BOUND, 0},
    {5, "a stale ring entry for the call's first key", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {6, "blocks merged from the last on in launches of more than three rows",
     LF_GATE_ROWS, LF_CPU_SETS},
    {7, "weights not rounded to bf16", LF_GATE_EDGES, 0},
    {8, "the denominator adds rounded weights", LF_GATE_EDGES, 0},
    {9, "earlier blocks keep their old maximum", LF_GATE_BOUND, 0},
    {10, "the scale left out", LF_GATE_BOUND, 0},
    {11, "the last entry of a page read as the one before", LF_GATE_EDGES, 0},
    {12, "a score that is not finite weighs nothing", LF_GATE_EDGES, 0},
    {13, "a write past the row", LF_GATE_MEMORY, 0},
    {14, "shared heads with the sinks of the first ones", LF_GATE_ROWS, LF_CPU_SETS},
    {15, "the first lane's entries for every row", LF_GATE_ROWS, 0},
    {16, "a draft row sees no row after it", LF_GATE_BOUND, 0},
    {17, "a tile's second head with the first's weights", LF_GATE_BOUND, LF_CPU_SETS},
    {18, "the last step of elements not in a dot product", LF_GATE_BOUND, CUDA},
    {19, "places past the list's end weigh one", LF_GATE_BOUND, CUDA},
    {20, "a step's upper keys with the lower ones' weights", LF_GATE_BOUND, CUDA},
    {21, "a block's sum not begun from zero", LF_GATE_BOUND, CUDA},
    {22, "an e4m3 NaN read as a number", LF_GATE_EDGES, CUDA},
    {23, "the sign of a 4-bit code lost", LF_GATE_BOUND, CUDA},
    {24, "a key's first scale for all of its groups", LF_GATE_BOUND, CUDA},
    {25, "o truncated", LF_GATE_BOUND, CUDA},
    {26, "weights truncated in launches of more than three rows", LF_GATE_ROWS, CUDA},
};

const struct lf_record lf_attention_record = {
    .name = "attention", .file = "src/kernel/attention/attention_cpu.c",
    .contract = LF_ATTENTION_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .bound = bound,
    .cuda_sums = &lf_attention_cuda_sums, .edges = lf_attention_edges,
    .windows = lf_attention_windows, .scratch = scratch,
    .products = products, .stack_bytes = 8192,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
