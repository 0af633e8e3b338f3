// Problems of kernels that work on each row for itself.
#include <math.h>
#include "cuda/check.h"

#define MIRROR(c, args, field) ((args).field = check_mirror(c, (args).field))

static const float eps = 1e-20f;

// Runs body for each launch size of s and each style.
#define EACH(s, r, style)                                                                          \
    for (uint32_t i_##r = 0, r; i_##r < 4 && (r = (s)->rows[i_##r]); i_##r++)                      \
        for (enum style style = STYLE_NORMAL; style < STYLES; style++)

void check_embed(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_matrix table = {.format = LF_WEIGHT_BF16, .out = 100, .in = s->hidden};
        table.data = (uint8_t *)check_new_bf16(c, "table", (size_t)100 * s->hidden, style);
        struct lf_row *row = check_new(c, "row", rows * sizeof *row);
        memset(row, 0, rows * sizeof *row);
        for (uint32_t r = 0; r < rows; r++)
            row[r].token = r == 0 ? 99 : check_random(c, 100);
        size_t n = (size_t)rows * s->streams * s->hidden;
        struct lf_embed_args a = {.rows = rows, .streams = s->streams, .row = row,
                                  .table = &table, .streams_out = check_new(c, "out", 2 * n)};
        struct lf_embed_args d = a;
        struct lf_matrix mirrored = table;
        MIRROR(c, mirrored, data);
        d.table = &mirrored;
        MIRROR(c, d, row), MIRROR(c, d, streams_out);
        CHECK_KERNEL(c, embed, &a, &d);
    }
}

// Rows that are read eight numbers at once, one by one, and in more than a block's registers hold.
static void check_rms_norm_quantized(struct check *c, const struct sizes *s, uint32_t rows,
                                     enum style style) {
    const uint32_t some[] = {s->hidden / 32 * 32, 96, 6400};
    for (uint32_t i = 0; i < (rows < 3 ? 3 : 2); i++) {
        size_t dim = some[i], stride = dim + (i == 1 ? 3 : 8);
        check_start(c, "%s: %u rows of %zu, style %d, quantized", s->name, rows, dim, style);
        struct lf_rms_norm_args a = {.rows = rows, .dim = some[i], .x_stride = stride,
                                     .y_stride = stride, .eps = eps};
        a.x = check_new_bf16(c, "x", rows * stride, style);
        a.w = check_new_bf16(c, "w", dim, STYLE_NORMAL);
        a.y = check_new(c, "y", 2 * rows * stride);
        a.quantized = check_new(c, "quantized", 2 * rows * stride);
        struct lf_rms_norm_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, w), MIRROR(c, d, y), MIRROR(c, d, quantized);
        CHECK_KERNEL(c, rms_norm, &a, &d);
    }
}

void check_rms_norm(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        size_t dim = s->hidden, stride = dim + 8;
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_rms_norm_args a = {.rows = rows, .dim = s->hidden, .x_stride = stride,
                                     .y_stride = stride, .eps = eps};
        a.x = check_new_bf16(c, "x", rows * stride, style);
        a.w = check_new_bf16(c, "w", dim, STYLE_NORMAL);
        a.y = rows % 2 ? (uint16_t *)a.x : check_new(c, "y", 2 * rows * stride);
        struct lf_rms_norm_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, w), MIRROR(c, d, y);
        CHECK_KERNEL(c, rms_norm, &a, &d);
        check_rms_norm_quantized(c, s, rows, style);
    }
}

void check_act_quant(struct check *c, const struct sizes *s) {
    EACH(s, rows, style)
        for (int format = LF_ACT_QA8; format <= LF_ACT_QF4E; format++) {
            uint32_t dim = (s->hidden + 31) / 32 * 32;
            check_start(c, "%s: %u rows, style %d, format %d", s->name, rows, style, format);
            struct lf_act_quant_args a = {.format = format, .rows = rows, .dim = dim,
                                          .x_stride = dim + (rows % 2 ? 8 : 1),
                                          .y_stride = dim + (rows % 2 ? 16 : 3)};
            a.x = check_new_bf16(c, "x", rows * a.x_stride, style);
            a.y = check_new(c, "y", 2 * rows * a.y_stride);
            struct lf_act_quant_args d = a;
            MIRROR(c, d, x), MIRROR(c, d, y);
            CHECK_KERNEL(c, act_quant, &a, &d);
        }
}

