// A digest of every kernel's outputs a set: equal bits on machines that cannot run each other's.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/table.h"

enum { ARENA_BYTES = 64 << 20, SCRATCH_BYTES = 4 << 20, LANES_USED = 3 };

// One kernel under one set: seeded operands from an arena, outputs folded into the digest.
struct lab {
    struct lf_kernels k, portable;
    struct lf_device device;
    uint64_t state, digest;
    uint8_t *arena;
    size_t used;
};

static uint64_t next(struct lab *lab) {
    uint64_t z = lab->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t below(struct lab *lab, uint32_t n) {
    return (uint32_t)((next(lab) >> 32) * n >> 32);
}

static void *take(struct lab *lab, size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    LF_ASSERT(bytes <= ARENA_BYTES - lab->used);
    lab->used += bytes;
    return memset(lab->arena + lab->used - bytes, 0xFF, bytes);
}

// Values of random sign and fraction, 2^(top - spread) to 2^top; no library function's rounding.
static float *floats(struct lab *lab, size_t n, int top, uint32_t spread) {
    float *x = take(lab, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)next(lab), exponent = (uint32_t)(127 + top) - below(lab, spread);
        x[i] = lf_f32_from_bits((bits & 0x807FFFFFu) | exponent << 23);
    }
    return x;
}

static uint16_t *halves(struct lab *lab, size_t n, int top, uint32_t spread) {
    uint16_t *x = take(lab, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)next(lab), exponent = (uint32_t)(127 + top) - below(lab, spread);
        x[i] = (uint16_t)((bits & 0x807Fu) | exponent << 7);
    }
    return x;
}

static uint8_t *bytes(struct lab *lab, size_t n, uint32_t least, uint32_t count) {
    uint8_t *x = take(lab, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint8_t)(least + below(lab, count));
    return x;
}

static void fold(struct lab *lab, const void *data, size_t n) {
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        lab->digest = (lab->digest ^ p[i]) * 0x100000001B3u;
}

// QA8 values of random rows, as the quantized linear maps read them.
static uint16_t *qa8_values(struct lab *lab, uint32_t rows, uint32_t dim) {
    uint16_t *x = halves(lab, (size_t)rows * dim, 2, 12);
    struct lf_act_quant_args args = {LF_ACT_QA8, rows, dim, x, dim, x, dim};
    lab->portable.act_quant(&lab->device, &args);
    return x;
}

// Packed cache rows of random values.
static uint8_t *packed_rows(struct lab *lab, enum lf_cache_format format, uint32_t rows,
                            uint32_t dim, uint32_t row_bytes) {
    uint16_t *x = halves(lab, (size_t)rows * dim, 1, 10);
    uint8_t *out = take(lab, (size_t)rows * row_bytes);
    uint8_t **dst = take(lab, rows * sizeof *dst);
    for (uint32_t r = 0; r < rows; r++)
        dst[r] = out + (size_t)r * row_bytes;
    struct lf_cache_pack_args args = {.format = format, .rows = rows, .dim = dim, .x = x,
                                      .dst = dst};
    lab->portable.cache_pack(&lab->device, &args);
    return out;
}

static struct lf_paged paged(struct lab *lab, uint8_t *rows, uint32_t n, uint32_t row_bytes) {
    struct lf_paged p = {.page = take(lab, (n / LF_PAGE_ROWS + 1) * sizeof(uint8_t *))};
    for (uint32_t i = 0; i <= n / LF_PAGE_ROWS; i++)
        p.page[i] = rows + (size_t)i * LF_PAGE_ROWS * row_bytes;
    return p;
}

static void digest_embed(struct lab *lab) {
    enum { VOCAB = 50, DIM = 96, ROWS = 9, STREAMS = 4 };
    struct lf_matrix table = {.format = LF_WEIGHT_BF16, .out = VOCAB, .in = DIM};
    table.data = (uint8_t *)halves(lab, VOCAB * DIM, 0, 8);
    struct lf_row row[ROWS] = {0};
    for (uint32_t r = 0; r < ROWS; r++)
        row[r].token = below(lab, VOCAB);
    uint16_t *y = take(lab, ROWS * STREAMS * DIM * 2);
    float *pre = take(lab, ROWS * STREAMS * 4);
    lab->k.embed(&lab->device, &(struct lf_embed_args){.rows = ROWS, .streams = STREAMS, .row = row,
                                                       .table = &table, .streams_out = y,
                                                       .pre = pre});
    fold(lab, y, ROWS * STREAMS * DIM * 2);
    fold(lab, pre, ROWS * STREAMS * 4);
}

