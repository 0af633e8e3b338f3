// Linear maps by the definition: what has no faster form, or is not exact in one, comes here.
#pragma once
#include <math.h>
#include "kernel/linear/linear.h"
#include "kernel/linear/linear_words.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"

enum {
    PLAIN_ROWS = LF_LINEAR_ROWS_BLOCK,
    PLAIN_OUTS = 96, // of a task
};

// Some outputs of a job and some of its rows.
struct block {
    const struct lf_linear_job *job;
    uint32_t o0, outs, r0, rows;
    uint32_t next; // outputs that are likely wanted after these; 0: not known
};

// Room of plain_block.
struct plain {
    float x[PLAIN_ROWS * K_BLOCK];
    float acc[PLAIN_ROWS * PLAIN_OUTS * LANES];
};

static inline uint32_t at_most(uint32_t n, uint32_t most) {
    return n < most ? n : most;
}

static inline uint32_t ceil_to(uint32_t n, uint32_t unit) {
    return (n + unit - 1) / unit * unit;
}

// Outputs of a task: four tasks a thread even out what threads get done.
static inline uint32_t task_share(uint64_t outputs, uint32_t threads) {
    uint64_t tasks = 4 * (uint64_t)threads, share = (outputs + tasks - 1) / tasks;
    return share == 0 ? 1 : share < UINT32_MAX ? (uint32_t)share : UINT32_MAX - 1;
}

// The share or a little more, a multiple of unit.
static inline uint32_t near_share(uint32_t share, uint32_t unit, uint32_t most) {
    return share >= most ? most : at_most(ceil_to(share, unit), most);
}

static inline const uint16_t *row_x(const struct lf_linear_job *job, uint32_t r) {
    return job->x + (job->x_index ? job->x_index[r] : r) * job->x_stride;
}

static inline void store_sum(const struct lf_linear_job *job, uint32_t r, uint32_t o, float sum) {
    size_t at = r * job->y_stride + o;
#if LF_FAULT == 5 // the total kept in fp16
    sum = lf_f16_to_f32(lf_f16_from_f32(sum));
#elif LF_FAULT == 6 // bf16 truncated
    sum = job->y_f32 ? sum : lf_f32_from_bits(lf_f32_bits(sum) & 0xFFFF0000u);
#elif LF_FAULT == 8 // a write past the row
    if (o + 1 == job->w->out)
        memset((char *)job->y + (at + 1) * (job->y_f32 ? 4 : 2), 0, 2);
#endif
    if (job->y_f32)
        ((float *)job->y)[at] = lf_f32_settle(sum);
    else
        ((uint16_t *)job->y)[at] = lf_bf16_settle(sum);
}

// The totals of four outputs, as lf_tree16_parts has them.
static inline void tree_sums(const struct lf_linear_job *job, const float *const part[4],
                             size_t step, float sums[4]) {
#if LF_FAULT == 7 // another tree in launches of more than eight rows
    for (uint32_t i = 0; i < 4 && job->rows > 8; i++) {
        sums[i] = 0.0f;
        for (uint32_t lane = 0; lane < LANES; lane++)
            sums[i] += part[lane / 4][i * step + lane % 4];
    }
    if (job->rows > 8)
        return;
#endif
    (void)job;
    lf_tree16_parts(part, step, sums);
}

// acc: row r, output o at r * acc_row + o * LANES.
static inline void store_sums(const struct block *b, const float *acc, size_t acc_row) {
    for (uint32_t r = 0; r < b->rows; r++, acc += acc_row)
        for (uint32_t o = 0; o < b->outs; o += 4) {
            const float *a = acc + o * LANES;
            uint32_t n = at_most(b->outs - o, 4);
            float sums[4];
            if (n == 4)
                tree_sums(b->job, (const float *const[]){a, a + 4, a + 8, a + 12}, LANES, sums);
            for (uint32_t i = 0; i < n; i++)
                store_sum(b->job, b->r0 + r, b->o0 + o + i,
                          n == 4 ? sums[i] : lf_tree16(a + i * LANES));
        }
}

static inline void add_products(const float *w, const float *x, uint32_t vectors, float *acc) {
    for (uint32_t v = 0; v < vectors; v++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            acc[lane] = fmaf(w[v * LANES + lane], x[v * LANES + lane], acc[lane]);
}

// MXFP4: unscaled values, the sum of a word, then the scale; a block of 32 is four words.
static inline void add_words(const float *w, const struct packed *p, const float *x,
                             uint32_t vectors, float *acc) {
    for (uint32_t v = 0; v < vectors; v += 8, w += 8 * LANES, x += 8 * LANES)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const float *a = w + lane, *b = x + lane;
            float low = a[0] * b[0], high = a[4 * LANES] * b[4 * LANES];
            for (uint32_t e = 1; e < 4; e++) {
                low = fmaf(a[e * LANES], b[e * LANES], low);
                high = fmaf(a[(4 + e) * LANES], b[(4 + e) * LANES], high);
            }
            acc[lane] = fmaf(low + high, scale_at(p, v / 2 + lane / 4), acc[lane]);
        }
}

static void plain_products(const struct block *b, struct plain *room, uint32_t k0) {
    const struct lf_matrix *m = b->job->w;
    uint32_t n = at_most(m->in - k0, K_BLOCK), vectors = word_vectors(m->format, n);
    uint32_t elements = word_elements(m->format);
    float w[K_BLOCK];
    for (uint32_t o = 0; o < b->outs; o++) {
        struct packed p = packed_at(m, b->o0 + o, k0, n);
        for (uint32_t step = 0; step < vectors / elements; step++)
            decode_step(m->format, &p, step, w + step * elements * LANES);
        for (uint32_t r = 0; r < b->rows; r++) {
            float *acc = room->acc + (r * b->outs + o) * LANES;
            if (m->format == LF_WEIGHT_MXFP4)
                add_words(w, &p, room->x + r * K_BLOCK, vectors, acc);
            else
                add_products(w, room->x + r * K_BLOCK, vectors, acc);
        }
    }
}

// At most PLAIN_OUTS outputs, any number of rows.
static void plain_block(const struct block *whole, struct plain *room) {
    const struct lf_matrix *m = whole->job->w;
    for (uint32_t done = 0; done < whole->rows; done += PLAIN_ROWS) {
        struct block b = *whole;
        b.r0 += done;
        b.rows = at_most(whole->rows - done, PLAIN_ROWS);
        memset(room->acc, 0, sizeof(float) * b.rows * b.outs * LANES);
        for (uint32_t k0 = 0; k0 < m->in; k0 += K_BLOCK) {
            for (uint32_t r = 0; r < b.rows; r++)
                order_x_plain(m->format, row_x(b.job, b.r0 + r) + k0, at_most(m->in - k0, K_BLOCK),
                              room->x + r * K_BLOCK);
            plain_products(&b, room, k0);
        }
        store_sums(&b, room->acc, b.outs * LANES);
    }
}
