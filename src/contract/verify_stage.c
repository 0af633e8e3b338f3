#include "contract/verify_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernel/linear/linear_contract.h"
#include "kernel/linear/linear_groups.h"

// Kernels are called without a context: the stages that the present calls belong to.
static struct lf_stages *active;

const char *lf_stage_buffer(const struct lf_v41 *m, const void *data) {
    const struct lf_work *w = &m->work;
    const struct lf_draft_work *d = &w->draft;
    const struct {
        const void *at;
        const char *words;
    } buffer[] = {
        {w->x, "streams"}, {w->post, "mixes"}, {w->in, "sublayer input"},
        {w->in_q, "quantized input"}, {w->out, "sublayer output"}, {w->latent, "latent"},
        {w->latent_key, "index key"}, {w->raw, "pair values and gates"}, {w->k, "window key"},
        {w->qr, "query down"}, {w->qr_q, "quantized query down"}, {w->q, "query"},
        {w->o, "attention"}, {w->u, "output groups"}, {w->u_q, "quantized output groups"},
        {w->iq, "index query"}, {w->iw, "index head weights"}, {w->score, "index scores"},
        {w->selected, "selection"}, {w->route_logits, "router logits"},
        {w->route_id, "routes"}, {w->pair_row, "pairs"},
        {w->gate, "expert gates"}, {w->up, "expert hidden"},
        {w->down, "expert outputs"}, {w->shared, "shared output"},
        {w->engram_rows, "engram rows"}, {w->engram_kv, "engram keys and value"},
        {w->logits, "logits"}, {w->call_keys, "packed keys"},
        {d->taps_q, "quantized taps"}, {d->hidden, "draft hidden"}, {d->judged, "judged drafts"},
        {w->drawn, "drawn ids"}, {d->bias, "token bias"}, {d->confidence, "confidences"},
    };
    const char *words = "taps";
    uintptr_t nearest = 0, at = (uintptr_t)data;
    // Buffers do not overlap: the nearest start at or below is that of the buffer it lies in.
    for (size_t i = 0; i < sizeof buffer / sizeof *buffer; i++) {
        uintptr_t start = (uintptr_t)buffer[i].at;
        if (start <= at && start > nearest) {
            nearest = start;
            words = buffer[i].words;
        }
    }
    return words;
}

static struct lf_stage *stage_of(const char *kernel, const void *named) {
    char name[64];
    uint32_t before = 1;
    const char *buffer = lf_stage_buffer(active->m, named);
    for (uint32_t i = 0; i < active->n; i++) {
        size_t len = strcspn(active->stage[i].name, "#");
        snprintf(name, sizeof name, "%s: %s ", kernel, buffer);
        before += active->stage[i].kernel == kernel && strlen(name) == len &&
                  !strncmp(active->stage[i].name, name, len);
    }
    LF_ASSERT(active->n < LF_STAGES_MAX);
    struct lf_stage *stage = &active->stage[active->n++];
    *stage = (struct lf_stage){.kernel = kernel};
    snprintf(stage->name, sizeof stage->name, "%s: %s #%u", kernel, buffer, before);
    return stage;
}

static const struct lf_record *record_of(const char *kernel) {
    for (uint32_t i = 0; i < active->table.records; i++)
        if (!strcmp(active->table.record[i]->name, kernel))
            return active->table.record[i];
    return NULL;
}

// A record's launch over a call of the model: its operands are the model's own buffers.
struct in_place {
    struct lf_trial trial;
    struct lf_shape shape;
    struct lf_problem problem;
    struct lf_launch launch;
    struct lf_outcome outcome;
};

static struct in_place *place_open(const struct lf_record *record, const char *kernel,
                                   const void *args, size_t bytes) {
    struct in_place *p = aligned_alloc(64, (sizeof *p / 64 + 1) * 64);
    LF_ASSERT(p && bytes <= LF_ARGS_BYTES);
    memset(p, 0, sizeof *p);
    p->trial = (struct lf_trial){.record = record, .entry = lf_contract_entry(&active->table,
                                                                              kernel),
                                 .shape = &p->shape, .outcome = &p->outcome,
                                 .gate = LF_GATE_BOUND, .set = LF_ISA_AUTO};
    p->trial.thread_count[0] = lf_pool_threads(active->m->device.pool);
    memcpy(p->shape.args, args, bytes);
    memcpy(p->launch.call.args, args, bytes);
    p->problem.trial = &p->trial;
    p->problem.shape = &p->shape;
    record->describe(p->shape.args, p->problem.operand);
    p->launch.problem = &p->problem;
    p->launch.call.trial = &p->trial;
    p->launch.call.shape = &p->shape;
    return p;
}

static void place_close(struct in_place *p) {
    free(p->launch.ref);
    free(p->launch.error);
    free(p);
}

