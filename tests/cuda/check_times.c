// How long the CUDA column takes at the release's sizes: medians of launches back to back.
#include <string.h>
#include "cuda/check_time.h"

enum { LANES = 1, ROWS_MAX = 2048, PAGES_MAX = 4096 };

// Bytes from low to high.
static uint8_t *random_region(struct check *c, size_t bytes, uint8_t low, uint8_t high) {
    enum { BLOCK = 1 << 20 };
    uint8_t *region = check_new(c, "region", bytes);
    check_range(c, region, bytes < BLOCK ? bytes : BLOCK, low, high);
    // No NaN codes of FP8: weights have none, and they are slow.
    for (size_t i = 0; i < bytes && i < BLOCK; i++)
        region[i] = (region[i] & 0x7F) == 0x7F ? 0x55 : region[i];
    for (size_t at = BLOCK; at < bytes; at += BLOCK)
        memcpy(region + at, region, bytes - at < BLOCK ? bytes - at : BLOCK);
    return check_mirror(c, region);
}

static void fill_regions(struct check *c, struct regions *g) {
    enum { NUMBERS = 8 << 20 };
    check_start(c, "times");
    g->weight = random_region(c, WEIGHT_BYTES, 0, 255);
    g->scale = random_region(c, (size_t)40 << 20, 115, 122);
    uint16_t *code = check_new(c, "codes", NUMBERS * sizeof *code);
    for (size_t i = 0; i < NUMBERS; i++)
        code[i] = lf_bf16_from_f32((float)check_random(c, 7) - 3.0f);
    g->code = check_mirror(c, code);
    g->x = check_mirror(c, check_new_bf16(c, "x", 8 * NUMBERS, STYLE_NORMAL));
    g->f = check_mirror(c, check_new_f32(c, "f", 2 * NUMBERS, STYLE_NORMAL));
    g->out = check_mirror(c, check_new(c, "out", (size_t)300 << 20));
    check_keep(c);
    check_send(c);
}

// Rows of one lane that end at a position, and no other table.
static void set_rows(struct check *c, struct regions *g, uint32_t rows, uint64_t end) {
    struct lf_span span[LANES] = {{0, rows, end - rows}};
    struct lf_row row[ROWS_MAX];
    for (uint32_t r = 0; r < rows; r++)
        row[r] = (struct lf_row){.position = end - rows + r, .index = r};
    c->tables_used = 0;
    g->row = check_table(c, row, rows * sizeof *row);
    g->span = check_table(c, span, sizeof span);
}

static void time_attention(struct check *c, const struct sizes *s, struct regions *g,
                           uint32_t rows) {
    enum { PAGES = 16 };
    struct lf_attention_args args[VARIANTS];
    struct lf_paged entries[LANES];
    // Bytes that neither codes nor scales make odd.
    uint8_t *page[PAGES], *ring[LANES] = {g->scale};
    char text[80];
    uint32_t *selected = malloc(sizeof *selected * rows * s->topk), n[ROWS_MAX];
    LF_ASSERT(selected);
    for (uint32_t i = 0; i < PAGES; i++)
        page[i] = g->scale + ((size_t)(i + 1) << 20);
    for (uint32_t i = 0; i < rows * s->topk; i++)
        selected[i] = i % s->topk * (PAGES * LF_PAGE_ROWS / s->topk);
    for (uint32_t r = 0; r < rows; r++)
        n[r] = s->topk;
    set_rows(c, g, rows, 100000);
    entries[0].page = check_table(c, page, sizeof page);
    const struct lf_paged *entries_at = check_table(c, entries, sizeof entries);
    uint8_t *const *ring_at = check_table(c, ring, sizeof ring);
    uint32_t *selected_at = (uint32_t *)(g->out + ((size_t)200 << 20));
    uint32_t *n_at = (uint32_t *)(g->out + ((size_t)190 << 20));
    lf_cuda_upload(c->on.cuda, selected_at, selected, sizeof *selected * rows * s->topk);
    lf_cuda_upload(c->on.cuda, n_at, n, sizeof *n * rows);
    free(selected);
    for (int v = 0; v < VARIANTS; v++)
        args[v] = (struct lf_attention_args){
            .rows = rows, .heads = s->heads, .head_dim = s->head_dim, .row = g->row, .q = g->x,
            .scale = 1e-5f, .sink = g->f, .window = s->window, .span = g->span,
            .call_keys = g->scale + ((size_t)32 << 20), .ring = ring_at, .ring_rows = s->window,
            .entries = entries_at, .selected = selected_at, .n_selected = n_at, .topk = s->topk,
            .o = (uint16_t *)g->out};
    snprintf(text, sizeof text, "attention, %u keys, %u rows", s->window + s->topk, rows);
    TIME_CALLS(c, text, rows * (128.0 * 528 + 512 * 288),
               4.0 * rows * s->heads * s->head_dim * (s->window + s->topk),
               lf_cuda_kernels.attention(&c->on, &args[i % VARIANTS]));
}

