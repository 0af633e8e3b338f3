// Problems of kernels that read or write what is kept by position: rings, pages, entries.
#include <math.h>
#include <stdio.h>
#include "cuda/check.h"
#include "device/pool.h"
#include "kernel/attention/attention_steps.h"

#define MIRROR(c, args, field) ((args).field = check_mirror(c, (args).field))

enum { LANES = 3, PAGES_MAX = 4096 };

void check_compress_pool(struct check *c, const struct sizes *s) {
    for (int style = 0; style < STYLES; style++) {
        enum { ENTRIES = 11 };
        const float *first[ENTRIES], *second[ENTRIES];
        check_start(c, "%s: style %d", s->name, style);
        struct lf_compress_pool_args a = {.entries = ENTRIES, .dim = s->head_dim, .first = first,
                                          .second = second};
        for (int j = 0; j < ENTRIES; j++) {
            float *rows = check_new_f32(c, "rows", (size_t)4 * s->head_dim, style);
            // Gates of the size that softmax sees, and equal ones.
            for (uint32_t d = 0; style == STYLE_NORMAL && d < 4 * s->head_dim; d++)
                rows[d] = fmodf(rows[d], 8.0f);
            first[j] = rows, second[j] = rows + 2 * (size_t)s->head_dim;
        }
        a.y = check_new(c, "y", (size_t)2 * ENTRIES * s->head_dim);
        struct lf_compress_pool_args d = a;
        d.first = check_pointers(c, first, ENTRIES);
        d.second = check_pointers(c, second, ENTRIES);
        MIRROR(c, d, y);
        CHECK_KERNEL(c, compress_pool, &a, &d);
    }
}

// Rows of LANES lanes: lane l has a third of them, at positions from pos0 on.
struct call {
    struct lf_row *row;   // [rows]
    struct lf_span *span; // [LANES]
};

static struct call make_call(struct check *c, uint32_t rows, uint32_t past) {
    struct call made = {check_new(c, "row", rows * sizeof *made.row),
                        check_new(c, "span", LANES * sizeof *made.span)};
    uint32_t r = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t end = lane + 1 == LANES ? rows : rows * (lane + 1) / LANES;
        made.span[lane] = (struct lf_span){r, end - r, lane ? check_random(c, past) : 0};
        for (uint64_t p = made.span[lane].pos0; r < end; r++, p++)
            made.row[r] = (struct lf_row){.lane = lane, .position = p, .index = r,
                                          .depth = check_random(c, 3)};
    }
    return made;
}

void check_ring_store(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++) {
        uint32_t rows = s->rows[i], ring_rows = 16, bytes = s->head_dim + 1;
        uint8_t *ring[LANES];
        check_start(c, "%s: %u rows", s->name, rows);
        struct call call = make_call(c, rows, 1000);
        struct lf_ring_store_args a = {.rows = rows, .row = call.row, .depth_min = i % 2,
                                       .span = call.span, .kept = ring_rows, .row_bytes = bytes,
                                       .ring = ring, .ring_rows = ring_rows,
                                       .ring_pitch = bytes + 2};
        uint8_t *x = check_new(c, "x", (size_t)rows * bytes);
        check_bytes(c, x, (size_t)rows * bytes);
        a.x = x;
        for (uint32_t lane = 0; lane < LANES; lane++)
            ring[lane] = check_new(c, "ring", ring_rows * a.ring_pitch);
        struct lf_ring_store_args d = a;
        MIRROR(c, d, row), MIRROR(c, d, span), MIRROR(c, d, x);
        d.ring = check_pointers(c, ring, LANES);
        CHECK_KERNEL(c, ring_store, &a, &d);
    }
}

// Pages of packed rows for each lane, on both sides. low, high: of the scale bytes.
struct paged {
    uint8_t *page[LANES][PAGES_MAX];
    struct lf_paged host[LANES];
    const struct lf_paged *device; // [LANES]
};

static void make_pages(struct check *c, struct paged *paged, uint32_t rows, uint32_t row_bytes,
                       uint32_t codes_bytes, uint8_t low, uint8_t high) {
    uint32_t pages = (rows + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS;
    size_t page_bytes = (size_t)LF_PAGE_ROWS * row_bytes;
    struct lf_paged device[LANES];
    LF_ASSERT(pages <= PAGES_MAX);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint8_t *all = check_new(c, "pages", pages * page_bytes);
        check_bytes(c, all, pages * page_bytes);
        for (uint32_t r = 0; r < pages * LF_PAGE_ROWS; r++)
            check_range(c, all + (size_t)r * row_bytes + codes_bytes, row_bytes - codes_bytes, low,
                        high);
        // In the order of their addresses they would hide a wrong page.
        for (uint32_t p = 0; p < pages; p++)
            paged->page[lane][p] = all + (pages - 1 - p) * page_bytes;
        paged->host[lane].page = paged->page[lane];
        device[lane].page = check_pointers(c, paged->page[lane], pages);
    }
    paged->device = check_table(c, device, sizeof device);
}