// The results among the operands, in their order, become what the call writes.
static void place_results(struct in_place *p, const struct lf_written *w) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->trial.record->operands; i++) {
        struct lf_operand *o = &p->problem.operand[i];
        if (o->role != LF_OUT && o->role != LF_INOUT)
            continue;
        if (at < w->n && w->columns[at])
            o->n = w->columns[at];
        if (!o->n)
            continue;
        // A result that this call does not want.
        if (at == w->n) {
            o->n = 0;
            continue;
        }
        if (w->pitch[at])
            o->pitch = w->pitch[at];
        p->launch.call.data[i] = w->data[at++];
    }
    p->launch.call.rows = p->problem.rows = w->rows;
}

static void run_judged(const struct lf_record *record, const char *kernel, const void *args,
                       size_t bytes, lf_any_fn *fn) {
    const struct lf_entry *entry = lf_contract_entry(&active->table, kernel);
    struct lf_written written;
    struct in_place *p = place_open(record, kernel, args, bytes);
    // Rows and sizes are known before; what is written in place must be read before it changes.
    lf_written_fill(&written, kernel, args);
    place_results(p, &written);
    free(written.gathered);
    lf_launch_reference(&p->launch);
    entry->call(fn, &active->m->device, args);
    lf_written_fill(&written, kernel, args);
    place_results(p, &written);
    struct lf_stage *stage = stage_of(kernel, written.named);
    snprintf(p->shape.name, sizeof p->shape.name, "%s", stage->name);
    lf_launch_judge(&p->launch);
    stage->judged = true;
    stage->outcome = p->outcome;
    free(written.gathered);
    place_close(p);
}

// The reference of a launch of linear, in parts of some outputs of one job.
struct sums {
    const struct lf_linear_args *args;
    double *ref, *magnitude; // the jobs' [rows][out], one after the other
};
enum { OUTPUTS_A_PART = 64 };

static uint32_t parts_of(const struct lf_linear_job *job) {
    return job->rows ? (job->w->out + OUTPUTS_A_PART - 1) / OUTPUTS_A_PART : 0;
}

static void sum_part(void *ctx, uint32_t part, uint32_t worker) {
    const struct sums *sums = ctx;
    const struct lf_linear_job *job = sums->args->job;
    size_t at = 0;
    (void)worker;
    for (; part >= parts_of(job); job++) {
        part -= parts_of(job);
        at += (size_t)job->rows * job->w->out;
    }
    uint32_t first = part * OUTPUTS_A_PART, end = first + OUTPUTS_A_PART;
    lf_linear_f64_job(job, first, end < job->w->out ? end : job->w->out, sums->ref + at,
                      sums->magnitude + at);
}

static void sums_open(struct sums *sums, const struct lf_linear_args *args) {
    size_t n = 1;
    uint32_t parts = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        n += (size_t)args->job[j].rows * args->job[j].w->out;
        parts += parts_of(&args->job[j]);
    }
    *sums = (struct sums){.args = args, .ref = malloc(n * sizeof(double)),
                          .magnitude = malloc(n * sizeof(double))};
    LF_ASSERT(sums->ref && sums->magnitude);
    lf_pool_run(active->m->device.pool, parts, sum_part, sums);
}

// One job of a launch, as the shape of the record that it is.
static void judge_job(struct lf_stage *stage, const struct lf_linear_job *job, const double *ref,
                      const double *magnitude) {
    struct lf_linear_map map = {.job = {*job}, .w = *job->w};
    struct lf_written written = {.rows = job->rows, .n = 1, .data = {job->y}};
    struct in_place *p = place_open(record_of("linear"), "linear", &map, sizeof map);
    size_t n = (size_t)job->rows * job->w->out;
    p->launch.ref = malloc(n * sizeof(double));
    p->launch.error = malloc(n * sizeof(double));
    LF_ASSERT(p->launch.ref && p->launch.error);
    memcpy(p->launch.ref, ref, n * sizeof(double));
    double depth = lf_linear_f64_depth(job->w);
    for (size_t i = 0; i < n; i++)
        p->launch.error[i] = lf_linear_error(depth, ref[i], magnitude[i]);
    p->launch.columns = job->w->out;
    place_results(p, &written);
    snprintf(p->shape.name, sizeof p->shape.name, "%s", stage->name);
    lf_launch_judge(&p->launch);
    if (!stage->outcome.failed && p->outcome.failed) {
        stage->outcome.failed = p->outcome.failed;
        memcpy(stage->outcome.text, p->outcome.text, sizeof stage->outcome.text);
    }
    if (p->outcome.worst > stage->outcome.worst) {
        stage->outcome.worst = p->outcome.worst;
        stage->outcome.worst_error = p->outcome.worst_error;
        stage->outcome.worst_limit = p->outcome.worst_limit;
    }
    place_close(p);
}

