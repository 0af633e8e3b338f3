#include "contract/launch.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

enum { SCRATCH_BYTE = 0xFF, SCRATCH_TAIL = 4096 };

static size_t bytes_of(const struct lf_operand *o, uint32_t rows) {
    size_t each = o->role == LF_POINTER ? sizeof(void *) : lf_type_bytes(o->type);
    return rows && o->n ? ((rows - 1) * lf_operand_pitch(o) + o->n) * each : 0;
}

void *lf_call_at(const struct lf_call *call, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_launch *launch = (const struct lf_launch *)call;
    const struct lf_operand *o = &launch->problem->operand[operand];
    size_t pitch = o->role == LF_WEIGHT ? 0 : lf_operand_pitch(o);
    return (uint8_t *)call->data[operand] + (row * pitch + column) * lf_type_bytes(o->type);
}

static void fill_hostile(const struct lf_operand *o, uint32_t kind, void *data) {
    if (o->type == LF_F32)
        lf_check_fill_hostile_f32(kind, data, o->n);
    else if (o->type == LF_BF16)
        lf_check_fill_hostile(kind, data, o->n);
    else
        memset(data, kind % 2 ? 0x7F : 0xFF, o->n * lf_type_bytes(o->type));
}

// Copies a problem's row to its place, or what no other row may feel.
static void place_row(struct lf_launch *launch, uint32_t operand, uint32_t place) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    size_t row_bytes = o->n * lf_type_bytes(o->type);
    uint32_t source = launch->source[place];
    void *to = lf_call_at(&launch->call, operand, place, 0);
    if (source == LF_NO_ROW && o->role != LF_RULE)
        fill_hostile(o, place, to);
    else
        memcpy(to, launch->problem->row[operand] +
                       (source == LF_NO_ROW ? place % launch->problem->rows : source) * row_bytes,
               row_bytes);
}

static void open_operand(struct lf_launch *launch, uint32_t operand) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    struct lf_layout layout = launch->layout;
    size_t bytes = bytes_of(o, launch->call.rows);
    launch->buffer[operand] =
        lf_check_open_at(lf_operand_place(launch->call.trial, o, layout), bytes);
    launch->call.data[operand] = launch->buffer[operand].data;
    for (uint32_t row = 0; row < launch->call.rows; row++) {
        if (o->role == LF_OUT)
            memset(lf_call_at(&launch->call, operand, row, 0), layout.pattern,
                   o->n * lf_type_bytes(o->type));
        else if (o->role != LF_POINTER)
            place_row(launch, operand, row);
    }
}

struct lf_launch *lf_launch_open(struct lf_problem *p, uint32_t rows, const uint32_t *source,
                                 struct lf_layout layout) {
    struct lf_check_place place = {.space = p->trial->space, .align = 64};
    struct lf_check_buffer memory = lf_check_open_at(place, sizeof(struct lf_launch));
    struct lf_launch *launch = memory.data;
    *launch = (struct lf_launch){.problem = p, .layout = layout, .memory = memory};
    launch->source = malloc((rows + 1) * sizeof *launch->source);
    LF_ASSERT(launch->source);
    for (uint32_t row = 0; row < rows; row++)
        launch->source[row] = source ? source[row] : row % p->rows;
    launch->call = (struct lf_call){.trial = p->trial, .shape = p->shape, .rows = rows,
                                    .source = launch->source};
    for (uint32_t i = 0; i < p->trial->record->operands; i++) {
        const struct lf_operand *o = &p->operand[i];
        if (o->n && o->role == LF_WEIGHT)
            launch->call.data[i] = p->weight[i].data;
        else if (o->n)
            open_operand(launch, i);
    }
    for (uint32_t i = 0; layout.shared && i < p->trial->record->operands; i++)
        if (p->operand[i].n && p->operand[i].may_be)
            launch->call.data[i] = launch->call.data[p->operand[i].may_be - 1];
    lf_launch_bind(launch);
    return launch;
}

