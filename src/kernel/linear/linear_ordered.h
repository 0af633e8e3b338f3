// Rows put in order ahead of the products: floats for tiles, digits for MXFP4, in groups of rows.
#pragma once
#include "kernel/linear/linear_digit_rows.h"
#include "kernel/linear/linear_tiles.h"

enum {
    TASK_GROUPS = (TASK_ROWS + 3) / 4,
    DIGITS_ROWS = 16,
    DIGITS_OUTS = 192,
    ORDERED_FLOATS = 320 * 1024,
};

// What a task works in.
struct work {
    union {
        struct plain plain;
        struct {
            float panel[PANEL_FLOATS]; // decoded weights, or one row's x with scales in it
            float acc[SUMS_FLOATS];
        };
    };
};
_Static_assert(DIGITS_ROWS * DIGITS_OUTS * LANES <= SUMS_FLOATS, "sums of digits");

static inline bool has_digits(const struct lf_linear_job *job) {
    return job->w->format == LF_WEIGHT_MXFP4;
}

static inline uint32_t group_rows(const struct lf_linear_job *job) {
    return has_digits(job) ? DIGIT_ROWS : TILE_ROWS;
}

// Elements of a block of k, the same for all groups of a job.
static inline uint32_t ordered_block(const struct lf_linear_job *job) {
    if (!has_digits(job))
        return tile_block(job->w->in);
    return DIGIT_BLOCK / at_most(job->rows, DIGIT_ROWS) / DIGIT_STEP * DIGIT_STEP;
}

static inline uint32_t ordered_blocks(const struct lf_linear_job *job) {
    uint32_t block = ordered_block(job);
    return (job->w->in + block - 1) / block;
}

// Floats of a group's blocks from the first on; digits have a word a block in front of them.
static inline size_t block_floats(const struct lf_linear_job *job, uint32_t rows, uint32_t blocks) {
    uint32_t block = ordered_block(job), in = at_most(blocks * block, job->w->in);
    if (!has_digits(job))
        return (size_t)rows * word_vectors(job->w->format, in) * LANES;
    uint32_t whole = in / block, rest = (in % block + DIGIT_STEP - 1) / DIGIT_STEP;
    size_t bytes = whole * digits_bytes(rows, block / DIGIT_STEP);
    bytes += rest ? digits_bytes(rows, rest) : 0;
    return bytes / sizeof(float) + ceil_to(ordered_blocks(job), LANES);
}

// Floats of rows in order, whole groups and what is left.
static inline size_t ordered_floats(const struct lf_linear_job *job, uint32_t rows) {
    uint32_t each = group_rows(job), blocks = ordered_blocks(job), left = rows % each;
    return rows / each * block_floats(job, each, blocks) +
           (left ? block_floats(job, left, blocks) : 0);
}

// The digits of a group's block; *none gets the rows that have none.
static struct digits block_digits(const struct lf_linear_job *job, uint32_t rows, uint32_t i,
                                  const float *group, const uint32_t **none) {
    uint32_t block = ordered_block(job), n = at_most(job->w->in - i * block, block);
    *none = (const uint32_t *)(const void *)group + i;
    return digits_at((float *)group + block_floats(job, rows, i), rows,
                     (n + DIGIT_STEP - 1) / DIGIT_STEP);
}

// Block i of the group of rows r0 ..
static void order_block(const struct lf_linear_job *job, uint32_t r0, uint32_t rows, uint32_t i,
                        float *group) {
    uint32_t block = ordered_block(job), k0 = i * block, n = at_most(job->w->in - k0, block);
    if (!has_digits(job)) {
        make_x(job, r0, rows, TILE_ROWS, k0, n, group + (size_t)rows * k0);
        return;
    }
    const uint32_t *at;
    struct digits d = block_digits(job, rows, i, group, &at);
    uint32_t none = 0;
    for (uint32_t r = 0; r < rows; r++)
        if (!digits_store(&d, r, row_x(job, r0 + r) + k0,
                          row_x(job, at_most(r0 + r + DIGIT_ROWS, job->rows - 1)) + k0, n))
            none |= 1u << r;
    *(uint32_t *)at = none;
}

// Rows r0 .., group after group.
static void order_rows(const struct lf_linear_job *job, uint32_t r0, uint32_t rows, float *dst) {
    uint32_t each = group_rows(job);
    for (uint32_t r = 0; r < rows; r += each) {
        uint32_t n = at_most(rows - r, each);
        for (uint32_t i = 0; i < ordered_blocks(job); i++)
            order_block(job, r0 + r, n, i, dst + ordered_floats(job, r));
    }
}

// Outputs and rows that have no exact digits, again by the definition.
static void redo_plain(const struct block *b, uint32_t no_digits, struct plain *room) {
    const struct lf_matrix *m = b->job->w;
    for (uint32_t r = 0; r < b->rows; r++)
        for (uint32_t o = 0; no_digits >> r & 1 && o < b->outs; o += PLAIN_OUTS)
            plain_block(&(struct block){b->job, b->o0 + o, at_most(b->outs - o, PLAIN_OUTS),
                                        b->r0 + r, 1, 0}, room);
    // Scales of outputs follow each other.
    size_t blocks = m->in / 32;
    const uint8_t *scale = m->scale + b->o0 * blocks;
    if (bytes_within(scale, b->outs * blocks, FP4_SCALE_LOW, FP4_SCALE_HIGH))
        return;
    for (uint32_t o = 0; o < b->outs; o++)
        if (!bytes_within(scale + o * blocks, blocks, FP4_SCALE_LOW, FP4_SCALE_HIGH))
            plain_block(&(struct block){b->job, b->o0 + o, 1, b->r0, b->rows, 0}, room);
}

// At most DIGITS_ROWS rows; returns those that have no digits.
static uint32_t digits_sums(const struct block *b, const float *const *x, float *acc) {
    const struct lf_matrix *m = b->job->w;
    uint32_t no_digits = 0, block = ordered_block(b->job);
    size_t acc_row = b->outs * LANES;
    for (uint32_t i = 0; i < ordered_blocks(b->job); i++)
        for (uint32_t r = 0; r < b->rows; r += DIGIT_ROWS) {
            uint32_t rows = at_most(b->rows - r, DIGIT_ROWS);
            const uint32_t *none;
            struct digits d = block_digits(b->job, rows, i, x[r / DIGIT_ROWS], &none);
            no_digits |= *none << r;
            digits_outputs(&d, m, b->o0, b->outs, i * block, at_most(m->in - i * block, block),
                           acc + r * acc_row, acc_row);
        }
    return no_digits;
}

// x: of each group of the block's rows, in order.
static void run_ordered(const struct block *whole, const float *const *x, struct work *work) {
    if (!has_digits(whole->job)) {
        run_tiles(whole, x, work->panel, work->acc);
        return;
    }
    for (uint32_t done = 0; done < whole->rows; done += DIGITS_ROWS) {
        struct block b = *whole;
        b.r0 += done;
        b.rows = at_most(whole->rows - done, DIGITS_ROWS);
        uint32_t no_digits = digits_sums(&b, x + done / DIGIT_ROWS, work->acc);
        store_sums(&b, work->acc, b.outs * LANES);
        redo_plain(&b, no_digits, &work->plain);
    }
}

// The same of groups that follow each other.
static void run_ordered_at(const struct block *b, const float *ordered, struct work *work) {
    const float *x[TASK_GROUPS];
    uint32_t each = group_rows(b->job);
    for (uint32_t r = 0; r < b->rows; r += each)
        x[r / each] = ordered + ordered_floats(b->job, r);
    run_ordered(b, x, work);
}
