#include "bench/round_measure.h"

#include <stdlib.h>
#include "base/clock.h"
#include "bench/made_up_state.h"
#include "bench/stats.h"
#include "kernel/limits.h"

enum {
    PROBES = 5,
    PROBE_SHARE = 128, // of the device's memory
    STEPS_A_PROCESSOR = 16,
    ROUNDS_A_REP = 5,
    ROUNDS_MAX = 64 * ROUNDS_A_REP,
    ROUNDS_LEAST = 3,
};
// Rounds that take long are repeated less often.
static const double measuring_s = 1.0;

// Seconds of what was queued between the marks.
static enum lf_status between_marks(struct lf_cuda *cuda, double *seconds, struct lf_error *err) {
    LF_TRY(lf_cuda_wait(cuda, err));
    *seconds = (double)lf_cuda_between_ms(cuda, 0, 1) * 1e-3;
    return LF_OK;
}

enum probe { READ, COPY, PRODUCTS };

static enum lf_status probe(struct lf_device *device, enum probe what, uint8_t *data, size_t bytes,
                            double *rate, struct lf_error *err) {
    uint32_t steps = STEPS_A_PROCESSOR * lf_cuda_info(device->cuda)->processors;
    double seconds[PROBES], warm;
    for (int i = -1; i < PROBES; i++) {
        lf_cuda_mark(device->cuda, 0);
        if (what == READ)
            lf_limit_read(device, data, bytes, (uint32_t *)(void *)data);
        else if (what == COPY)
            lf_cuda_copy(device->cuda, data, data + bytes / 2, bytes / 2);
        else
            lf_limit_products(device, data, steps, (float *)(void *)(data + bytes / 2));
        lf_cuda_mark(device->cuda, 1);
        LF_TRY(between_marks(device->cuda, i < 0 ? &warm : &seconds[i], err));
    }
    double work = what == PRODUCTS ? lf_limit_operations(device, steps) : (double)bytes;
    *rate = work / lf_stats_median(seconds, PROBES);
    return LF_OK;
}

// Both signs, sizes from 0.5 to 2: what products take power for.
static void make_numbers(uint16_t number[LF_LIMIT_NUMBERS]) {
    uint32_t word = 1;
    for (int i = 0; i < LF_LIMIT_NUMBERS; i++) {
        word = word * 1664525u + 1013904223u;
        number[i] = (uint16_t)((word >> 16 & 0x80FF) | 0x3F00);
    }
}

static enum lf_status measure_limits(struct lf_device *device, struct lf_device_limits *limits,
                                     struct lf_error *err) {
    size_t bytes = lf_cuda_info(device->cuda)->memory_bytes / PROBE_SHARE / 4096 * 4096;
    uint16_t number[LF_LIMIT_NUMBERS];
    void *data;
    LF_ASSERT(bytes / 2 >= lf_limit_products_bytes(device));
    LF_TRY(lf_cuda_alloc(device->cuda, &data, bytes, "the device's limits", err));
    lf_cuda_fill(device->cuda, data, 1, bytes);
    make_numbers(number);
    lf_cuda_upload(device->cuda, data, number, sizeof number);
    if (probe(device, READ, data, bytes, &limits->read, err) == LF_OK &&
        probe(device, COPY, data, bytes, &limits->copy, err) == LF_OK)
        (void)!probe(device, PRODUCTS, data, bytes, &limits->peak, err);
    lf_cuda_free(device->cuda, data);
    return err->status;
}

enum lf_status lf_round_bench_open(struct lf_round_bench *bench, struct lf_v41 *m,
                                   const struct lf_bench_options *o, struct lf_error *err) {
    uint32_t rows = m->work.rows_max;
    *bench = (struct lf_round_bench){.m = m, .reps = (uint32_t)o->reps};
    bench->ids = malloc(rows * sizeof *bench->ids);
    if (!bench->ids)
        return lf_fail(err, LF_E_MEM, "out of memory for the tokens of %u rows", rows);
    LF_TRY(measure_limits(&m->device, &bench->limits, err));
    return lf_launch_marks_open(&bench->marks, &m->device, err);
}

void lf_round_bench_close(struct lf_round_bench *bench) {
    free(bench->ids);
}

enum lf_status lf_round_lanes(struct lf_round_bench *bench, uint32_t lanes, uint64_t positions,
                              struct lf_error *err) {
    // All others are copies of the first, which has to be filled as far as any.
    for (uint32_t slot = 0; slot < lanes; slot++) {
        if (bench->made[slot] >= positions)
            continue;
        if (slot == 0)
            LF_TRY(lf_state_make_up(bench->m, positions, 1, err));
        else
            LF_TRY(lf_state_copy_made_up(bench->m, slot, positions, err));
        bench->made[slot] = positions;
    }
    return LF_OK;
}