// Jobs point to jobs and weights, and all workers sum: a reading of every weight takes long.
static void run_linear(const struct lf_linear_args *args) {
    struct lf_linear_args known = lf_linear_known(args);
    struct sums sums;
    size_t at = 0;
    sums_open(&sums, &known);
    active->plain.linear(&active->m->device, args);
    struct lf_stage *stage = stage_of("linear", known.job[0].y);
    stage->judged = true;
    for (uint32_t j = 0; j < known.n_jobs; j++) {
        if (known.job[j].rows)
            judge_job(stage, &known.job[j], sums.ref + at, sums.magnitude + at);
        at += (size_t)known.job[j].rows * known.job[j].w->out;
    }
    free(sums.ref);
    free(sums.magnitude);
}

// Its reference has a lane a row; here rows share lanes, so what was stored is compared.
static void run_ring_store(const struct lf_ring_store_args *a) {
    active->plain.ring_store(&active->m->device, a);
    struct lf_stage *stage = stage_of("ring_store", a->x);
    stage->judged = true;
    for (uint32_t r = 0; r < a->rows; r++) {
        const struct lf_row *row = &a->row[r];
        const struct lf_span *span = a->span ? &a->span[row->lane] : NULL;
        if (row->depth < a->depth_min ||
            (span && span->pos0 + span->rows - 1 - row->position >= a->kept))
            continue;
        const uint8_t *ring = a->ring[row->lane] + row->position % a->ring_rows * a->ring_pitch;
        if (memcmp(ring, (const uint8_t *)a->x + (size_t)r * a->row_bytes, a->row_bytes)) {
            stage->outcome.failed = LF_GATE_BOUND;
            snprintf(stage->outcome.text, sizeof stage->outcome.text,
                     "%s row %u is not in its ring", stage->name, r);
        }
    }
}

static void judge_gathered(struct lf_stage *stage, const struct lf_row_gather_job *job,
                           const uint8_t *want) {
    for (uint32_t r = 0; r < job->rows; r++)
        if (memcmp((const uint8_t *)job->y + r * job->y_pitch, want + r * job->row_bytes,
                   job->row_bytes)) {
            stage->outcome.failed = LF_GATE_BOUND;
            snprintf(stage->outcome.text, sizeof stage->outcome.text,
                     "%s row %u is not the one its index names", stage->name, r);
        }
}

// Its jobs may move rows in place: what they ought to leave is read before.
static void run_row_gather(const struct lf_row_gather_args *a) {
    size_t n = 1, at = 0;
    for (uint32_t j = 0; j < a->n_jobs; j++)
        n += a->job[j].rows * a->job[j].row_bytes;
    uint8_t *want = malloc(n);
    LF_ASSERT(want);
    for (uint32_t j = 0; j < a->n_jobs; j++)
        for (uint32_t r = 0; r < a->job[j].rows; r++, at += a->job[j].row_bytes)
            memcpy(want + at,
                   (const uint8_t *)a->job[j].x +
                       (a->job[j].index ? a->job[j].index[r] : r) * a->job[j].x_pitch,
                   a->job[j].row_bytes);
    active->plain.row_gather(&active->m->device, a);
    struct lf_stage *stage = stage_of("row_gather", a->job[0].y);
    stage->judged = true;
    at = 0;
    for (uint32_t j = 0; j < a->n_jobs; j++) {
        judge_gathered(stage, &a->job[j], want + at);
        at += a->job[j].rows * a->job[j].row_bytes;
    }
    free(want);
}

static void run_kernel(const char *kernel, const void *args, size_t bytes, lf_any_fn *fn) {
    const struct lf_record *record = record_of(kernel);
    struct lf_written written;
    if (!strcmp(kernel, "linear")) {
        run_linear(args);
        return;
    }
    if (!strcmp(kernel, "ring_store")) {
        run_ring_store(args);
        return;
    }
    if (!strcmp(kernel, "row_gather")) {
        run_row_gather(args);
        return;
    }
    lf_written_fill(&written, kernel, args);
    free(written.gathered);
    if (record && written.n) {
        run_judged(record, kernel, args, bytes, fn);
        return;
    }
    lf_contract_entry(&active->table, kernel)->call(fn, &active->m->device, args);
    lf_written_fill(&written, kernel, args);
    (void)stage_of(kernel, written.named);
    free(written.gathered);
}

#define LF_KERNEL(name)                                                                            \
    static void judge_##name(struct lf_device *device, const struct lf_##name##_args *args) {      \
        (void)device;                                                                              \
        run_kernel(#name, args, sizeof *args, (lf_any_fn *)active->plain.name);                    \
    }
#include "kernel/registry.def"
#undef LF_KERNEL

void lf_stages_begin(struct lf_stages *stages, struct lf_v41 *m) {
    stages->m = m;
    stages->plain = m->k;
    stages->n = 0;
    lf_contract_table_fill(&stages->table, stages->entry);
    active = stages;
#define LF_KERNEL(name) m->k.name = judge_##name;
#include "kernel/registry.def"
#undef LF_KERNEL
}

void lf_stages_end(struct lf_stages *stages) {
    stages->m->k = stages->plain;
    active = NULL;
}