// As they are, rotated, normed and rotated, normed.
void check_cache_pack(struct check *c, const struct sizes *s) {
    EACH(s, rows, style)
        for (int kind = 0; kind < 12; kind++) {
            enum lf_cache_format format = kind % 3;
            uint32_t dim = s->head_dim, room = dim + dim / 16 + 3, pairs = s->rope_dim / 2;
            bool norms = kind / 6, turns = kind / 3 == 1 || kind / 3 == 2;
            uint8_t *dst[4096];
            LF_ASSERT(rows <= 4096);
            check_start(c, "%s: %u rows, style %d, kind %d", s->name, rows, style, kind);
            struct lf_cache_pack_args a = {.format = format, .rows = rows, .dim = dim, .eps = eps,
                                           .rope_dim = turns ? s->rope_dim : 0};
            if (norms)
                a.norm = check_new_bf16(c, "norm", dim, STYLE_NORMAL);
            if (turns) {
                a.cos = check_new_f32(c, "cos", rows * pairs, STYLE_NORMAL);
                a.sin = check_new_f32(c, "sin", rows * pairs, STYLE_NORMAL);
            }
            a.x = check_new_bf16(c, "x", (size_t)rows * dim, style);
            uint8_t *packed = check_new(c, "packed", (size_t)rows * room);
            // Odd distances: a packed row may have any alignment.
            for (uint32_t r = 0; r < rows; r++)
                dst[r] = packed + (size_t)(rows - 1 - r) * room;
            a.dst = dst;
            struct lf_cache_pack_args d = a;
            MIRROR(c, d, x), MIRROR(c, d, norm), MIRROR(c, d, cos), MIRROR(c, d, sin);
            d.dst = check_pointers(c, dst, rows);
            CHECK_KERNEL(c, cache_pack, &a, &d);
        }
}

void check_rope(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        size_t stride = (size_t)s->heads * s->head_dim + 2, pairs = s->rope_dim / 2;
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_rope_args a = {.rows = rows, .heads = s->heads, .head_dim = s->head_dim,
                                 .rope_dim = s->rope_dim, .x_stride = stride,
                                 .inverse = rows % 2};
        a.x = check_new_bf16(c, "x", rows * stride, style);
        a.cos = check_new_f32(c, "cos", rows * pairs, STYLE_NORMAL);
        a.sin = check_new_f32(c, "sin", rows * pairs, STYLE_NORMAL);
        struct lf_rope_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, cos), MIRROR(c, d, sin);
        CHECK_KERNEL(c, rope, &a, &d);
    }
}

static void check_mixed(struct check *c, uint32_t rows, uint32_t n, uint32_t dim,
                        enum style style) {
    size_t width = (size_t)n * dim, outs = n * (2 + n);
    struct lf_hc_mix_args a = {.rows = rows, .streams = n, .dim = dim, .sinkhorn_iters = 20,
                               .hc_eps = 1e-6f, .norm_eps = eps};
    a.x = check_new_bf16(c, "x", rows * width, style);
    a.fn = check_new_f32(c, "fn", outs * width, STYLE_NORMAL);
    a.base = check_new_f32(c, "base", outs, STYLE_NORMAL);
    a.scale = check_new_f32(c, "scale", 3, STYLE_NORMAL);
    a.pre = check_new(c, "pre", sizeof(float) * rows * n);
    a.post = check_new(c, "post", sizeof(float) * rows * n);
    a.comb = check_new(c, "comb", sizeof(float) * rows * n * n);
    struct lf_hc_mix_args d = a;
    MIRROR(c, d, x), MIRROR(c, d, fn), MIRROR(c, d, base), MIRROR(c, d, scale);
    MIRROR(c, d, pre), MIRROR(c, d, post), MIRROR(c, d, comb);
    CHECK_KERNEL(c, hc_mix, &a, &d);
}

// Also so many rows that they are worked on together, in tiles of each size.
void check_hc_mix(struct check *c, const struct sizes *s) {
    static const uint32_t many[] = {130, 513, 1026}, dims[] = {88, 89};
    EACH(s, launch, style) {
        uint32_t rows = style ? launch : launch * 17;
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        check_mixed(c, rows, s->streams, s->hidden, style);
    }
    for (int i = 0; i < 6; i++) {
        check_start(c, "%s: %u rows of 3 x %u", s->name, many[i / 2], dims[i % 2]);
        check_mixed(c, many[i / 2], 3, dims[i % 2], STYLE_NORMAL);
    }
}