static void digest_rms_norm(struct lab *lab) {
    enum { ROWS = 11 };
    static const uint32_t dims[] = {32, 100, 2304};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t dim = dims[i];
        uint16_t *x = halves(lab, (size_t)ROWS * dim, 2, 12), *w = halves(lab, dim, 0, 3);
        struct lf_rms_norm_args args = {ROWS, dim, x, dim, w, 1e-6f, x, dim, NULL};
        lab->k.rms_norm(&lab->device, &args);
        fold(lab, x, (size_t)ROWS * dim * 2);
    }
}

static void digest_act_quant(struct lab *lab) {
    enum { ROWS = 17, DIM = 352 };
    for (enum lf_act_format format = LF_ACT_QA8; format <= LF_ACT_QF4E; format++)
        for (uint32_t spread = 4; spread <= 120; spread += 29) {
            uint16_t *x = halves(lab, ROWS * DIM, 6, spread);
            x[below(lab, ROWS * DIM)] = 0x7F80, x[below(lab, ROWS * DIM)] = 0xFFC1;
            struct lf_act_quant_args args = {format, ROWS, DIM, x, DIM, x, DIM};
            lab->k.act_quant(&lab->device, &args);
            fold(lab, x, ROWS * DIM * 2);
        }
}

static void digest_cache_pack(struct lab *lab) {
    enum { ROWS = 5, DIM = 288, ROW_BYTES = DIM + DIM / 8, ROPE = 64 };
    for (enum lf_cache_format format = LF_CACHE_QA8; format <= LF_CACHE_QF4E; format++)
        for (uint32_t spread = 4; spread <= 120; spread += 29) {
            uint16_t *x = halves(lab, ROWS * DIM, 6, spread);
            uint8_t *out = take(lab, ROWS * ROW_BYTES), *dst[ROWS];
            for (uint32_t r = 0; r < ROWS; r++)
                dst[r] = out + r * ROW_BYTES;
            struct lf_cache_pack_args args = {.format = format, .rows = ROWS, .dim = DIM, .x = x,
                                              .dst = dst};
            lab->k.cache_pack(&lab->device, &args);
            fold(lab, out, ROWS * ROW_BYTES);
            args.eps = 1e-6f, args.rope_dim = ROPE;
            args.cos = floats(lab, ROWS * ROPE / 2, 0, 1);
            args.sin = floats(lab, ROWS * ROPE / 2, 0, 1);
            args.norm = halves(lab, DIM, 0, 3);
            lab->k.cache_pack(&lab->device, &args);
            fold(lab, x, ROWS * DIM * 2);
            fold(lab, out, ROWS * ROW_BYTES);
        }
}

// Scales near 1, or so far out that only the plain forms are exact.
static struct lf_matrix matrix(struct lab *lab, enum lf_weight_format format, uint32_t out,
                               uint32_t in, bool far) {
    struct lf_matrix m = {.format = format, .out = out, .in = in};
    size_t n = (size_t)out * in;
    if (format == LF_WEIGHT_F32)
        m.data = (uint8_t *)floats(lab, n, far ? 100 : 0, 12);
    else if (format == LF_WEIGHT_BF16)
        m.data = (uint8_t *)halves(lab, n, far ? 100 : 0, 12);
    else
        m.data = bytes(lab, lf_matrix_row_bytes(&m) * out, 0, format == LF_WEIGHT_FP8 ? 127 : 256);
    if (format == LF_WEIGHT_F16)
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)m.data)[2 * i + 1] &= 0xBB;
    if (format == LF_WEIGHT_FP8)
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)m.data)[i] |= (uint8_t)(below(lab, 2) << 7);
    if (lf_matrix_quantizes_input(&m))
        m.scale = bytes(lab, n / 32 + in / 32, far ? 1 : 116, far ? 254 : 8);
    return m;
}

