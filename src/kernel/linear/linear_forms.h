// The vector forms of a task: which of them runs, and what it leaves to the definition.
#pragma once
#include "device/pool.h"
#include "kernel/linear/linear_digits.h"
#include "kernel/linear/linear_pair.h"
#include "kernel/linear/linear_plain.h"
#include "kernel/linear/linear_row.h"
#include "kernel/linear/linear_tiles.h"

enum {
    GROUP_ROWS = 8,   // few rows
    FEW_OUTS = 96,     // of a task of few rows
    DIGITS_ROWS = 16,
    DIGITS_OUTS = 192, // of many rows of MXFP4
    ROW_IN_MAX = PANEL_FLOATS,
    SHARED_FLOATS = 80 * 1024,
    SHARED_JOBS = 128,
};

// The x of a job's few rows, made ready once for all of its tasks.
struct input {
    const float *at;    // NULL: each task makes its own
    uint32_t exponent;  // FP8: fold_exponent, the greatest of the rows or 0
    uint32_t no_digits; // bit r: row r has none
};

struct scratch {
    union {
        struct plain plain;
        struct {
            float panel[PANEL_FLOATS]; // decoded weights, or one row's x with scales in it
            float acc[SUMS_FLOATS];
        };
    };
    float x[12 * 1024];
    float ordered[ORDERED_FLOATS]; // x of tiles, of a worker's share of a launch's rows
    // Of worker 0, for all.
    struct input input[SHARED_JOBS];
    float shared[SHARED_FLOATS];
};
_Static_assert(sizeof(struct scratch) <= LF_LINEAR_SCRATCH_BYTES, "scratch of linear");
_Static_assert(GROUP_ROWS * FEW_OUTS * LANES <= SUMS_FLOATS, "sums of few rows");
_Static_assert(DIGITS_ROWS * DIGITS_OUTS * LANES <= SUMS_FLOATS, "sums of digits");

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

// Outputs of a task, about share: a multiple of 32, the FP8 block.
static inline uint32_t job_outputs(const struct lf_linear_job *job, uint32_t share) {
    bool many = job->rows > GROUP_ROWS && job_form(job) == FORM_DIGITS;
    uint32_t most = many ? DIGITS_OUTS : FEW_OUTS;
    return share >= most ? most : at_most(ceil_to(share + 1, 32), most);
}

// Elements of a block of digits: as many as stay in the first cache.
static inline uint32_t digit_block(const struct lf_linear_job *job) {
    uint32_t rows = at_most(job->rows, DIGIT_ROWS);
    return DIGIT_BLOCK * DIGIT_ROWS / rows / DIGIT_STEP * DIGIT_STEP;
}