// Streams collapsed and normed: wide and not, few streams and the most, more than a block holds.
static void check_hc_collapse_normed(struct check *c, const struct sizes *s, uint32_t rows,
                                     enum style style) {
    const uint32_t some[] = {s->hidden, 96, s->hidden / 32 * 32, 6400};
    const uint32_t streams[] = {s->streams, 7, s->streams, 2};
    for (uint32_t i = 0; i < (rows < 3 ? 4 : 3); i++) {
        uint32_t dim = some[i];
        size_t n = (size_t)rows * dim;
        check_start(c, "%s: %u rows of %u, style %d, normed", s->name, rows, dim, style);
        struct lf_hc_collapse_args a = {.rows = rows, .streams = streams[i], .dim = dim,
                                        .eps = eps};
        a.x = check_new_bf16(c, "x", n * a.streams, style);
        a.pre = check_new_f32(c, "pre", (size_t)rows * a.streams, STYLE_NORMAL);
        a.norm = check_new_bf16(c, "norm", dim, STYLE_NORMAL);
        a.y = check_new(c, "y", 2 * n);
        a.quantized = i ? check_new(c, "quantized", 2 * n) : NULL;
        struct lf_hc_collapse_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, pre), MIRROR(c, d, norm), MIRROR(c, d, y);
        MIRROR(c, d, quantized);
        CHECK_KERNEL(c, hc_collapse, &a, &d);
    }
}

void check_hc_collapse(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_hc_collapse_args a = {.rows = rows, .streams = s->streams, .dim = s->hidden};
        a.x = check_new_bf16(c, "x", (size_t)rows * s->streams * s->hidden, style);
        a.pre = check_new_f32(c, "pre", (size_t)rows * s->streams, STYLE_NORMAL);
        a.y = check_new(c, "y", (size_t)2 * rows * s->hidden);
        struct lf_hc_collapse_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, pre), MIRROR(c, d, y);
        CHECK_KERNEL(c, hc_collapse, &a, &d);
        check_hc_collapse_normed(c, s, rows, style);
    }
    check_hc_collapse_normed(c, s, 300, STYLE_NORMAL); // in smaller blocks
}

// Streams expanded, collapsed and normed: wide and not, few streams and the most, a long row.
static void check_hc_expand_next(struct check *c, const struct sizes *s, uint32_t rows,
                                 enum style style) {
    const uint32_t some[] = {s->hidden, 96, s->hidden / 32 * 32, 2080, 6400};
    const uint32_t streams[] = {s->streams, 7, s->streams, 3, 2};
    for (uint32_t i = 0; i < (rows < 3 ? 5 : 4); i++) {
        uint32_t dim = some[i], n = streams[i];
        size_t all = (size_t)rows * dim;
        check_start(c, "%s: %u rows of %u, style %d, collapsed", s->name, rows, dim, style);
        struct lf_hc_expand_args a = {.rows = rows, .streams = n, .dim = dim, .eps = eps};
        a.x = check_new_bf16(c, "x", all * n, style);
        a.b = check_new_bf16(c, "b", all, style);
        a.post = check_new_f32(c, "post", (size_t)rows * n, STYLE_NORMAL);
        a.comb = check_new_f32(c, "comb", (size_t)rows * n * n, STYLE_NORMAL);
        a.pre = check_new_f32(c, "pre", (size_t)rows * n, STYLE_NORMAL);
        a.norm = check_new_bf16(c, "norm", dim, STYLE_NORMAL);
        a.y = check_new(c, "y", 2 * all);
        a.quantized = i ? check_new(c, "quantized", 2 * all) : NULL;
        struct lf_hc_expand_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, b), MIRROR(c, d, post), MIRROR(c, d, comb);
        MIRROR(c, d, pre), MIRROR(c, d, norm), MIRROR(c, d, y), MIRROR(c, d, quantized);
        CHECK_KERNEL(c, hc_expand, &a, &d);
    }
}