// Ascending blocks of a row, and how many: what PUBLISH leaves for RESTRICT.
static void make_blocks(struct check *c, const struct sizes *s, uint32_t visible, uint32_t *blocks,
                        uint32_t *n) {
    uint32_t all = (visible + s->block_size - 1) / s->block_size;
    *n = 0;
    for (uint32_t b = 0; b < all && *n < s->topk_blocks; b++)
        if (all <= s->topk_blocks || check_random(c, all) < s->topk_blocks || b + 1 == all)
            blocks[(*n)++] = b;
}

// Queries as QF4e gives them: codes of a group times one of `powers` powers of two.
static uint16_t *new_codes(struct check *c, size_t n, uint32_t powers) {
    static const float value[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    uint16_t *q = check_new(c, "q", n * sizeof *q);
    float scale = 1;
    for (size_t i = 0; i < n; i++) {
        if (i % 32 == 0)
            scale = ldexpf(check_random(c, 2) ? -1.0f : 1.0f, -(int)check_random(c, powers));
        q[i] = lf_bf16_from_f32(value[check_random(c, 8)] * scale);
    }
    return q;
}

// Kind 0: numbers of the model, 1: any bits, 2: queries that are no codes, 3: powers far apart.
static void score_problem(struct check *c, const struct sizes *s, uint32_t rows, int kind,
                          bool in_blocks) {
    static struct paged paged;
    uint32_t dim = s->index_dim, heads = s->index_heads, most = s->entries;
    bool wild = kind == 1;
    check_start(c, "%s: %u rows, kind %d, in blocks %d", s->name, rows, kind, in_blocks);
    struct call call = make_call(c, rows, 1000);
    make_pages(c, &paged, most, lf_qf4e_row_bytes(dim), dim / 2, wild ? 0 : 120,
               wild ? 255 : kind == 0 ? 124 : 130);
    struct lf_index_score_args a = {.rows = rows, .heads = heads, .dim = dim, .row = call.row,
                                    .weight_scale = 0.0123f, .keys = paged.host,
                                    .score_stride = most + 3};
    size_t n = (size_t)rows * heads * dim;
    a.q = kind % 3 ? check_new_bf16(c, "q", n, wild ? STYLE_ANY : STYLE_NORMAL)
                   : new_codes(c, n, kind ? 8 : 4);
    a.head_weight = check_new_bf16(c, "head_weight", (size_t)rows * heads, STYLE_NORMAL);
    uint32_t *visible = check_new(c, "visible", rows * sizeof *visible);
    uint32_t *blocks = check_new(c, "blocks", sizeof *blocks * rows * s->topk_blocks);
    uint32_t *n_blocks = check_new(c, "n_blocks", sizeof *n_blocks * rows);
    for (uint32_t r = 0; r < rows; r++) {
        visible[r] = r ? check_random(c, most + 1) : most;
        make_blocks(c, s, visible[r], blocks + (size_t)r * s->topk_blocks, &n_blocks[r]);
    }
    a.visible = visible;
    if (in_blocks)
        a.candidates = (struct lf_candidates){blocks, n_blocks, s->block_size, s->topk_blocks};
    a.score = check_new(c, "score", sizeof(float) * rows * a.score_stride);
    struct lf_index_score_args d = a;
    MIRROR(c, d, row), MIRROR(c, d, q), MIRROR(c, d, head_weight), MIRROR(c, d, visible);
    MIRROR(c, d, score);
    if (in_blocks)
        MIRROR(c, d, candidates.blocks), MIRROR(c, d, candidates.n_blocks);
    d.keys = paged.device;
    CHECK_KERNEL(c, index_score, &a, &d);
}

void check_index_score(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int problem = 0; problem < 8; problem++)
            score_problem(c, s, s->rows[i] < 8 ? s->rows[i] : 8, problem / 2, problem % 2);
    // So many rows that neighbours share what is made of their lane's entries.
    struct sizes many = *s;
    many.entries = 300;
    for (int problem = 0; problem < 3; problem++)
        score_problem(c, &many, 131, problem / 2, problem % 2);
    // All heads and elements that products have room for.
    many.index_heads = 32, many.index_dim = 128;
    for (int problem = 0; problem < 2; problem++)
        score_problem(c, &many, 131, 0, problem);
    // More heads than are multiplied together.
    many.index_heads = 67;
    for (int kind = 0; kind < 2; kind++)
        score_problem(c, &many, 3, kind, true);
}

