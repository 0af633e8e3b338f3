// The vector forms of a task: which of them runs, and what it leaves to the definition.
#pragma once
#include "kernel/linear/linear_pair.h"
#include "kernel/linear/linear_row.h"
#include "kernel/linear/linear_scratch.h"

enum { ROW_IN_MAX = PANEL_FLOATS };

// How a job's rows run first; what that leaves is done by tiles or by the definition.
enum form { FORM_ROW, FORM_FEW, FORM_TILES, FORM_DIGITS };

static inline enum form job_form(const struct lf_linear_job *job) {
    enum lf_weight_format format = job->w->format;
    if (format == LF_WEIGHT_MXFP4)
        return FORM_DIGITS;
    if (job->rows > GROUP_ROWS || (format != LF_WEIGHT_BF16 && format != LF_WEIGHT_FP8))
        return FORM_TILES;
    if (job->rows == 1 && job->w->in <= ROW_IN_MAX)
        return FORM_ROW;
    return FORM_FEW;
}

// Outputs of a task of few rows, about share: a multiple of 32, the FP8 block.
static inline uint32_t task_outputs(uint32_t share) {
    return near_share(share, 32, FEW_OUTS);
}

// Elements of a block of few rows, about the same for all blocks: x stays in the first cache.
static inline uint32_t few_block(const struct lf_linear_job *job, uint32_t k0) {
    uint32_t in = job->w->in, most = in <= FEW_BLOCK ? FEW_BLOCK : FEW_BLOCKS;
    if (job_form(job) == FORM_ROW)
        return at_most(in - k0, ROW_IN_MAX);
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
        make_x(job, 0, job->rows, few_rows(job->rows), k0, n, at + (size_t)job->rows * k0);
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

// acc += a block of k of f.outs outputs from o on; rows that end inside a step are padded.
static void few_products(few_form *form, uint32_t width, const struct lf_matrix *m, uint32_t o,
                         uint32_t k0, uint32_t n, struct few f) {
    struct packed p = packed_at(m, o, k0, n);
    uint32_t full = p.bytes / STEP_BYTES, steps = (p.bytes + STEP_BYTES - 1) / STEP_BYTES;
    uint8_t pad[FEW_WIDTH][STEP_BYTES];
    f.w = p.data, f.row = lf_matrix_row_bytes(m), f.left = m->out - o;
    f.scale = p.scale, f.scales = p.scales, f.steps = full;
    form(&f);
    if (full == steps)
        return;
    f.w = pad[0], f.row = STEP_BYTES, f.left = 0, f.steps = 1;
    f.x += full * (f.x_part / steps), f.folded += full * (f.x_part / steps);
    if (f.scale)
        f.scale += 2 * full, f.scales -= 2 * full;
    for (uint32_t end = o + f.outs; o < end; o += f.outs, f.acc += f.outs * LANES) {
        f.outs = at_most(end - o, width);
        for (uint32_t i = 0; i < f.outs; i++) {
            p = packed_at(m, o + i, k0, n);
            step_bytes(&p, full, pad[i]);
        }
        form(&f);
    }
}

// A block of k of outputs first .. end-1, of FP8 those that share scales; x of rows in groups.
static void few_outputs(const struct block *b, uint32_t first, uint32_t end, uint32_t k0,
                        uint32_t n, const float *x, struct few f) {
    static few_form *const pairs[] = {pair_1, pair_2, pair_3, pair_4};
    static few_form *const quads[] = {quad_1, quad_2, quad_3, quad_4};
    static few_form *const folds[] = {fold_1, fold_2, fold_3, fold_4};
    const struct lf_matrix *m = b->job->w;
    bool fp8 = m->format == LF_WEIGHT_FP8;
    size_t vectors = word_vectors(m->format, n);
    float *acc = f.acc + first * LANES;
    for (uint32_t r = 0, rows; r < b->rows; r += rows, x += rows * vectors * LANES) {
        rows = at_most(b->rows - r, few_rows(b->rows));
        uint32_t width = fp8 ? QUAD_WIDTH : pair_width(rows), o = first;
        f.x = x, f.x_part = rows * vectors * VEC_LANES, f.acc = acc + r * f.acc_row;
        if (fp8) {
            f.outs = at_most(end - o, width);
            few_products(folds[rows - 1], width, m, b->o0 + o, k0, n, f);
            o += f.outs, f.acc += f.outs * LANES, f.x = f.folded;
        }
        f.outs = end - o;
        if (f.outs)
            few_products((fp8 ? quads : pairs)[rows - 1], width, m, b->o0 + o, k0, n, f);
    }
}

// Whether all outputs' scales can go into x.
static bool few_folds(const struct block *b, const struct input *input) {
    bool folds = true;
    for (uint32_t o = 0; b->job->w->format == LF_WEIGHT_FP8 && o < b->outs; o += 32) {
        struct packed p = packed_at(b->job->w, b->o0 + o, 0, b->job->w->in);
        folds = folds && can_fold(p.scale, p.scales, input->exponent);
    }
    return folds;
}

// False where only the tiles give the declared bits.
static bool run_few(const struct block *b, const struct input *input, struct scratch *s) {
    uint32_t in = b->job->w->in, shared = b->job->w->format == LF_WEIGHT_FP8 ? 32 : b->outs;
    size_t acc_row = ceil_to(b->outs, FEW_PADDED) * LANES;
    vec_u8 seen = {0};
    struct few f = {.acc_row = acc_row, .seen = &seen, .folded = s->work.panel};
    if (!input->at || !few_folds(b, input))
        return false;
    f.acc = memset(s->work.acc, 0, sizeof(float) * b->rows * acc_row);
    for (uint32_t k0 = 0, n; k0 < in; k0 += n) {
        n = few_block(b->job, k0);
        for (uint32_t o = 0; o < b->outs; o += shared)
            few_outputs(b, o, at_most(b->outs, o + shared), k0, n,
                        input->at + (size_t)b->rows * k0, f);
    }
    if (twice_has_nan(seen))
        return false;
    store_sums(b, s->work.acc, acc_row);
    return true;
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
    case FORM_FEW:
        if (!run_few(b, input, s))
            run_own(b, s);
        return;
    case FORM_TILES:
        run_own(b, s);
    }
}