// Streams that take what experts add up to, some of them collapsed and normed.
static void check_hc_expand_experts(struct check *c, const struct sizes *s, uint32_t rows,
                                    enum style style) {
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t dim = s->hidden, n = s->streams, top = i % 2 ? s->top : 9, pairs = rows * top;
        size_t all = (size_t)rows * dim;
        check_start(c, "%s: %u rows, style %d, %u experts", s->name, rows, style, top);
        struct lf_hc_expand_args a = {.rows = rows, .streams = n, .dim = dim, .top = top,
                                      .eps = eps};
        uint32_t *pair = check_new(c, "pair", pairs * sizeof *pair);
        for (uint32_t k = 0; k < pairs; k++)
            pair[k] = check_random(c, pairs);
        a.pair = pair;
        a.x = check_new_bf16(c, "x", all * n, style);
        a.expert = check_new_bf16(c, "expert", (size_t)pairs * dim, style);
        a.shared = i % 2 ? check_new_bf16(c, "shared", all, style) : NULL;
        a.post = check_new_f32(c, "post", (size_t)rows * n, STYLE_NORMAL);
        a.comb = check_new_f32(c, "comb", (size_t)rows * n * n, STYLE_NORMAL);
        a.pre = i / 2 ? check_new_f32(c, "pre", (size_t)rows * n, STYLE_NORMAL) : NULL;
        a.norm = i / 2 ? check_new_bf16(c, "norm", dim, STYLE_NORMAL) : NULL;
        a.y = i / 2 ? check_new(c, "y", 2 * all) : NULL;
        struct lf_hc_expand_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, pair), MIRROR(c, d, expert), MIRROR(c, d, shared);
        MIRROR(c, d, post), MIRROR(c, d, comb), MIRROR(c, d, pre), MIRROR(c, d, norm);
        MIRROR(c, d, y);
        CHECK_KERNEL(c, hc_expand, &a, &d);
    }
}

void check_hc_expand(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        uint32_t n = s->streams;
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_hc_expand_args a = {.rows = rows, .streams = n, .dim = s->hidden};
        a.x = check_new_bf16(c, "x", (size_t)rows * n * s->hidden, style);
        a.b = check_new_bf16(c, "b", (size_t)rows * s->hidden, style);
        a.post = check_new_f32(c, "post", (size_t)rows * n, STYLE_NORMAL);
        a.comb = check_new_f32(c, "comb", (size_t)rows * n * n, STYLE_NORMAL);
        struct lf_hc_expand_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, b), MIRROR(c, d, post), MIRROR(c, d, comb);
        CHECK_KERNEL(c, hc_expand, &a, &d);
        check_hc_expand_next(c, s, rows, style);
        check_hc_expand_experts(c, s, rows, style);
    }
    check_hc_expand_next(c, s, 300, STYLE_NORMAL); // in two launches
}

void check_stream_mean(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_stream_mean_args a = {.rows = rows, .streams = s->streams, .dim = s->hidden};
        a.x = check_new_bf16(c, "x", (size_t)rows * s->streams * s->hidden, style);
        a.y = check_new(c, "y", (size_t)2 * rows * s->hidden);
        struct lf_stream_mean_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, y);
        CHECK_KERNEL(c, stream_mean, &a, &d);
    }
}

void check_swiglu(struct check *c, const struct sizes *s) {
    EACH(s, rows, style)
        for (int quantizes = 0; quantizes < 2; quantizes++) {
            uint32_t dim = quantizes ? (s->expert_dim + 31) / 32 * 32 : s->expert_dim;
            size_t n = (size_t)rows * dim;
            check_start(c, "%s: %u rows, style %d, quantized %d", s->name, rows, style, quantizes);
            struct lf_swiglu_args a = {.rows = rows, .dim = dim, .limit = 10.0f,
                                       .weighted = rows - rows / 3};
            a.gate = check_new_bf16(c, "gate", n, style);
            a.up = check_new_bf16(c, "up", n, style);
            a.weight = check_new_f32(c, "weight", a.weighted, STYLE_NORMAL);
            a.y = quantizes ? (uint16_t *)a.gate : check_new(c, "y", 2 * n);
            a.quantized = quantizes ? (uint16_t *)a.up : NULL;
            struct lf_swiglu_args d = a;
            MIRROR(c, d, gate), MIRROR(c, d, up), MIRROR(c, d, weight), MIRROR(c, d, y);
            MIRROR(c, d, quantized);
            CHECK_KERNEL(c, swiglu, &a, &d);
        }
}