// Style 0: normal numbers; 1: few values, so ties; 2: any bits.
static void select_problem(struct check *c, const struct sizes *s, uint32_t rows, uint32_t most,
                           enum lf_candidate_mode mode, int style) {
    check_start(c, "%s: %u rows of %u, mode %d, style %d", s->name, rows, most, mode, style);
    struct lf_index_select_args a = {.rows = rows, .topk = s->topk, .mode = mode,
                                     .block_size = s->block_size, .topk_blocks = s->topk_blocks,
                                     .score_stride = most + 2};
    float *score = check_new_f32(c, "score", rows * a.score_stride, style == 2 ? STYLE_ANY
                                                                               : STYLE_NORMAL);
    for (size_t i = 0; style == 1 && i < rows * a.score_stride; i++)
        score[i] = (float)check_random(c, 3) * -0.5f;
    uint32_t *visible = check_new(c, "visible", rows * sizeof *visible);
    a.blocks = check_new(c, "blocks", sizeof *a.blocks * rows * s->topk_blocks);
    a.n_blocks = check_new(c, "n_blocks", sizeof *a.n_blocks * rows);
    a.selected = check_new(c, "selected", sizeof *a.selected * rows * s->topk);
    a.n_selected = check_new(c, "n_selected", sizeof *a.n_selected * rows);
    for (uint32_t r = 0; r < rows; r++) {
        visible[r] = r % 3 == 0 ? most : check_random(c, r % 3 == 1 ? most : 2 * s->topk);
        if (mode == LF_CANDIDATES_RESTRICT)
            make_blocks(c, s, visible[r], a.blocks + (size_t)r * s->topk_blocks, &a.n_blocks[r]);
    }
    a.score = score, a.visible = visible;
    struct lf_index_select_args d = a;
    MIRROR(c, d, score), MIRROR(c, d, visible), MIRROR(c, d, blocks), MIRROR(c, d, n_blocks);
    MIRROR(c, d, selected), MIRROR(c, d, n_selected);
    CHECK_KERNEL(c, index_select, &a, &d);
}

void check_index_select(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int mode = LF_CANDIDATES_NONE; mode <= LF_CANDIDATES_RESTRICT; mode++)
            for (int style = 0; style < 3; style++)
                select_problem(c, s, s->rows[i] < 16 ? s->rows[i] : 16, s->entries, mode, style);
    // So many entries that blocks of threads share a row's.
    uint32_t many = s->entries < 2000 ? 35000 : 524288;
    select_problem(c, s, 1, many, LF_CANDIDATES_PUBLISH, 1);
    // Keys in shared memory, several turns of them; more rows than blocks share, and no room.
    for (int mode = LF_CANDIDATES_NONE; mode <= LF_CANDIDATES_RESTRICT; mode++)
        select_problem(c, s, 2, 20000, mode, mode);
    select_problem(c, s, 65, 33000, LF_CANDIDATES_NONE, 0);
}

// Ascending entries below all.
static uint32_t choose_entries(struct check *c, uint32_t topk, uint32_t all, uint32_t *selected) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < all && n < topk; e++)
        if (all <= topk || check_random(c, all) < topk)
            selected[n++] = e;
    return n;
}

// QA8 rows: codes and scales of ordinary size, or any.
static uint8_t *new_window(struct check *c, const char *name, uint32_t rows, uint32_t dim,
                           int wild) {
    uint32_t row_bytes = lf_qa8_row_bytes(dim);
    uint8_t *packed = check_new(c, name, (size_t)rows * row_bytes);
    for (uint32_t r = 0; r < rows; r++) {
        uint8_t *row = packed + (size_t)r * row_bytes;
        check_range(c, row, dim, 0, wild ? 255 : 0x6F);
        for (uint32_t d = 0; !wild && d < dim; d++)
            row[d] |= (uint8_t)(check_random(c, 2) << 7);
        check_range(c, row + dim, row_bytes - dim, wild ? 0 : 110, wild ? 255 : 118);
    }
    return packed;
}

// A row whose heads the tasks of a pool share.
struct expected {
    const struct lf_attention_args *args;
    struct lf_attention_steps steps;
    uint32_t row;
};