static void digest_linear(struct lab *lab) {
    enum { ROWS = 33 };
    static const uint32_t shapes[][2] = {{64, 1024}, {39, 1312}, {5, 12320}, {1, 32}, {100, 544}};
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 8, 9, ROWS};
    for (enum lf_weight_format f = LF_WEIGHT_BF16; f <= LF_WEIGHT_MXFP4; f++)
        for (uint32_t c = 0; c < 10; c++) {
            uint32_t out = shapes[c / 2][0], in = shapes[c / 2][1];
            size_t kept = lab->used;
            struct lf_matrix m = matrix(lab, f, out, in, c % 2);
            uint16_t *x = c == 3 ? halves(lab, (size_t)ROWS * in, 30, 100)
                                 : qa8_values(lab, ROWS, in);
            float *y = take(lab, (size_t)ROWS * out * 4);
            for (uint32_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                struct lf_linear_job job = {.w = &m, .rows = rows[r], .x = x, .x_stride = in,
                                            .y = y, .y_stride = out, .y_f32 = 1};
                lab->k.linear(&lab->device, &(struct lf_linear_args){.n_jobs = 1, .job = &job});
                fold(lab, y, (size_t)rows[r] * out * 4);
            }
            lab->used = kept;
        }
}

static void digest_rope(struct lab *lab) {
    enum { ROWS = 7, HEADS = 3, DIM = 96, ROPE = 64 };
    for (int inverse = 0; inverse < 2; inverse++) {
        uint16_t *x = halves(lab, ROWS * HEADS * DIM, 1, 10);
        float *cosine = floats(lab, ROWS * ROPE / 2, -1, 4);
        float *sine = floats(lab, ROWS * ROPE / 2, -1, 4);
        struct lf_rope_args args = {ROWS, HEADS, DIM, ROPE, x, HEADS * DIM, cosine, sine, inverse};
        lab->k.rope(&lab->device, &args);
        fold(lab, x, ROWS * HEADS * DIM * 2);
    }
}

static void digest_hc_mix(struct lab *lab) {
    enum { ROWS = 6, S = 4, DIM = 544, OUTS = S * (2 + S) };
    uint16_t *x = halves(lab, ROWS * S * DIM, 1, 10);
    float *fn = floats(lab, OUTS * S * DIM, -4, 8), *base = floats(lab, OUTS, 0, 4);
    float *pre = take(lab, ROWS * OUTS * 4), *scale = floats(lab, 3, 0, 2);
    struct lf_hc_mix_args args = {ROWS, S, DIM, x, fn, base, scale, 20, 1e-6f, 1e-6f, pre,
                                  pre + ROWS * S, pre + 2 * ROWS * S};
    lab->k.hc_mix(&lab->device, &args);
    fold(lab, pre, ROWS * OUTS * 4);
}

static void digest_hc_collapse(struct lab *lab) {
    enum { ROWS = 6, S = 4, DIM = 544 };
    uint16_t *x = halves(lab, ROWS * S * DIM, 1, 10), *y = take(lab, ROWS * DIM * 2);
    uint16_t *norm = halves(lab, DIM, 1, 4), *quantized = take(lab, ROWS * DIM * 2);
    float *pre = floats(lab, ROWS * S, 0, 4);
    struct lf_hc_collapse_args args = {ROWS, S, DIM, x, pre, y, NULL, 1e-6f, NULL};
    lab->k.hc_collapse(&lab->device, &args);
    fold(lab, y, ROWS * DIM * 2);
    args.norm = norm, args.quantized = quantized;
    lab->k.hc_collapse(&lab->device, &args);
    fold(lab, y, ROWS * DIM * 2);
    fold(lab, quantized, ROWS * DIM * 2);
}

// Streams that take what experts add up to, in place of args.b.
static void digest_experts(struct lab *lab, struct lf_hc_expand_args args) {
    enum { TOP = 6 };
    uint32_t n = args.rows * args.dim, pair[64];
    for (uint32_t i = 0; i < args.rows * TOP; i++)
        pair[i] = below(lab, args.rows * TOP);
    args.b = NULL, args.pair = pair, args.top = TOP;
    args.expert = halves(lab, n * TOP, 1, 10), args.shared = halves(lab, n, 1, 9);
    lab->k.hc_expand(&lab->device, &args);
    fold(lab, args.x, n * args.streams * 2);
}