void check_engram_gather(struct check *c, const struct sizes *s) {
    enum { TABLE = 1021 };
    for (int wild = 0; wild < 2; wild++) {
        uint32_t rows = s->rows[1], dim = s->engram_dim, n = rows * s->engram_columns;
        check_start(c, "%s: %u rows, any codes %d", s->name, rows, wild);
        struct lf_engram_gather_args a = {.rows = rows, .columns = s->engram_columns, .dim = dim};
        uint64_t *number = check_new(c, "number", n * sizeof *number);
        for (uint32_t i = 0; i < n; i++)
            number[i] = i ? check_random(c, TABLE) : TABLE - 1;
        uint8_t *value = check_new(c, "value", (size_t)TABLE * dim);
        uint8_t *scale = check_new(c, "scale", (size_t)TABLE * dim / 32);
        check_bytes(c, value, (size_t)TABLE * dim);
        check_range(c, scale, (size_t)TABLE * dim / 32, wild ? 0 : 100, wild ? 255 : 140);
        a.number = number, a.value = value, a.scale = scale;
        a.y = check_new(c, "y", (size_t)2 * n * dim);
        struct lf_engram_gather_args d = a;
        MIRROR(c, d, number), MIRROR(c, d, value), MIRROR(c, d, scale), MIRROR(c, d, y);
        CHECK_KERNEL(c, engram_gather, &a, &d);
    }
}

void check_engram_gate(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        size_t dim = s->hidden, n = s->streams;
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_engram_gate_args a = {.rows = rows, .streams = s->streams, .dim = s->hidden,
                                        .eps = eps, .dot_scale = 1.0f / sqrtf((float)dim)};
        a.x = check_new_bf16(c, "x", rows * n * dim, style);
        a.kv = check_new_bf16(c, "kv", rows * (n + 1) * dim, style);
        a.q_weight = check_new_bf16(c, "q_weight", n * dim, STYLE_NORMAL);
        a.k_weight = check_new_bf16(c, "k_weight", n * dim, STYLE_NORMAL);
        uint8_t *dead = check_new(c, "dead", rows);
        check_range(c, dead, rows, 0, 1);
        a.dead = style == STYLE_WIDE ? NULL : dead;
        a.gate = style == STYLE_WIDE ? NULL : check_new(c, "gate", sizeof(float) * rows * n);
        struct lf_engram_gate_args d = a;
        MIRROR(c, d, x), MIRROR(c, d, kv), MIRROR(c, d, q_weight), MIRROR(c, d, k_weight);
        MIRROR(c, d, dead), MIRROR(c, d, gate);
        CHECK_KERNEL(c, engram_gate, &a, &d);
    }
}

void check_draft_join(struct check *c, const struct sizes *s) {
    EACH(s, rows, style) {
        size_t stride = s->vocab + 3;
        check_start(c, "%s: %u rows, style %d", s->name, rows, style);
        struct lf_draft_join_args a = {.rows = rows, .vocab = s->vocab, .logits_stride = stride};
        a.logits = check_new_f32(c, "logits", rows * stride, style);
        a.bias = check_new_f32(c, "bias", (size_t)rows * s->vocab, style);
        struct lf_draft_join_args d = a;
        MIRROR(c, d, logits), MIRROR(c, d, bias);
        CHECK_KERNEL(c, draft_join, &a, &d);
    }
}

void check_row_gather(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int odd = 0; odd < 2; odd++) {
            enum { JOBS = 3 };
            uint32_t all = 2 * s->rows[i] + 9, rows = s->rows[i], n = 0;
            struct lf_row_gather_job job[JOBS], job_at[JOBS];
            check_start(c, "%s: %u of %u rows, odd %d", s->name, rows, all, odd);
            uint32_t *index = check_new(c, "index", rows * sizeof *index);
            for (uint32_t r = 0; n < rows; r++)
                if (r >= n && (check_random(c, 2) || all - r <= rows - n))
                    index[n++] = r;
            // In place, apart by an index, and apart in order.
            for (int j = 0; j < JOBS; j++) {
                size_t bytes = (j == 1 ? 4 : 2) * (size_t)s->hidden + (odd ? 1 : 0);
                size_t pitch = (bytes + 15) / 16 * 16 + (odd ? 3 : 16);
                uint8_t *x = check_new(c, "x", all * pitch);
                check_bytes(c, x, all * pitch);
                job[j] = (struct lf_row_gather_job){
                    .rows = rows, .index = j < 2 ? index : NULL, .x = x, .x_pitch = pitch,
                    .y = j == 0 ? x : check_new(c, "y", all * pitch), .y_pitch = pitch,
                    .row_bytes = odd ? bytes : bytes / 16 * 16};
                job_at[j] = job[j];
                MIRROR(c, job_at[j], index), MIRROR(c, job_at[j], x), MIRROR(c, job_at[j], y);
            }
            struct lf_row_gather_args a = {JOBS, job}, d = {JOBS, job_at};
            CHECK_KERNEL(c, row_gather, &a, &d);
        }
}