static void expected_task(void *ctx, uint32_t head, uint32_t worker) {
    const struct expected *e = ctx;
    const struct lf_attention_args *a = e->args;
    size_t at = ((size_t)e->row * a->heads + head) * a->head_dim;
    float sum[LF_CUDA_HEAD_DIM_MAX];
    (void)worker;
    lf_attention_step_head(a, &e->steps, a->q + at, a->sink[head], sum, a->o + at);
}

static void expect_attention(struct check *c, const struct lf_attention_args *a) {
    for (uint32_t row = 0; row < a->rows; row++) {
        struct expected e = {a, lf_attention_steps(a, row), row};
        lf_pool_run(c->on.pool, a->heads, expected_task, &e);
        free(e.steps.key);
    }
}

static void attention_problem(struct check *c, const struct sizes *s, uint32_t rows, int kind) {
    static struct paged paged;
    bool with_entries = kind != 1, wild = kind == 2, whole = kind == 3;
    uint32_t ring_rows = 1, dim = s->head_dim, all = s->entries < 2000 ? s->entries : 2000;
    uint8_t *ring[LANES];
    while (ring_rows < s->window)
        ring_rows *= 2;
    check_start(c, "%s: %u rows, kind %d", s->name, rows, kind);
    struct call call = make_call(c, rows, 3 * s->window);
    struct lf_attention_args a = {.rows = rows, .heads = s->heads, .head_dim = dim,
                                  .row = call.row, .scale = 1.0f / sqrtf((float)dim),
                                  .window = s->window, .whole_span = whole, .span = call.span,
                                  .ring = ring, .ring_rows = ring_rows, .topk = s->topk};
    a.q = check_new_bf16(c, "q", (size_t)rows * s->heads * dim, wild ? STYLE_ANY : STYLE_NORMAL);
    a.sink = check_new_f32(c, "sink", s->heads, STYLE_NORMAL);
    a.call_keys = new_window(c, "call_keys", rows, dim, wild);
    for (uint32_t lane = 0; lane < LANES; lane++)
        ring[lane] = new_window(c, "ring", ring_rows, dim, wild);
    uint32_t *selected = check_new(c, "selected", sizeof *selected * rows * s->topk);
    uint32_t *n_selected = check_new(c, "n_selected", sizeof *n_selected * rows);
    if (with_entries)
        make_pages(c, &paged, all, lf_qf4s_row_bytes(dim), dim / 2, wild ? 0 : 0x28,
                   wild ? 0x7F : 0x38);
    for (uint32_t r = 0; r < rows; r++)
        n_selected[r] = choose_entries(c, s->topk, check_random(c, all + 1),
                                       selected + (size_t)r * s->topk);
    a.selected = selected, a.n_selected = n_selected;
    a.entries = with_entries ? paged.host : NULL;
    a.o = check_new(c, "o", (size_t)2 * rows * s->heads * dim);
    struct lf_attention_args d = a;
    MIRROR(c, d, row), MIRROR(c, d, q), MIRROR(c, d, sink), MIRROR(c, d, span);
    MIRROR(c, d, call_keys), MIRROR(c, d, selected), MIRROR(c, d, n_selected), MIRROR(c, d, o);
    d.ring = check_pointers(c, ring, LANES);
    d.entries = with_entries ? paged.device : NULL;
    check_keep(c);
    expect_attention(c, &a);
    for (int turn = 0; turn < 2; turn++) {
        check_send(c);
        lf_cuda_kernels.attention(&c->on, &d);
        check_compare(c);
    }
}

void check_attention(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int kind = 0; kind < 4; kind++)
            attention_problem(c, s, s->rows[i] < 12 ? s->rows[i] : 12, kind);
    // So many rows that one launch does all; more heads than it takes at once; room for long lists.
    struct sizes many = *s;
    many.heads = s->heads < 20 ? s->heads : 20, many.entries = 150;
    for (int kind = 1; kind < 4; kind++)
        attention_problem(c, &many, 33, kind);
    // Few rows whose lists are longer than what is weighed at once.
    many.topk = 1500, many.entries = 1500;
    attention_problem(c, &many, 3, 0);
    attention_problem(c, &many, 4, 2);
    many.topk = 11000, many.heads = 70, many.entries = 150;
    attention_problem(c, &many, 33, 0);
    // The longest keys, whole blocks of the window and of entries among theirs.
    many.topk = 130, many.heads = 3, many.entries = 190, many.window = 64, many.head_dim = 512;
    attention_problem(c, &many, 33, 0);
    attention_problem(c, &many, 33, 2);
}