// Slots that end before the round's first row, as if a prompt had filled them.
static void set_lengths(struct lf_round_bench *bench, uint32_t lanes, uint64_t length) {
    for (uint32_t s = 0; s < lanes; s++) {
        struct lf_state *state = &bench->m->state[s];
        state->length = length;
        state->complete = true;
        state->logits_ready = false;
        state->pending_rows = 0;
    }
}

static void make_ids(struct lf_round_bench *bench, uint32_t rows) {
    for (uint32_t i = 0; i < rows; i++)
        bench->ids[i] = bench->seed++ * 2654435761u % bench->m->t->vocab;
}

static enum lf_status decode(struct lf_round_bench *bench, const struct lf_round *round,
                             struct lf_error *err) {
    static const struct lf_sampling rule = {.temperature = 1, .top_p = 0.95};
    struct lf_window window[LF_LAUNCH_ROWS];
    uint32_t drawn[LF_LAUNCH_ROWS];
    for (uint32_t i = 0; i < round->rows; i++)
        window[i] = (struct lf_window){.slot = i, .rows = 1, .pos0 = round->context - 1,
                                       .tok = bench->ids + i, .rule = &rule};
    struct lf_target *target = &bench->m->target;
    return target->ops->verify(target, window, round->rows, drawn, err);
}

static enum lf_status chunk(struct lf_round_bench *bench, const struct lf_round *round,
                            struct lf_error *err) {
    struct lf_target *target = &bench->m->target;
    struct lf_bound end = {.at = round->context, .logits = true};
    if (round->phase == LF_ROUND_MIDDLE)
        end.at += bench->m->t->positions_max;
    struct lf_chunk rows = {.rows = round->rows, .pos0 = round->context - round->rows,
                            .tok = bench->ids, .plan = &end, .n_plan = 1};
    bool no_cone = bench->m->no_cone;
    bench->m->no_cone = round->phase == LF_ROUND_CHUNK;
    enum lf_status status = target->ops->prefill(target, &rows, 1, err);
    bench->m->no_cone = no_cone;
    return status;
}

static enum lf_status run(struct lf_round_bench *bench, const struct lf_round *round,
                          struct lf_error *err) {
    bool is_decode = round->phase == LF_ROUND_DECODE;
    set_lengths(bench, is_decode ? round->rows : 1, round->context - (is_decode ? 1 : round->rows));
    make_ids(bench, round->rows);
    return is_decode ? decode(bench, round, err) : chunk(bench, round, err);
}

static enum lf_status time_rounds(struct lf_round_bench *bench, struct lf_round *round,
                                  struct lf_error *err) {
    struct lf_cuda *cuda = bench->m->device.cuda;
    double seconds[ROUNDS_MAX], began = lf_clock_s();
    uint32_t n = 0, most = bench->reps * ROUNDS_A_REP;
    // The first reads code, the second is kept as a graph.
    for (int i = 0; i < 2; i++)
        LF_TRY(run(bench, round, err));
    while (n < most && (n < ROUNDS_LEAST || lf_clock_s() - began < measuring_s)) {
        uint64_t launches = lf_cuda_launches(cuda);
        lf_cuda_mark(cuda, 0);
        LF_TRY(run(bench, round, err));
        lf_cuda_mark(cuda, 1);
        LF_TRY(between_marks(cuda, &seconds[n++], err));
        round->launches = lf_cuda_launches(cuda) - launches;
    }
    round->seconds = lf_stats_median(seconds, n);
    return LF_OK;
}

// Times of one run, what another has to compute and move: that one waits to look at its tables.
static enum lf_status time_kernels(struct lf_round_bench *bench, struct lf_round *round,
                                   struct lf_error *err) {
    struct lf_v41 *m = bench->m;
    struct lf_kernel_times times = {.marks = &bench->marks};
    struct lf_kernel_times costs = {.memory = m->device.memory, .wall = true};
    lf_kernel_times_begin(&times, &m->k);
    enum lf_status status = run(bench, round, err);
    lf_kernel_times_end(&times);
    if (status == LF_OK && bench->marks.failure.status != LF_OK)
        lf_fail(err, bench->marks.failure.status, "%s", bench->marks.failure.text);
    LF_TRY(err->status);
    lf_kernel_times_begin(&costs, &m->k);
    status = run(bench, round, err);
    lf_kernel_times_end(&costs);
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++) {
        round->kernel[i] = times.kernel[i];
        round->kernel[i].operations = costs.kernel[i].operations;
        round->kernel[i].bytes = costs.kernel[i].bytes;
    }
    return status;
}

enum lf_status lf_round_measure(struct lf_round_bench *bench, struct lf_round *round,
                                struct lf_error *err) {
    uint32_t lanes = round->phase == LF_ROUND_DECODE ? round->rows : 1;
    enum lf_status status = lf_round_lanes(bench, lanes, round->context, err);
    if (status == LF_E_MEM) {
        *err = (struct lf_error)LF_ERROR_INIT;
        return LF_OK;
    }
    LF_TRY(status);
    round->fits = true;
    LF_TRY(time_rounds(bench, round, err));
    return time_kernels(bench, round, err);
}