void lf_launch_close(struct lf_launch *launch) {
    for (uint32_t i = 0; i < LF_OPERANDS_MAX; i++) {
        lf_check_close(&launch->buffer[i]);
        free(launch->before[i]);
    }
    free(launch->ref);
    free(launch->error);
    free(launch->source);
    if (launch->owns_problem)
        lf_problem_close(launch->problem);
    struct lf_check_buffer memory = launch->memory;
    lf_check_close(&memory);
}

void lf_launch_bind(struct lf_launch *launch) {
    memcpy(launch->call.args, launch->call.shape->args, LF_ARGS_BYTES);
    launch->call.trial->record->bind(&launch->call, launch->call.args);
}

static void poison_scratch(struct lf_pool *pool, size_t bytes) {
    for (uint32_t worker = 0; bytes && worker < lf_pool_threads(pool); worker++) {
        uint8_t *scratch = lf_pool_scratch(pool, worker, bytes + SCRATCH_TAIL);
        memset(scratch, SCRATCH_BYTE, bytes);
        memset(scratch + bytes, LF_CHECK_GUARD_BYTE, SCRATCH_TAIL);
    }
}

static void check_scratch(struct lf_trial *trial, struct lf_pool *pool, size_t bytes) {
    for (uint32_t worker = 0; bytes && worker < lf_pool_threads(pool); worker++) {
        const uint8_t *tail = lf_pool_scratch(pool, worker, bytes + SCRATCH_TAIL);
        for (size_t i = bytes; i < bytes + SCRATCH_TAIL; i++)
            if (tail[i] != LF_CHECK_GUARD_BYTE) {
                lf_trial_fail(trial, "byte %zu of scratch was written; %zu are declared", i, bytes);
                return;
            }
    }
}

// The pool of the present number of threads, with room for a guard behind the declared scratch.
static struct lf_pool *pool_of(struct lf_trial *trial, size_t scratch) {
    struct lf_pool **pool = &trial->pool[trial->threads];
    struct lf_error err = LF_ERROR_INIT;
    if (trial->scratch_bytes != scratch)
        for (uint32_t i = 0; i < LF_TRIAL_THREADS; i++) {
            lf_pool_close(trial->pool[i]);
            trial->pool[i] = NULL;
        }
    trial->scratch_bytes = scratch;
    if (!*pool) {
        size_t bytes = scratch ? scratch + SCRATCH_TAIL : 0;
        LF_ASSERT(lf_pool_open(pool, trial->thread_count[trial->threads], bytes, &err) == LF_OK);
    }
    return *pool;
}

static void keep_before(struct lf_launch *launch) {
    for (uint32_t i = 0; i < launch->call.trial->record->operands; i++) {
        const struct lf_check_buffer *buffer = &launch->buffer[i];
        if (!buffer->map || launch->before[i])
            continue;
        launch->before[i] = malloc(buffer->bytes + 1);
        LF_ASSERT(launch->before[i]);
        memcpy(launch->before[i], buffer->data, buffer->bytes);
    }
}

static void run_on_cpu(struct lf_launch *launch) {
    struct lf_trial *trial = launch->call.trial;
    size_t scratch = trial->record->scratch ? trial->record->scratch(launch->call.shape->args) : 0;
    struct lf_pool *pool = pool_of(trial, scratch);
    poison_scratch(pool, scratch);
    trial->entry->call(trial->entry->fn[trial->set], &(struct lf_device){.pool = pool},
                       launch->call.args);
    if (trial->gate == LF_GATE_MEMORY)
        check_scratch(trial, pool, scratch);
}

// Weights that a device has in another order are turned around a launch, so that gates know one.
static void turn_weights(struct lf_launch *launch, bool back) {
    const struct lf_record *record = launch->call.trial->record;
    if (record->cuda_turn)
        record->cuda_turn(launch->call.args, back);
}

