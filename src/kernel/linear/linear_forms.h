// The vector forms of a task: which of them runs, and what it leaves to the definition.
#pragma once
#include "kernel/linear/linear_pair.h"
#include "kernel/linear/linear_row.h"
#include "kernel/linear/linear_scratch.h"

enum { ROW_IN_MAX = PANEL_FLOATS };

// How a job's rows run first; what that leaves is done by tiles or by the definition.
enum form { FORM_ROW, FORM_PAIR, FORM_FEW, FORM_TILES, FORM_DIGITS };

static inline enum form job_form(const struct lf_linear_job *job) {
    enum lf_weight_format format = job->w->format;
    if (format == LF_WEIGHT_MXFP4)
        return FORM_DIGITS;
    if (job->rows > GROUP_ROWS || (format != LF_WEIGHT_BF16 && format != LF_WEIGHT_FP8))
        return FORM_TILES;
    if (job->rows == 1 && job->w->in <= ROW_IN_MAX)
        return FORM_ROW;
    return format == LF_WEIGHT_BF16 ? FORM_PAIR : FORM_FEW;
}

// Outputs of a task of few rows, about share: a multiple of 32, the FP8 block.
static inline uint32_t task_outputs(uint32_t share) {
    return near_share(share, 32, FEW_OUTS);
}

// The x of a block of one row or of few rows of FP8, in groups of FEW_ROWS, steps outermost.
static void make_few_x(const struct lf_linear_job *job, uint32_t k0, uint32_t n, float *dst) {
    enum lf_weight_format format = job->w->format;
    uint32_t vectors = word_vectors(format, n);
    for (uint32_t r = 0; r < job->rows; r += FEW_ROWS) {
        struct x_rows x = rows_at(job, r, at_most(job->rows - r, FEW_ROWS), 0, k0);
        struct places places = {.element = x.rows * VEC_LANES};
        places.part = places.element * word_elements(format);
        places.step = places.part * VEC_PARTS;
        order_x(format, &x, n, dst + (size_t)r * vectors * LANES, places);
    }
}

// Elements of a block of few rows, about the same for all blocks: x stays in the first cache.
static inline uint32_t few_block(const struct lf_linear_job *job, uint32_t k0) {
    uint32_t in = job->w->in, most = FEW_BLOCK;
    if (job_form(job) == FORM_ROW)
        return at_most(in - k0, ROW_IN_MAX);
    // Words of BF16 take twice the room beside it.
    if (job_form(job) == FORM_PAIR && in > FEW_BLOCK)
        most = PAIR_BLOCK;
    uint32_t blocks = (in + most - 1) / most;
    return at_most(in - k0, ceil_to((in + blocks - 1) / blocks, LANES * 4));
}

// Floats that a job's input takes; more than there are when each task must make its own.
static size_t input_floats(const struct lf_linear_job *job) {
    uint32_t in = job->w->in;
    if (job->rows > GROUP_ROWS || job_form(job) == FORM_TILES)
        return SHARED_FLOATS + 1;
    if (job->w->format == LF_WEIGHT_MXFP4)
        return ordered_floats(job, job->rows);
    return job->rows * (size_t)word_vectors(job->w->format, in) * LANES + 4 * LANES * job->rows;
}

static void make_input(const struct lf_linear_job *job, float *at, struct input *input) {
    const struct lf_matrix *m = job->w;
    *input = (struct input){.at = at};
    if (m->format == LF_WEIGHT_MXFP4) {
        order_rows(job, 0, job->rows, at);
        return;
    }
    for (uint32_t r = 0; m->format == LF_WEIGHT_FP8 && r < job->rows; r++) {
        uint32_t exponent = fold_exponent(row_x(job, r), m->in);
        bool none = exponent == 0 || (r > 0 && input->exponent == 0);
        input->exponent = none ? 0 : exponent > input->exponent ? exponent : input->exponent;
    }
    for (uint32_t k0 = 0, n; k0 < m->in; k0 += n) {
        n = few_block(job, k0);
        if (job_form(job) == FORM_PAIR)
            make_x(job, 0, job->rows, PAIR_ROWS, k0, n, at + (size_t)job->rows * k0);
        else
            make_few_x(job, k0, n, at + (size_t)job->rows * k0);
    }
}

// The inputs of the first jobs, while there is room; returns how many are filled in.
static uint32_t make_inputs(const struct lf_linear_args *args, struct scratch *s) {
    const struct lf_linear_job *job = args->job;
    uint32_t inputs = at_most(args->n_jobs, SHARED_JOBS);
    size_t used = 0;
    for (uint32_t j = 0; j < inputs; j++) {
        size_t floats = job[j].rows ? input_floats(&job[j]) : 0;
        if (j > 0 && s->input[j - 1].at && same_input(&job[j - 1], &job[j]))
            s->input[j] = s->input[j - 1];
        else if (job[j].rows && floats <= SHARED_FLOATS - used) {
            make_input(&job[j], s->shared + used, &s->input[j]);
            used += floats;
        } else
            s->input[j] = (struct input){0};
    }
    return inputs;
}

static bool run_row(const struct block *b, const struct input *shared, struct scratch *s) {
    struct input input = *shared;
    float sums[FEW_OUTS];
    if (!input.at)
        make_input(b->job, s->work.acc, &input);
    if (!row_sums(b->job->w, input.at, input.exponent, b->o0, b->outs, s->work.panel, sums))
        return false;
    for (uint32_t o = 0; o < b->outs; o++)
        store_sum(b->job, 0, b->o0 + o, sums[o]);
    return true;
}

