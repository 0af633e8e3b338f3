#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/layer_kinds.h"
#include "bench/layer_report.h"
#include "bench/rounds.h"
#include "format/checkpoint.h"
#include "lane/session.h"

struct run {
    const struct lf_bench_options *o;
    struct lf_topology t; // of all layers
    struct lf_layer_kind kind[LF_KINDS];
    uint32_t n;
    struct lf_layer_part part[LF_KINDS + 1]; // [n] by kind, then the head
};

static enum lf_status read_kinds(struct run *run, struct lf_error *err) {
    struct lf_engine_options options = run->o->engine;
    struct lf_session session = {.text_optional = true};
    options.n_dummy_layers = 0;
    if (lf_session_open(&session, run->o->model, &options, err) == LF_OK)
        run->t = *session.topology;
    lf_session_close(&session);
    LF_TRY(err->status);
    if (run->o->engine.context > run->t.positions_max || run->o->rows >= run->o->engine.context)
        return lf_fail(err, LF_E_USAGE, "--context %llu: expected more than the %llu rows of a "
                                        "chunk, at most the model's %u",
                       (unsigned long long)run->o->engine.context,
                       (unsigned long long)run->o->rows, run->t.positions_max);
    run->n = lf_layer_kinds(&run->t, run->kind);
    for (uint32_t i = 0; i < run->n; i++) {
        lf_layer_kind_name(run->kind[i].kind, run->part[i].name, sizeof run->part[i].name);
        run->part[i].layers = run->kind[i].layers;
    }
    snprintf(run->part[run->n].name, sizeof run->part[run->n].name, "head");
    run->part[run->n].layers = 1;
    return LF_OK;
}

static enum lf_status check_layers(const struct run *run, struct lf_error *err) {
    for (uint32_t i = 0; i < run->o->n_layers; i++)
        if (run->o->layer[i] >= run->t.layers)
            return lf_fail(err, LF_E_USAGE, "--layers: the model has layers 0 to %u",
                           run->t.layers - 1);
    return LF_OK;
}

static uint32_t kind_at(const struct run *run, uint32_t layer) {
    uint32_t at = 0;
    while (run->kind[at].kind != lf_topology_kind(&run->t, layer))
        at++;
    return at;
}

// layer: ids in the whole model; number: in the model that is loaded.
static enum lf_status measure(struct run *run, struct lf_v41 *m, const uint32_t *layer,
                              const uint32_t *number, uint32_t n, struct lf_error *err) {
    struct lf_layer_sample *sample = calloc(2 * (size_t)n + 1, sizeof *sample);
    struct lf_layer_measure measure = {.o = run->o, .m = m, .layer = number, .n = n,
                                       .chunk = sample, .decode = sample + n};
    if (!sample)
        return lf_fail(err, LF_E_MEM, "out of memory for the samples");
    if (lf_layer_measure_run(&measure, err) == LF_OK) {
        for (uint32_t i = 0; i < n; i++) {
            struct lf_layer_part *part = &run->part[kind_at(run, layer[i])];
            if (part->measured)
                continue;
            part->measured = true;
            part->chunk = measure.chunk[i];
            part->decode = measure.decode[i];
        }
        run->part[run->n].measured = true;
        run->part[run->n].decode = measure.decode[n];
    }
    free(sample);
    return err->status;
}

// Loads a model, of made-up weights only the layers given, and measures those.
static enum lf_status run_set(struct run *run, const uint32_t *layer, uint32_t n,
                              struct lf_error *err) {
    struct lf_engine_options options = run->o->engine;
    struct lf_session session = {.text_optional = true};
    struct lf_target *target = NULL;
    uint32_t number[LF_LAYERS_MAX];
    for (uint32_t i = 0; i < n; i++)
        number[i] = options.dummy_weights ? i : layer[i];
    options.dummy_layer = layer;
    options.n_dummy_layers = options.dummy_weights ? n : 0;
    if (lf_session_plan(&session, run->o->model, &options, err) == LF_OK &&
        lf_session_load(&session, options.isa, &target, err) == LF_OK)
        (void)!measure(run, (struct lf_v41 *)target, layer, number, n, err);
    if (target)
        target->ops->close(target);
    lf_session_close(&session);
    return err->status;
}

static bool is_asked(const struct run *run, uint32_t kind) {
    for (uint32_t i = 0; i < run->o->n_layers; i++)
        if (kind_at(run, run->o->layer[i]) == kind)
            return true;
    return !run->o->n_layers;
}

static uint32_t list_needed(const struct run *run, const bool needed[LF_LAYERS_MAX],
                            uint32_t layer[LF_LAYERS_MAX]) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < run->t.layers; l++)
        if (needed[l])
            layer[n++] = l;
    return n;
}

// Made-up layers: a kind at a time, with those it reads, to fit in memory; a checkpoint: at once.
static enum lf_status run_kinds(struct run *run, struct lf_error *err) {
    bool all[LF_LAYERS_MAX] = {false};
    uint32_t layer[LF_LAYERS_MAX];
    for (uint32_t i = run->n; i-- > 0;) {
        bool needed[LF_LAYERS_MAX] = {false};
        if (run->part[i].measured || !is_asked(run, i))
            continue;
        lf_layer_needs(&run->t, run->kind[i].first, needed);
        lf_layer_needs(&run->t, run->kind[i].first, all);
        if (run->o->engine.dummy_weights)
            LF_TRY(run_set(run, layer, list_needed(run, needed, layer), err));
    }
    return run->o->engine.dummy_weights ? LF_OK
                                        : run_set(run, layer, list_needed(run, all, layer), err);
}

enum lf_status lf_bench_layers(const struct lf_bench_options *o, struct lf_error *err) {
    struct run *run;
    if (strcmp(o->engine.device, "cpu"))
        return lf_bench_rounds(o, err);
    run = calloc(1, sizeof *run);
    if (!run)
        return lf_fail(err, LF_E_MEM, "out of memory for the kinds of layers");
    run->o = o;
    if (read_kinds(run, err) == LF_OK && check_layers(run, err) == LF_OK &&
        run_kinds(run, err) == LF_OK)
        (void)!lf_layer_report(o, run->part, run->n + 1, err);
    free(run);
    return err->status;
}