// Digits of rows r0 .. of a group of at most DIGIT_ROWS; returns the rows that have none.
static uint32_t make_digits(const struct lf_linear_job *job, uint32_t r0, uint32_t k0, uint32_t n,
                            struct digits *d) {
    uint32_t none = 0;
    for (uint32_t r = 0; r < d->rows; r++)
        if (!digits_store(d, r, row_x(job, r0 + r) + k0,
                          row_x(job, at_most(r0 + r + DIGIT_ROWS, job->rows - 1)) + k0, n))
            none |= 1u << r;
    return none;
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

static float *at_digits(float *base, uint32_t rows, uint32_t n, struct digits *d) {
    uint32_t steps = (n + DIGIT_STEP - 1) / DIGIT_STEP;
    *d = digits_at(base, rows, steps);
    return base + digits_bytes(rows, steps) / sizeof(float);
}

// Floats that a job's input takes; more than there are when each task must make its own.
static size_t input_floats(const struct lf_linear_job *job) {
    uint32_t in = job->w->in;
    if (job->rows > GROUP_ROWS || job_form(job) == FORM_TILES)
        return SHARED_FLOATS + 1;
    if (job->w->format == LF_WEIGHT_MXFP4)
        return job->rows * (digits_bytes(1, in / DIGIT_STEP + 1) + 64) / sizeof(float) * 2;
    return job->rows * (size_t)word_vectors(job->w->format, in) * LANES + 4 * LANES * job->rows;
}

static void make_input(const struct lf_linear_job *job, float *at, struct input *input) {
    const struct lf_matrix *m = job->w;
    *input = (struct input){.at = at};
    if (m->format == LF_WEIGHT_MXFP4) {
        for (uint32_t k0 = 0, n; k0 < m->in; k0 += n) {
            n = at_most(m->in - k0, digit_block(job));
            for (uint32_t r = 0; r < job->rows; r += DIGIT_ROWS) {
                struct digits d;
                at = at_digits(at, at_most(job->rows - r, DIGIT_ROWS), n, &d);
                input->no_digits |= make_digits(job, r, k0, n, &d) << r;
            }
        }
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

// Whether two jobs read the same bytes the same way.
static bool same_input(const struct lf_linear_job *a, const struct lf_linear_job *b) {
    bool same = a->rows == b->rows && a->w->in == b->w->in && a->w->format == b->w->format;
    for (uint32_t r = 0; same && r < a->rows; r++)
        same = row_x(a, r) == row_x(b, r);
    return same;
}

// The inputs of the first jobs, while there is room; returns how many are filled in.
static uint32_t make_inputs(const struct lf_linear_args *args, struct scratch *s) {
    const struct lf_linear_job *job = args->job;
    uint32_t inputs = at_most(args->n_jobs, SHARED_JOBS);
    size_t used = 0;
    for (uint32_t j = 0; j < inputs; j++) {
        size_t floats = input_floats(&job[j]);
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
        make_input(b->job, s->acc, &input);
    if (!row_sums(b->job->w, input.at, input.exponent, b->o0, b->outs, s->panel, sums))
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
    struct few f = {.acc_row = b->outs * LANES, .x = s->panel};
    for (uint32_t r = 0, rows; r < b->rows; r += rows) {
        rows = at_most(b->rows - r, FEW_ROWS);
        struct packed p = packed_at(m, b->o0 + o0, k0, n);
        fold_scales(p.scale, p.scales, rows, x, s->panel);
        for (uint32_t o = o0; o < end; o++) {
            p = packed_at(m, b->o0 + o, k0, n);
            f.ahead = b->o0 + o + 2 < m->out ? 2 * lf_matrix_row_bytes(m) : 0;
            f.acc = s->acc + r * f.acc_row + o * LANES;
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
    memset(s->acc, 0, sizeof(float) * b->rows * b->outs * LANES);
    for (uint32_t k0 = 0, n; clean && k0 < m->in; k0 += n) {
        n = few_block(b->job, k0);
        for (uint32_t o = 0; o < b->outs; o += 32)
            clean &= few_outputs(b, o, at_most(b->outs, o + 32), k0, n,
                                 input->at + (size_t)b->rows * k0, s);
    }
    if (clean)
        store_sums(b, s->acc, b->outs * LANES);
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
            f.acc = s->acc + r * f.acc_row + o * LANES;
            pair_products(rows, p, &f);
        }
        f.x += rows * word_vectors(m->format, n) * LANES;
    }
}

static void run_pair(const struct block *b, const float *x, struct scratch *s) {
    size_t acc_row = ceil_to(b->outs, PAIR_OUTS) * LANES;
    uint32_t in = b->job->w->in;
    memset(s->acc, 0, sizeof(float) * b->rows * acc_row);
    for (uint32_t k0 = 0, n; k0 < in; k0 += n) {
        n = few_block(b->job, k0);
        pair_outputs(b, k0, n, x + (size_t)b->rows * k0, s);
    }
    store_sums(b, s->acc, acc_row);
}

// Outputs and rows that have no exact digits, again by the definition.
static void redo_plain(const struct block *b, uint64_t no_digits, struct scratch *s) {
    const struct lf_matrix *m = b->job->w;
    for (uint32_t r = 0; r < b->rows; r++)
        for (uint32_t o = 0; no_digits >> r & 1 && o < b->outs; o += PLAIN_OUTS)
            plain_block(&(struct block){b->job, b->o0 + o, at_most(b->outs - o, PLAIN_OUTS),
                                        b->r0 + r, 1}, &s->plain);
    for (uint32_t o = b->o0; o < b->o0 + b->outs; o++)
        if (!bytes_within(m->scale + (size_t)o * (m->in / 32), m->in / 32, FP4_SCALE_LOW,
                          FP4_SCALE_HIGH))
            plain_block(&(struct block){b->job, o, 1, b->r0, b->rows}, &s->plain);
}

static void run_digits(const struct block *whole, const struct input *input, struct scratch *s) {
    const struct lf_matrix *m = whole->job->w;
    for (uint32_t done = 0; done < whole->rows; done += DIGITS_ROWS) {
        struct block b = *whole;
        b.r0 += done;
        b.rows = at_most(whole->rows - done, DIGITS_ROWS);
        uint64_t no_digits = input->no_digits;
        size_t acc_row = b.outs * LANES;
        float *shared = (float *)input->at;
        memset(s->acc, 0, sizeof(float) * b.rows * acc_row);
        for (uint32_t k0 = 0, n; k0 < m->in; k0 += n) {
            n = at_most(m->in - k0, digit_block(b.job));
            for (uint32_t r = 0; r < b.rows; r += DIGIT_ROWS) {
                struct digits d;
                uint32_t rows = at_most(b.rows - r, DIGIT_ROWS);
                if (shared)
                    shared = at_digits(shared, rows, n, &d);
                else {
                    at_digits(s->x, rows, n, &d);
                    no_digits |= (uint64_t)make_digits(b.job, b.r0 + r, k0, n, &d) << r;
                }
                for (uint32_t o = 0; o < b.outs; o++)
                    digits_output(&d, m, b.o0 + o, k0, n, s->acc + r * acc_row + o * LANES,
                                  acc_row);
            }
        }
        store_sums(&b, s->acc, acc_row);
        redo_plain(&b, no_digits, s);
    }
}

// Tiles of a task alone: what a faster form leaves, and rows too long to be in order at once.
static void run_own_tiles(const struct block *whole, struct scratch *s) {
    uint32_t fit = (uint32_t)at_most(ORDERED_FLOATS / ordered_floats(whole->job, 1), TASK_ROWS);
    if (fit < TILE_ROWS) {
        plain_block(whole, &s->plain);
        return;
    }
    struct block b = *whole;
    for (uint32_t done = 0; done < whole->rows; done += b.rows) {
        const float *x[TASK_GROUPS];
        b.r0 = whole->r0 + done;
        b.rows = at_most(whole->rows - done, fit / TILE_ROWS * TILE_ROWS);
        for (uint32_t r = 0; r < b.rows; r += TILE_ROWS) {
            float *at = s->ordered + r * ordered_floats(b.job, 1);
            order_group(b.job, b.r0 + r, at_most(b.rows - r, TILE_ROWS), at);
            x[r / TILE_ROWS] = at;
        }
        run_tiles(&b, x, s->panel, s->acc);
    }
}

static void run_block(const struct block *b, const struct input *input, struct scratch *s) {
    switch (job_form(b->job)) {
    case FORM_DIGITS:
        run_digits(b, input, s);
        return;
    case FORM_ROW:
        if (!run_row(b, input, s))
            run_own_tiles(b, s);
        return;
    case FORM_PAIR:
        if (input->at)
            run_pair(b, input->at, s);
        else
            run_own_tiles(b, s);
        return;
    case FORM_FEW:
        if (!run_few(b, input, s))
            run_own_tiles(b, s);
        return;
    case FORM_TILES:
        run_own_tiles(b, s);
    }
}

// Many rows: those of a wave are put in order once, for all tasks that then read them.
struct wave {
    struct lf_pool *pool;
    const struct lf_linear_job *job;
    uint32_t r0, rows;
    uint32_t task_rows, task_outs;
};

static bool job_in_waves(const struct lf_linear_job *job) {
    return job->rows > GROUP_ROWS && job_form(job) == FORM_TILES &&
           ordered_floats(job, TILE_ROWS) <= ORDERED_FLOATS;
}

// Groups of rows lie in the scratch of one worker after the other.
static float *wave_group(const struct wave *w, uint32_t group) {
    size_t floats = ordered_floats(w->job, TILE_ROWS), fit = ORDERED_FLOATS / floats;
    struct scratch *s = lf_pool_scratch(w->pool, group / fit, sizeof *s);
    return s->ordered + group % fit * floats;
}

static void run_order(void *ctx, uint32_t i, uint32_t worker) {
    const struct wave *w = ctx;
    uint32_t r = i * TILE_ROWS;
    (void)worker;
    order_group(w->job, w->r0 + r, at_most(w->rows - r, TILE_ROWS), wave_group(w, i));
}

// Tasks of the same outputs follow each other: their weights are near.
static void run_products(void *ctx, uint32_t i, uint32_t worker) {
    const struct wave *w = ctx;
    struct scratch *s = lf_pool_scratch(w->pool, worker, sizeof *s);
    uint32_t tasks = (w->rows + w->task_rows - 1) / w->task_rows, r = i % tasks * w->task_rows;
    struct block b = {.job = w->job, .o0 = i / tasks * w->task_outs, .r0 = w->r0 + r};
    const float *x[TASK_GROUPS];
    b.rows = at_most(w->rows - r, w->task_rows);
    b.outs = at_most(b.job->w->out - b.o0, w->task_outs);
    for (uint32_t g = 0; g * TILE_ROWS < b.rows; g++)
        x[g] = wave_group(w, r / TILE_ROWS + g);
    run_tiles(&b, x, s->panel, s->acc);
}

static void run_wave(struct wave *w, bool ordered) {
    uint32_t threads = lf_pool_threads(w->pool), out = w->job->w->out;
    uint32_t tasks = (w->rows + TASK_ROWS - 1) / TASK_ROWS;
    w->task_rows = ceil_to((w->rows + tasks - 1) / tasks, TILE_ROWS);
    // Four tasks a thread even out what threads get done.
    w->task_outs = at_most(ceil_to(tasks * out / (4 * threads) + 1, 4 * TILE_OUTS), TASK_OUTS);
    if (!ordered)
        lf_pool_run(w->pool, (w->rows + TILE_ROWS - 1) / TILE_ROWS, run_order, w);
    lf_pool_run(w->pool, tasks * ((out + w->task_outs - 1) / w->task_outs), run_products, w);
}

// Jobs one after the other; one that reads the rows of the job before finds them in order.
static void run_waves(struct lf_pool *pool, const struct lf_linear_args *args) {
    const struct lf_linear_job *before = NULL;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        struct wave w = {.pool = pool, .job = &args->job[j]};
        if (!job_in_waves(w.job))
            continue;
        size_t fit = ORDERED_FLOATS / ordered_floats(w.job, TILE_ROWS) * lf_pool_threads(pool);
        uint32_t most = at_most((uint32_t)fit * TILE_ROWS, w.job->rows);
        uint32_t waves = (w.job->rows + most - 1) / most;
        uint32_t each = ceil_to((w.job->rows + waves - 1) / waves, TILE_ROWS);
        bool ordered = waves == 1 && before && same_input(before, w.job);
        for (; w.r0 < w.job->rows; w.r0 += w.rows) {
            w.rows = at_most(w.job->rows - w.r0, each);
            run_wave(&w, ordered);
        }
        before = waves == 1 ? w.job : NULL;
    }
}