// One block of k of FP8 outputs that share scales; false where a NaN code was met.
static bool few_outputs(const struct block *b, uint32_t o0, uint32_t end, uint32_t k0, uint32_t n,
                        const float *x, struct scratch *s) {
    const struct lf_matrix *m = b->job->w;
    bool clean = true;
    struct few f = {.acc_row = b->outs * LANES, .x = s->work.panel};
    for (uint32_t r = 0, rows; r < b->rows; r += rows) {
        rows = at_most(b->rows - r, FEW_ROWS);
        struct packed p = packed_at(m, b->o0 + o0, k0, n);
        fold_scales(p.scale, p.scales, rows, x, s->work.panel);
        for (uint32_t o = o0; o < end; o++) {
            p = packed_at(m, b->o0 + o, k0, n);
            f.ahead = b->o0 + o + 2 < m->out ? 2 * lf_matrix_row_bytes(m) : 0;
            f.acc = s->work.acc + r * f.acc_row + o * LANES;
            clean &= few_products(rows, &p, &f);
        }
        x += rows * word_vectors(m->format, n) * LANES;
    }
    return clean;
}

// False where only the tiles give the declared bits.
static bool run_few(const struct block *b, const struct input *input, struct scratch *s) {
    const struct lf_matrix *m = b->job->w;
    bool clean = input->at != NULL;
    for (uint32_t o = 0; o < b->outs; o += 32)
        clean = clean && can_fold(packed_at(m, b->o0 + o, 0, m->in).scale, m->in / 32,
                                  input->exponent);
    memset(s->work.acc, 0, sizeof(float) * b->rows * b->outs * LANES);
    for (uint32_t k0 = 0, n; clean && k0 < m->in; k0 += n) {
        n = few_block(b->job, k0);
        for (uint32_t o = 0; o < b->outs; o += 32)
            clean &= few_outputs(b, o, at_most(b->outs, o + 32), k0, n,
                                 input->at + (size_t)b->rows * k0, s);
    }
    if (clean)
        store_sums(b, s->work.acc, b->outs * LANES);
    return clean;
}

// One block of k of all outputs of BF16.
static void pair_outputs(const struct block *b, uint32_t k0, uint32_t n, const float *x,
                         struct scratch *s) {
    const struct lf_matrix *m = b->job->w;
    struct pair f = {.acc_row = ceil_to(b->outs, PAIR_OUTS) * LANES, .x = x};
    for (uint32_t r = 0, rows; r < b->rows; r += rows) {
        rows = at_most(b->rows - r, PAIR_ROWS);
        for (uint32_t o = 0; o < b->outs; o += PAIR_OUTS) {
            struct packed p[PAIR_OUTS];
            for (uint32_t i = 0; i < PAIR_OUTS; i++)
                p[i] = packed_at(m, b->o0 + at_most(o + i, b->outs - 1), k0, n);
            bool more = b->o0 + o + 2 * PAIR_OUTS <= m->out;
            f.ahead = more ? PAIR_OUTS * lf_matrix_row_bytes(m) : 0;
            f.acc = s->work.acc + r * f.acc_row + o * LANES;
            pair_products(rows, p, &f);
        }
        f.x += rows * word_vectors(m->format, n) * LANES;
    }
}

static void run_pair(const struct block *b, const float *x, struct scratch *s) {
    size_t acc_row = ceil_to(b->outs, PAIR_OUTS) * LANES;
    uint32_t in = b->job->w->in;
    memset(s->work.acc, 0, sizeof(float) * b->rows * acc_row);
    for (uint32_t k0 = 0, n; k0 < in; k0 += n) {
        n = few_block(b->job, k0);
        pair_outputs(b, k0, n, x + (size_t)b->rows * k0, s);
    }
    store_sums(b, s->work.acc, acc_row);
}

// What a faster form leaves, and rows too long to be in order at once.
static void run_own(const struct block *whole, struct scratch *s) {
    uint32_t each = group_rows(whole->job), rows = each;
    while (rows < TASK_ROWS && ordered_floats(whole->job, rows + each) <= ORDERED_FLOATS)
        rows += each;
    struct block b = *whole;
    for (uint32_t done = 0; done < whole->rows; done += b.rows) {
        b.r0 = whole->r0 + done;
        b.rows = at_most(whole->rows - done, rows);
        if (ordered_floats(b.job, b.rows) > ORDERED_FLOATS)
            plain_block(&b, &s->work.plain);
        else {
            order_rows(b.job, b.r0, b.rows, s->ordered);
            run_ordered_at(&b, s->ordered, &s->work);
        }
    }
}

static void run_block(const struct block *b, const struct input *input, struct scratch *s) {
    switch (job_form(b->job)) {
    case FORM_DIGITS:
        if (input->at)
            run_ordered_at(b, input->at, &s->work);
        else
            run_own(b, s);
        return;
    case FORM_ROW:
        if (!run_row(b, input, s))
            run_own(b, s);
        return;
    case FORM_PAIR:
        if (input->at)
            run_pair(b, input->at, s);
        else
            run_own(b, s);
        return;
    case FORM_FEW:
        if (!run_few(b, input, s))
            run_own(b, s);
        return;
    case FORM_TILES:
        run_own(b, s);
    }
}
