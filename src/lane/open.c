// The one call that opens a model for an embedder, and what an open engine tells of it.
#include <stdlib.h>
#include "device/bind.h"
#include "lane/session.h"
#include "lane/stream.h"
#include "model/model.h"

enum { PARALLEL_MAX = 64, CHUNK_ROWS_MAX = 4096 };

static enum lf_status check_options(const struct lf_engine_options *o, struct lf_error *err) {
    if (o->parallel > PARALLEL_MAX && o->parallel != LF_PARALLEL_AUTO)
        return lf_fail(err, LF_E_USAGE, "parallel %u: expected at most %d", o->parallel,
                       PARALLEL_MAX);
    if (o->threads > LF_THREADS_MAX)
        return lf_fail(err, LF_E_USAGE, "threads %u: expected at most %d", o->threads,
                       LF_THREADS_MAX);
    if (o->pin != LF_PIN_AUTO && o->pin != LF_PIN_ON && o->pin != LF_PIN_OFF)
        return lf_fail(err, LF_E_USAGE, "pin %d: expected one of enum lf_pin", o->pin);
    if (o->chunk_rows && (o->chunk_rows < LF_CHUNK_ROWS_MIN || o->chunk_rows > CHUNK_ROWS_MAX))
        return lf_fail(err, LF_E_USAGE, "chunk_rows %u: expected %d to %d", o->chunk_rows,
                       LF_CHUNK_ROWS_MIN, CHUNK_ROWS_MAX);
    return LF_OK;
}

static void describe(struct lf_engine *e, struct lf_session *s) {
    const struct lf_generation *g = &s->generation;
    e->about.name = lf_session_name(s);
    e->about.folder = s->folder;
    e->about.fingerprint = e->target->fingerprint;
    e->about.device = s->place.name;
    e->about.sampling = (struct lf_sampling){.temperature = g->temperature, .top_p = g->top_p,
                                             .min_p = g->min_p, .top_k = g->top_k};
    e->about.eos = &s->topology->eos_id;
    e->about.n_eos = 1;
    e->about.bos = s->topology->bos_id;
    e->about.think_end = (uint32_t)s->controls.id[LF_CONTROL_THINK_END];
}

static enum lf_status start(struct lf_engine **out, struct lf_session *s,
                            const struct lf_engine_options *options, struct lf_error *err) {
    struct lf_engine_options planned = *options;
    struct lf_target *target;
    LF_TRY(lf_session_load(s, options->isa, &target, err));
    planned.prompt_cache_bytes = s->memory.ask.cache_bytes;
    struct lf_machine machine = {.free_bytes = lf_memory_free, .free_ctx = &s->memory};
    if (lf_memory_check(&s->memory, target, err) == LF_OK &&
        lf_engine_start(out, target, &planned, &machine, err) == LF_OK)
        return LF_OK;
    target->ops->close(target);
    return err->status;
}

static enum lf_status open_session(struct lf_engine **out, struct lf_session *s, const char *model,
                                   const struct lf_engine_options *options, struct lf_error *err) {
    LF_TRY(lf_session_plan(s, model, options, err));
    enum lf_status status = start(out, s, options, err);
    // The engine's thread has it from here on; the embedder's own stays as it was.
    lf_bind_local(s->memory.placement.node_mask);
    return status;
}

enum lf_status lf_engine_open(struct lf_engine **out, const char *model,
                              const struct lf_engine_options *options, struct lf_error *err) {
    static const struct lf_engine_options defaults = LF_ENGINE_OPTIONS_INIT;
    *out = NULL;
    if (!options)
        options = &defaults;
    LF_TRY(check_options(options, err));
    struct lf_session *s = calloc(1, sizeof *s);
    if (!s)
        return lf_fail(err, LF_E_MEM, "out of memory to open a model");
    if (open_session(out, s, model, options, err) != LF_OK) {
        lf_session_close(s);
        free(s);
        return err->status;
    }
    (*out)->session = s;
    describe(*out, s);
    return LF_OK;
}

const struct lf_session *lf_engine_session(const struct lf_engine *e) {
    return e->session;
}

void lf_engine_memory_read(const struct lf_engine *e, struct lf_memory_report *out) {
    if (e->session)
        lf_memory_report(out, &e->session->memory, e->target);
    else
        *out = (struct lf_memory_report){0};
}