static void digest_hc_expand(struct lab *lab) {
    enum { ROWS = 6, S = 4, DIM = 544 };
    uint16_t *x = halves(lab, ROWS * S * DIM, 1, 10), *b = halves(lab, ROWS * DIM, 1, 10);
    float *post = floats(lab, ROWS * S, 0, 4), *comb = floats(lab, ROWS * S * S, 0, 4);
    uint16_t *norm = halves(lab, DIM, 1, 4), *y = take(lab, 2 * ROWS * DIM * 2);
    struct lf_hc_expand_args args = {.rows = ROWS, .streams = S, .dim = DIM, .x = x, .b = b,
                                     .post = post, .comb = comb};
    lab->k.hc_expand(&lab->device, &args);
    fold(lab, x, ROWS * S * DIM * 2);
    args.pre = post, args.norm = norm, args.eps = 1e-6f, args.y = y;
    args.quantized = y + ROWS * DIM;
    lab->k.hc_expand(&lab->device, &args);
    fold(lab, x, ROWS * S * DIM * 2);
    fold(lab, y, 2 * ROWS * DIM * 2);
    digest_experts(lab, args);
}

static void digest_stream_mean(struct lab *lab) {
    enum { ROWS = 6, S = 4, DIM = 544 };
    uint16_t *x = halves(lab, ROWS * S * DIM, 1, 10), *y = take(lab, ROWS * DIM * 2);
    lab->k.stream_mean(&lab->device, &(struct lf_stream_mean_args){ROWS, S, DIM, x, y});
    fold(lab, y, ROWS * DIM * 2);
}

static void digest_compress_pool(struct lab *lab) {
    enum { ENTRIES = 9, DIM = 160 };
    const float *first[ENTRIES], *second[ENTRIES];
    for (uint32_t j = 0; j < ENTRIES; j++) {
        first[j] = floats(lab, 2 * DIM, 3, 10);
        second[j] = floats(lab, 2 * DIM, 3, 10);
    }
    uint16_t *y = take(lab, ENTRIES * DIM * 2);
    lab->k.compress_pool(&lab->device,
                         &(struct lf_compress_pool_args){ENTRIES, DIM, first, second, y});
    fold(lab, y, ENTRIES * DIM * 2);
}

static void digest_index_score(struct lab *lab) {
    enum { ROWS = 9, HEADS = 5, DIM = 128, ENTRIES = 300, BLOCK = 8, BLOCKS = 6 };
    uint32_t row_bytes = lf_qf4e_row_bytes(DIM), visible[ROWS];
    struct lf_paged keys[LANES_USED];
    struct lf_row row[ROWS] = {0};
    for (uint32_t i = 0; i < LANES_USED; i++)
        keys[i] = paged(lab, packed_rows(lab, LF_CACHE_QF4E, ENTRIES, DIM, row_bytes), ENTRIES,
                        row_bytes);
    for (uint32_t r = 0; r < ROWS; r++) {
        row[r].lane = r % LANES_USED;
        visible[r] = r == 0 ? ENTRIES : below(lab, ENTRIES);
    }
    uint16_t *q = halves(lab, ROWS * HEADS * DIM, 1, 4);
    struct lf_act_quant_args quant = {LF_ACT_QF4E, ROWS * HEADS, DIM, q, DIM, q, DIM};
    lab->portable.act_quant(&lab->device, &quant);
    uint16_t *weight = halves(lab, ROWS * HEADS, 0, 4);
    float *score = take(lab, ROWS * ENTRIES * 4);
    uint32_t blocks[ROWS * BLOCKS], n_blocks[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        n_blocks[r] = r < 7 && visible[r] > BLOCK * BLOCKS ? BLOCKS : 0;
        for (uint32_t i = 0; i < n_blocks[r]; i++)
            blocks[r * BLOCKS + i] = i + i * r / 3;
    }
    struct lf_index_score_args args = {
        .rows = ROWS, .heads = HEADS, .dim = DIM, .row = row, .q = q, .head_weight = weight,
        .weight_scale = 0.0625f, .keys = keys, .visible = visible, .score = score,
        .score_stride = ENTRIES};
    lab->k.index_score(&lab->device, &args);
    fold(lab, score, ROWS * ENTRIES * 4);
    args.candidates = (struct lf_candidates){blocks, n_blocks, BLOCK, BLOCKS};
    lab->k.index_score(&lab->device, &args);
    fold(lab, score, ROWS * ENTRIES * 4);
}