static void time_index(struct check *c, const struct sizes *s, struct regions *g, uint32_t rows,
                       uint32_t entries) {
    struct lf_index_score_args score[VARIANTS];
    struct lf_index_select_args select[VARIANTS];
    uint8_t *page[PAGES_MAX];
    uint32_t pages = (entries + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS, visible[ROWS_MAX];
    uint32_t row_bytes = lf_qf4e_row_bytes(s->index_dim);
    char text[80];
    LF_ASSERT(pages <= PAGES_MAX);
    set_rows(c, g, rows, entries);
    for (uint32_t p = 0; p < pages; p++)
        page[p] = g->scale + (size_t)p * LF_PAGE_ROWS * row_bytes;
    struct lf_paged keys[LANES] = {{check_table(c, page, pages * sizeof *page)}};
    const struct lf_paged *keys_at = check_table(c, keys, sizeof keys);
    for (uint32_t r = 0; r < rows; r++)
        visible[r] = entries;
    uint32_t *visible_at = (uint32_t *)(g->out + ((size_t)290 << 20));
    lf_cuda_upload(c->on.cuda, visible_at, visible, sizeof *visible * rows);
    uint32_t *lists = (uint32_t *)(g->out + ((size_t)250 << 20));
    for (int v = 0; v < VARIANTS; v++) {
        score[v] = (struct lf_index_score_args){
            .rows = rows, .heads = s->index_heads, .dim = s->index_dim, .row = g->row, .q = g->code,
            .head_weight = g->x, .weight_scale = 0.01f, .keys = keys_at, .visible = visible_at,
            .score = (float *)g->out, .score_stride = entries};
        select[v] = (struct lf_index_select_args){
            .rows = rows, .topk = s->topk, .mode = LF_CANDIDATES_PUBLISH,
            .block_size = s->block_size, .topk_blocks = s->topk_blocks, .visible = visible_at,
            .score = (float *)g->out, .score_stride = entries, .blocks = lists,
            .n_blocks = lists + (1 << 20), .selected = lists + (2 << 20),
            .n_selected = lists + (3 << 20)};
    }
    snprintf(text, sizeof text, "index_score, %u entries, %u rows", entries, rows);
    TIME(c, text, index_score, score, (double)rows * entries * row_bytes);
    snprintf(text, sizeof text, "index_select with blocks, %u entries, %u rows", entries, rows);
    if (rows <= 16) // for whose lists there is room
        TIME(c, text, index_select, select, (double)rows * entries * 4);
}

// Fills VARIANTS of a kernel's arguments, which all are the same, and times them.
#define TIME_SAME(c, rows, kernel, bytes, ...)                                                     \
    do {                                                                                           \
        struct lf_##kernel##_args one = {__VA_ARGS__}, same[VARIANTS] = {one, one, one, one};      \
        char label[80];                                                                            \
        snprintf(label, sizeof label, #kernel ", %u rows", rows);                                  \
        TIME(c, label, kernel, same, (double)(rows) * (bytes));                                    \
    } while (0)

static void time_rows(struct check *c, const struct sizes *s, struct regions *g, uint32_t rows) {
    uint32_t h = s->hidden, n = s->streams;
    uint16_t *out = (uint16_t *)g->out;
    uint16_t *values = (uint16_t *)(g->out + ((size_t)200 << 20));
    float *numbers = (float *)(g->out + ((size_t)280 << 20));
    TIME_SAME(c, rows, rms_norm, 6.0 * h, .rows = rows, .dim = h, .x = g->x, .x_stride = h,
              .w = g->x, .eps = 1e-6f, .y = out, .y_stride = h, .quantized = values);
    TIME_SAME(c, rows, act_quant, 4.0 * h, .rows = rows, .dim = h, .x = g->x, .x_stride = h,
              .y = out, .y_stride = h);
    TIME_SAME(c, rows, hc_mix, 2.0 * n * h, .rows = rows, .streams = n, .dim = h, .x = out,
              .fn = g->f, .base = g->f, .scale = g->f, .sinkhorn_iters = 20, .hc_eps = 1e-6f,
              .norm_eps = 1e-6f, .pre = numbers, .post = numbers + 65536,
              .comb = numbers + 131072);
    TIME_SAME(c, rows, hc_collapse, 2.0 * (n + 2) * h, .rows = rows, .streams = n, .dim = h,
              .x = out, .pre = g->f, .y = g->x, .norm = g->code, .eps = 1e-6f,
              .quantized = values);
    TIME_SAME(c, rows, hc_expand, 2.0 * (2 * n + 3) * h, .rows = rows, .streams = n, .dim = h,
              .x = out, .b = g->x, .post = g->f, .comb = g->f, .pre = g->f, .norm = g->code,
              .eps = 1e-6f, .y = values, .quantized = values + (8 << 20));
    TIME_SAME(c, rows, router, 4.0 * s->experts, .rows = rows, .experts = s->experts,
              .top = s->top, .logits = g->f, .bias = g->f, .route_scale = 1.5f,
              .id = (uint32_t *)numbers, .weight = numbers + 65536);
    TIME_SAME(c, rows, swiglu, 8.0 * s->expert_dim, .rows = rows, .dim = s->expert_dim,
              .gate = g->x, .up = g->x, .limit = 10.0f, .y = out, .quantized = values);
    TIME_SAME(c, rows, engram_gate, 2.0 * (3 * n + 1) * h, .rows = rows, .streams = n, .dim = h,
              .x = out, .kv = (uint16_t *)g->weight, .q_weight = g->x, .k_weight = g->x,
              .dot_scale = 0.014f, .eps = 1e-6f);
}

// What a row's experts and its newest key take beside the maps.
static void time_routes(struct check *c, const struct sizes *s, struct regions *g, uint32_t rows) {
    uint32_t *numbers = (uint32_t *)(g->out + ((size_t)280 << 20)), n = rows * s->top;
    uint32_t *id = malloc(n * sizeof *id), bytes = s->head_dim + s->head_dim / 32;
    uint8_t *ring[LANES] = {g->out};
    LF_ASSERT(id);
    for (uint32_t i = 0; i < n; i++)
        id[i] = check_random(c, s->experts);
    lf_cuda_upload(c->on.cuda, numbers, id, n * sizeof *id);
    free(id);
    set_rows(c, g, rows, 100000);
    TIME_SAME(c, rows, expert_group, 16.0 * s->top, .rows = rows, .top = s->top,
              .experts = s->experts, .id = numbers, .weight = g->f, .first = numbers + (1 << 16),
              .pair_row = numbers + (2 << 16), .pair_weight = (float *)numbers + (3 << 16),
              .pair_of = numbers + (4 << 16));
    // Of experts, any pairs; the second time it collapses and norms as well.
    for (int next = 0; next < 2; next++)
        TIME_SAME(c, rows, hc_expand, 2.0 * (2 * s->streams + s->top + 1) * s->hidden,
                  .rows = rows, .streams = s->streams, .dim = s->hidden,
                  .x = (uint16_t *)g->out, .post = g->f, .comb = g->f, .pair = numbers,
                  .top = s->top, .expert = g->x, .shared = g->code, .pre = next ? g->f : NULL,
                  .norm = g->code, .eps = 1e-6f, .y = (uint16_t *)g->out + (64 << 20),
                  .quantized = next ? (uint16_t *)g->out + (80 << 20) : NULL);
    TIME_SAME(c, rows, ring_store, 2.0 * bytes, .rows = rows, .row = g->row, .span = g->span,
              .kept = s->window, .x = g->weight, .row_bytes = bytes,
              .ring = check_table(c, ring, sizeof ring), .ring_rows = s->window,
              .ring_pitch = bytes);
    TIME_SAME(c, rows, rope, 4.0 * s->heads * s->rope_dim, .rows = rows, .heads = s->heads,
              .head_dim = s->head_dim, .rope_dim = s->rope_dim, .x = (uint16_t *)g->out,
              .x_stride = (size_t)s->heads * s->head_dim, .cos = g->f, .sin = g->f);
}

static void time_draws(struct check *c, const struct sizes *s, struct regions *g, uint32_t rows) {
    static struct lf_sampling rule = {.temperature = 1, .top_p = 0.95, .top_k = 40, .seed = 7};
    static struct lf_sample_row row[64];
    uint32_t *ids = (uint32_t *)g->out;
    for (uint32_t r = 0; r < rows; r++)
        row[r] = (struct lf_sample_row){&rule, 1000 + r, NULL};
    TIME_SAME(c, rows, sample, 4.0 * s->vocab, .rows = rows, .vocab = s->vocab, .logits = g->f,
              .logits_stride = s->vocab, .row = row, .drawn = ids);
    TIME_SAME(c, rows, logprobs, 4.0 * s->vocab, .rows = rows, .vocab = s->vocab, .logits = g->f,
              .logits_stride = s->vocab, .drawn = ids, .top = 20,
              .row = (struct lf_logprob_row *)(g->out + 65536));
}

void check_times(struct check *c, const struct sizes *s) {
    static const uint32_t rows[] = {1, 16, 64, 128, 1024, 2048};
    static const uint32_t attended[] = {1, 4, 16, 64, 256, 2048};
    static struct regions g;
    fill_regions(c, &g);
    if (is_timed(c, "linear"))
        check_linear_times(c, &g);
    for (int i = 0; i < 6; i++)
        time_attention(c, s, &g, attended[i]);
    time_index(c, s, &g, 1, 16384);
    time_index(c, s, &g, 16, 16384);
    time_index(c, s, &g, 1, 524288);
    time_index(c, s, &g, 2048, 16384);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        time_rows(c, s, &g, rows[i]);
        time_routes(c, s, &g, rows[i]);
    }
    time_draws(c, s, &g, 1);
    time_draws(c, s, &g, 64);
}
