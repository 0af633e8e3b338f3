#include "bench/rounds.h"

#include <stdlib.h>
#include "bench/round_report.h"
#include "lane/session.h"

enum { MEMORY_LANES = 4 };

static uint64_t greatest(const uint64_t *value, size_t n) {
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = value[i] > most ? value[i] : most;
    return most;
}

static enum lf_status check(const struct lf_bench_options *o, struct lf_error *err) {
    if (o->n_layers)
        return lf_fail(err, LF_E_USAGE, "--layers: on a device all layers run");
    if (greatest(o->lanes, o->n_lanes) > LF_LAUNCH_ROWS)
        return lf_fail(err, LF_E_USAGE, "--lanes: a round has at most %d rows", LF_LAUNCH_ROWS);
    if (greatest(o->chunks, o->n_chunks) > o->engine.context)
        return lf_fail(err, LF_E_USAGE, "--context %llu: expected at least the rows of a chunk",
                       (unsigned long long)o->engine.context);
    return LF_OK;
}

// The pages of a few long lanes, against what is planned for them.
static enum lf_status measure_memory(struct lf_round_bench *bench, const struct lf_bench_options *o,
                                     struct lf_report *report, struct lf_error *err) {
    const struct lf_v41 *m = bench->m;
    uint64_t lanes = greatest(o->lanes, o->n_lanes), peak;
    struct lf_lanes_memory memory = {
        .lanes = lanes < MEMORY_LANES ? (uint32_t)lanes : MEMORY_LANES,
        .positions = greatest(o->contexts, o->n_contexts),
        .position_bytes = lf_state_position_bytes(&m->shape),
        .fixed = lf_cuda_held_bytes(m->device.cuda, &peak)};
    memory.planned = memory.lanes * lf_state_kv_bytes(&m->shape, memory.positions);
    LF_TRY(lf_round_lanes(bench, memory.lanes, memory.positions, err));
    memory.held = lf_cuda_held_bytes(m->device.cuda, &peak) - memory.fixed;
    return lf_round_report_memory(report, &memory, err);
}

static enum lf_status measure_row(struct lf_round_bench *bench, struct lf_report *report,
                                  struct lf_round round, struct lf_error *err) {
    LF_TRY(lf_round_measure(bench, &round, err));
    return lf_round_report_row(report, bench, &round, err);
}

static enum lf_status measure_all(struct lf_round_bench *bench, const struct lf_bench_options *o,
                                  struct lf_report *report, struct lf_error *err) {
    for (size_t i = 0; i < o->n_contexts; i++)
        for (size_t j = 0; j < o->n_lanes; j++)
            LF_TRY(measure_row(bench, report,
                               (struct lf_round){.phase = LF_ROUND_DECODE,
                                                 .rows = (uint32_t)o->lanes[j],
                                                 .context = o->contexts[i]}, err));
    for (size_t i = 0; i < o->n_chunks; i++)
        for (enum lf_round_phase phase = LF_ROUND_CHUNK; phase <= LF_ROUND_MIDDLE; phase++)
            LF_TRY(measure_row(bench, report,
                               (struct lf_round){.phase = phase, .rows = (uint32_t)o->chunks[i],
                                                 .context = o->engine.context}, err));
    return LF_OK;
}

static enum lf_status measure(struct lf_v41 *m, const struct lf_bench_options *o,
                              struct lf_error *err) {
    struct lf_round_bench bench;
    struct lf_report report;
    uint32_t rounds = (uint32_t)(o->n_contexts * o->n_lanes + 2 * o->n_chunks);
    if (lf_round_bench_open(&bench, m, o, err) == LF_OK &&
        lf_round_report_open(&report, o, &bench, err) == LF_OK) {
        if (measure_memory(&bench, o, &report, err) == LF_OK &&
            measure_all(&bench, o, &report, err) == LF_OK)
            (void)!lf_round_report_end(&report, &bench, rounds, err);
        else
            lf_report_close(&report);
    }
    lf_round_bench_close(&bench);
    return err->status;
}

enum lf_status lf_bench_rounds(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_engine_options options = o->engine;
    struct lf_session session = {.text_optional = true};
    struct lf_target *target = NULL;
    uint64_t context = greatest(o->contexts, o->n_contexts);
    LF_TRY(check(o, err));
    options.context = context > options.context ? context : options.context;
    options.parallel = (uint32_t)greatest(o->lanes, o->n_lanes);
    options.chunk_rows = (uint32_t)greatest(o->chunks, o->n_chunks);
    options.dummy_shared = options.dummy_weights;
    if (lf_session_plan(&session, o->model, &options, err) == LF_OK && !session.place.cuda)
        lf_fail(err, LF_E_ABSENT, "bench layers: rounds are timed on a CUDA device, found none");
    if (err->status == LF_OK && lf_session_load(&session, options.isa, &target, err) == LF_OK)
        (void)!measure((struct lf_v41 *)target, o, err);
    if (target)
        target->ops->close(target);
    lf_session_close(&session);
    return err->status;
}