static void digest_index_select(struct lab *lab) {
    enum { ROWS = 6, ENTRIES = 700, TOP = 64, BLOCK = 16, BLOCKS = 20 };
    uint32_t visible[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        visible[r] = r == 0 ? ENTRIES : TOP / 2 + below(lab, ENTRIES - TOP / 2);
    float *score = floats(lab, ROWS * ENTRIES, 3, 6);
    for (uint32_t i = 0; i < ROWS * ENTRIES; i += 3)
        score[i] = 1.5f;
    uint32_t *blocks = take(lab, ROWS * BLOCKS * 4), *n_blocks = take(lab, ROWS * 4);
    uint32_t *selected = take(lab, ROWS * TOP * 4), *n_selected = take(lab, ROWS * 4);
    for (enum lf_candidate_mode mode = LF_CANDIDATES_NONE; mode <= LF_CANDIDATES_RESTRICT; mode++) {
        struct lf_index_select_args args = {ROWS, TOP, mode, BLOCK, BLOCKS, visible, score,
                                            ENTRIES, blocks, n_blocks, selected, n_selected};
        lab->k.index_select(&lab->device, &args);
        fold(lab, selected, ROWS * TOP * 4);
        fold(lab, n_selected, ROWS * 4);
    }
}

static void digest_attention(struct lab *lab) {
    enum { ROWS = 9, HEADS = 5, DIM = 96, WINDOW = 32, RING = 64, ENTRIES = 300, TOP = 80 };
    uint32_t key_bytes = lf_qa8_row_bytes(DIM), entry_bytes = lf_qf4s_row_bytes(DIM);
    struct lf_paged entries[LANES_USED];
    struct lf_span span[LANES_USED];
    uint8_t *ring[LANES_USED];
    struct lf_row row[ROWS] = {0};
    for (uint32_t i = 0; i < LANES_USED; i++) {
        entries[i] = paged(lab, packed_rows(lab, LF_CACHE_QF4S, ENTRIES, DIM, entry_bytes),
                           ENTRIES, entry_bytes);
        ring[i] = packed_rows(lab, LF_CACHE_QA8, RING, DIM, key_bytes);
        span[i] = (struct lf_span){3 * i, 3, 5 + 50 * i};
    }
    uint32_t *selected = take(lab, ROWS * TOP * 4), n_selected[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        row[r] = (struct lf_row){.lane = r / 3, .position = 5 + 50 * (r / 3) + r % 3, .index = r};
        n_selected[r] = below(lab, TOP + 1);
        for (uint32_t i = 0; i < n_selected[r]; i++)
            selected[r * TOP + i] = 3 * i + below(lab, 3);
    }
    struct lf_attention_args args = {
        .rows = ROWS, .heads = HEADS, .head_dim = DIM, .row = row, .scale = 0.1f,
        .q = halves(lab, ROWS * HEADS * DIM, 0, 8), .sink = floats(lab, HEADS, 1, 3),
        .window = WINDOW, .span = span, .ring = ring, .ring_rows = RING, .entries = entries,
        .call_keys = packed_rows(lab, LF_CACHE_QA8, ROWS, DIM, key_bytes), .selected = selected,
        .n_selected = n_selected, .topk = TOP, .o = take(lab, ROWS * HEADS * DIM * 2)};
    for (args.whole_span = 0; args.whole_span < 2; args.whole_span++) {
        lab->k.attention(&lab->device, &args);
        fold(lab, args.o, ROWS * HEADS * DIM * 2);
    }
}

static void digest_ring_store(struct lab *lab) {
    enum { ROWS = 21, RING = 8, BYTES = 99, PITCH = 104 };
    uint8_t *ring[LANES_USED], *x = bytes(lab, ROWS * BYTES, 0, 256);
    struct lf_span span[LANES_USED];
    struct lf_row row[ROWS];
    for (uint32_t i = 0; i < LANES_USED; i++) {
        ring[i] = bytes(lab, RING * PITCH, 0, 256);
        span[i] = (struct lf_span){7 * i, 7, 40 * i + 5};
    }
    for (uint32_t r = 0; r < ROWS; r++)
        row[r] = (struct lf_row){.lane = r / 7, .position = 40 * (r / 7) + 5 + r % 7, .index = r,
                                 .depth = below(lab, 3)};
    struct lf_ring_store_args args = {ROWS, row, 1, span, 5, x, BYTES, ring, RING, PITCH};
    lab->k.ring_store(&lab->device, &args);
    for (uint32_t i = 0; i < LANES_USED; i++)
        fold(lab, ring[i], RING * PITCH);
}

static void digest_row_gather(struct lab *lab) {
    enum { ROWS = 5, MORE = 9, BYTES = 5000, PITCH = 5003 };
    static const uint32_t index[ROWS] = {0, 2, 3, 7, 8};
    uint8_t *x = bytes(lab, MORE * PITCH, 0, 256), *y = take(lab, ROWS * BYTES);
    struct lf_row_gather_job job[] = {{ROWS, index, x, PITCH, y, BYTES, BYTES},
                                      {ROWS, index, x + 1, PITCH, x + 1, PITCH, BYTES}};
    lab->k.row_gather(&lab->device, &(struct lf_row_gather_args){1, job});
    fold(lab, y, ROWS * BYTES);
    lab->k.row_gather(&lab->device, &(struct lf_row_gather_args){1, job + 1});
    fold(lab, x, MORE * PITCH);
}

static void digest_router(struct lab *lab) {
    enum { ROWS = 9, EXPERTS = 48, TOP = 6 };
    float *logits = floats(lab, ROWS * EXPERTS, 5, 10), *bias = floats(lab, EXPERTS, -2, 4);
    uint32_t *id = take(lab, ROWS * TOP * 4);
    float *weight = take(lab, ROWS * TOP * 4);
    lab->k.router(&lab->device, &(struct lf_router_args){ROWS, EXPERTS, TOP, logits, bias, 2.5f, id,
                                                         weight});
    fold(lab, id, ROWS * TOP * 4);
    fold(lab, weight, ROWS * TOP * 4);
}

static void digest_expert_group(struct lab *lab) {
    enum { ROWS = 9, EXPERTS = 20, TOP = 3, PAIRS = ROWS * TOP };
    uint32_t *id = take(lab, PAIRS * 4), *of = take(lab, PAIRS * 4);
    for (uint32_t i = 0; i < PAIRS; i++)
        id[i] = below(lab, EXPERTS);
    float *weight = floats(lab, PAIRS, 0, 4), *sorted = take(lab, PAIRS * 4);
    uint32_t *first = take(lab, (EXPERTS + 1) * 4), *row = take(lab, PAIRS * 4);
    struct lf_expert_group_args args = {ROWS, TOP, EXPERTS, id, weight, first, row, sorted, of};
    lab->k.expert_group(&lab->device, &args);
    fold(lab, first, (EXPERTS + 1) * 4);
    fold(lab, row, PAIRS * 4);
    fold(lab, sorted, PAIRS * 4);
    fold(lab, of, PAIRS * 4);
}

static void digest_swiglu(struct lab *lab) {
    enum { ROWS = 9, DIM = 544 };
    uint16_t *gate = halves(lab, ROWS * DIM, 4, 12), *up = halves(lab, ROWS * DIM, 4, 12);
    float *weight = floats(lab, ROWS, 0, 4);
    struct lf_swiglu_args args = {ROWS, DIM, gate, up, 10.0f, weight, ROWS - 1, gate, up};
    lab->k.swiglu(&lab->device, &args);
    fold(lab, gate, ROWS * DIM * 2);
    fold(lab, up, ROWS * DIM * 2);
}

static void digest_engram_gather(struct lab *lab) {
    enum { ROWS = 5, COLUMNS = 3, DIM = 96, TABLE = 40 };
    uint64_t number[ROWS * COLUMNS];
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        number[i] = below(lab, TABLE);
    uint8_t *value = bytes(lab, TABLE * DIM, 0, 256), *scale = bytes(lab, TABLE * DIM, 0, 256);
    uint16_t *y = take(lab, ROWS * COLUMNS * DIM * 2);
    struct lf_engram_gather_args args = {ROWS, COLUMNS, DIM, number, value, scale, y};
    lab->k.engram_gather(&lab->device, &args);
    fold(lab, y, ROWS * COLUMNS * DIM * 2);
}

static void digest_engram_gate(struct lab *lab) {
    enum { ROWS = 6, S = 4, DIM = 544 };
    uint16_t *x = halves(lab, ROWS * S * DIM, 1, 10), *kv = halves(lab, ROWS * (S + 1) * DIM, 1, 9);
    uint16_t *q_weight = halves(lab, S * DIM, 0, 3), *k_weight = halves(lab, S * DIM, 0, 3);
    float *gate = take(lab, ROWS * S * 4);
    struct lf_engram_gate_args args = {ROWS, S, DIM, x, kv, q_weight, k_weight, NULL, 0.04f,
                                       1e-6f, gate};
    lab->k.engram_gate(&lab->device, &args);
    fold(lab, x, ROWS * S * DIM * 2);
    fold(lab, gate, ROWS * S * 4);
}

static void digest_draft_join(struct lab *lab) {
    enum { ROWS = 4, VOCAB = 999 };
    float *logits = floats(lab, ROWS * VOCAB, 4, 10), *bias = floats(lab, ROWS * VOCAB, 4, 10);
    lab->k.draft_join(&lab->device, &(struct lf_draft_join_args){ROWS, VOCAB, logits, VOCAB, bias});
    fold(lab, logits, ROWS * VOCAB * 4);
}

static void digest_sample(struct lab *lab) {
    enum { ROWS = 24, VOCAB = 999 };
    struct lf_sampling rule[ROWS];
    struct lf_sample_row row[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        rule[r] = (struct lf_sampling){0.5 * (r % 4), r % 3 ? 1.0 : 0.9, r % 5 ? 0.0 : 0.02,
                                       r % 2 ? 0 : 40, 77 * r};
        row[r] = (struct lf_sample_row){&rule[r], 1000 + r, NULL};
    }
    float *logits = floats(lab, ROWS * VOCAB, 3, 10);
    uint32_t *drawn = take(lab, ROWS * 4), *kept = take(lab, ROWS * 4);
    struct lf_sample_args args = {ROWS, VOCAB, logits, VOCAB, row, drawn, kept};
    lab->k.sample(&lab->device, &args);
    fold(lab, drawn, ROWS * 4);
    fold(lab, kept, ROWS * 4);
}

static void digest_logprobs(struct lab *lab) {
    enum { ROWS = 6, VOCAB = 999, TOP = 20 };
    float *logits = floats(lab, ROWS * VOCAB, 3, 10);
    uint32_t drawn[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        drawn[r] = below(lab, VOCAB);
    struct lf_logprob_row *out = take(lab, ROWS * sizeof *out);
    lab->k.logprobs(&lab->device,
                    &(struct lf_logprobs_args){ROWS, VOCAB, logits, VOCAB, drawn, TOP, out});
    fold(lab, out, ROWS * sizeof *out);
}

struct entry {
    const char *name;
    void (*run)(struct lab *lab);
};
// Every kernel of the table; one without a digest does not compile.
static const struct entry entries[] = {
#define LF_KERNEL(name) {#name, digest_##name},
#include "kernel/registry.def"
#undef LF_KERNEL
};

static uint64_t digest_of(struct lab *lab, const struct entry *entry) {
    lab->state = 2026, lab->used = 0, lab->digest = 0xCBF29CE484222325u;
    entry->run(lab);
    return lab->digest;
}

// Prints `kernel set digest` for each set present; 1 when two sets of this machine differ.
int main(void) {
    static struct lab lab;
    struct lf_error err = LF_ERROR_INIT;
    int unequal = 0;
    lab.arena = malloc(ARENA_BYTES);
    if (!lab.arena || lf_pool_open(&lab.device.pool, 2, SCRATCH_BYTES, &err) != LF_OK ||
        lf_kernels_init(&lab.portable, LF_ISA_PORTABLE, &err) != LF_OK) {
        fprintf(stderr, "isa_digest: %s\n", err.text);
        return 2;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        lab.k = lab.portable;
        uint64_t want = digest_of(&lab, &entries[i]);
        printf("%s portable %016" PRIx64 "\n", entries[i].name, want);
        for (enum lf_isa isa = LF_ISA_PORTABLE + 1; isa < LF_ISAS; isa++) {
            if (!lf_isa_present(isa) || lf_kernels_init(&lab.k, isa, &err) != LF_OK)
                continue;
            uint64_t got = digest_of(&lab, &entries[i]);
            unequal += got != want;
            printf("%s %s %016" PRIx64 "\n", entries[i].name, lf_isa_name(isa), got);
        }
    }
    lf_pool_close(lab.device.pool);
    free(lab.arena);
    return unequal > 0;
}