static void run_on_cuda(struct lf_launch *launch) {
    struct lf_trial *trial = launch->call.trial;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = trial->device->cuda;
    if (trial->gate == LF_GATE_ROWS)
        lf_trial_cuda_disturb(trial->device);
    turn_weights(launch, false);
    trial->entry->call(trial->entry->fn[LF_SET_CUDA], &(struct lf_device){.cuda = cuda},
                       launch->call.args);
    enum lf_status status = lf_cuda_wait(cuda, &err);
    turn_weights(launch, true);
    if (status != LF_OK)
        lf_trial_fail(trial, "%u rows: %s", launch->call.rows, err.text);
}

void lf_launch_run(struct lf_launch *launch) {
    if (launch->call.trial->gate == LF_GATE_MEMORY)
        keep_before(launch);
    if (launch->call.trial->set == LF_SET_CUDA)
        run_on_cuda(launch);
    else
        run_on_cpu(launch);
}

static const char *changed_input(const struct lf_launch *launch, uint32_t operand) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    if (launch->problem->weight[operand].map)
        return lf_hash(launch->call.data[operand], launch->problem->weight[operand].bytes) ==
                       launch->problem->weight_hash[operand]
                   ? NULL
                   : "the weight was changed";
    if (lf_operand_is_result(o) || !launch->before[operand])
        return NULL;
    return memcmp(launch->before[operand], launch->buffer[operand].data,
                  launch->buffer[operand].bytes)
               ? "the input was changed"
               : NULL;
}

static bool gaps_intact(const struct lf_launch *launch, uint32_t operand) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    size_t gap = (lf_operand_pitch(o) - o->n) * lf_type_bytes(o->type);
    for (uint32_t row = 0; gap && row + 1 < launch->call.rows; row++) {
        const uint8_t *at = lf_call_at(&launch->call, operand, row, o->n);
        for (size_t i = 0; i < gap; i++)
            if (at[i] != launch->buffer[operand].guard)
                return false;
    }
    return true;
}

void lf_launch_check_memory(struct lf_launch *launch) {
    struct lf_trial *trial = launch->call.trial;
    for (uint32_t i = 0; i < trial->record->operands; i++) {
        const struct lf_operand *o = &launch->problem->operand[i];
        const struct lf_check_buffer *buffer =
            o->role == LF_WEIGHT ? &launch->problem->weight[i] : &launch->buffer[i];
        ptrdiff_t at = 0;
        if (!buffer->map)
            continue;
        if (!lf_check_intact(buffer, &at))
            lf_trial_fail(trial, "%s, %u rows: guard byte %td %s was written", o->name,
                          launch->call.rows, at < 0 ? -at : at - (ptrdiff_t)buffer->bytes,
                          at < 0 ? "before the start" : "past the end");
        const char *changed = changed_input(launch, i);
        if (changed)
            lf_trial_fail(trial, "%s, %u rows: %s", o->name, launch->call.rows, changed);
        if (o->role != LF_WEIGHT && o->role != LF_POINTER && !gaps_intact(launch, i))
            lf_trial_fail(trial, "%s, %u rows: the gap between rows was written", o->name,
                          launch->call.rows);
    }
}

struct lf_call *lf_call_open(struct lf_trial *trial, const struct lf_shape *shape, uint32_t rows,
                             enum lf_check_style style) {
    struct lf_problem *problem = lf_problem_open(trial, shape, rows ? rows : 1, style);
    struct lf_launch *launch = lf_launch_open(problem, rows, NULL, LF_LAYOUT_PLAIN);
    launch->owns_problem = true;
    return &launch->call;
}

void lf_call_close(struct lf_call *call) {
    lf_launch_close((struct lf_launch *)call);
}

void lf_call_run(struct lf_call *call) {
    lf_launch_bind((struct lf_launch *)call);
    lf_launch_run((struct lf_launch *)call);
}

void lf_call_judge(struct lf_call *call) {
    struct lf_launch *launch = (struct lf_launch *)call;
    lf_launch_bind(launch);
    lf_launch_reference(launch);
    lf_launch_run(launch);
    lf_launch_judge(launch);
}
