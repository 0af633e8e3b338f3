#include "contract/contract.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "contract/controls.h"
#include "contract/limits.h"

enum { JOBS_MAX = 64, GATES_LIMIT_S = 600 };

// A child's work: the gates of a record, or one of its controls.
struct task {
    struct lf_record_result *of;
    const struct lf_contract_options *options;
    const struct lf_entry *entry;
    uint32_t control; // its place, or GATES
};
enum { GATES = UINT32_MAX };

struct lf_contract_options lf_contract_defaults(void) {
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    return (struct lf_contract_options){
        .gates = LF_GATES_ALL, .limits = true, .sets = lf_contract_sets(),
        .seed = LF_CONTRACT_SEED, .jobs = all > 0 && all < JOBS_MAX ? (uint32_t)all : 1,
        .effort = LF_EFFORT_FULL, .gates_limit_s = GATES_LIMIT_S,
        .control_limit_s = LF_CONTROL_LIMIT_S, .out = stdout};
}

const char *lf_contract_backend(const struct lf_contract_options *options) {
    return options->sets >> LF_SET_CUDA & 1 ? "cuda" : "cpu";
}

static bool is_selected(const struct lf_contract_options *options, const char *name) {
    for (size_t i = 0; i < options->n_only; i++)
        if (!strncmp(name, options->only[i], strlen(options->only[i])) ||
            !fnmatch(options->only[i], name, 0))
            return true;
    return options->n_only == 0;
}

static enum lf_status select_records(struct lf_contract_result *result,
                                     const struct lf_contract_table *table,
                                     const struct lf_contract_options *options,
                                     struct lf_error *err) {
    uint32_t named = 0;
    result->record = calloc(table->records + 1, sizeof *result->record);
    if (!result->record)
        return lf_fail(err, LF_E_MEM, "out of memory for the records");
    for (uint32_t i = 0; i < table->records; i++)
        if (is_selected(options, table->record[i]->name))
            result->record[result->records++].record = table->record[i];
    for (uint32_t i = 0; i < table->entries; i++)
        named += is_selected(options, table->entry[i].name);
    if (!result->records && !named)
        return lf_fail(err, LF_E_USAGE, "--only %s: selects no kernel",
                       options->n_only ? options->only[0] : "(an empty table)");
    return LF_OK;
}

static bool has_record(const struct lf_contract_table *table, const char *name) {
    for (uint32_t i = 0; i < table->records; i++)
        if (!strcmp(table->record[i]->name, name))
            return true;
    return false;
}

// Entries without a record and records without an entry, which are not run either.
static void check_complete(struct lf_contract_result *result, const struct lf_contract_table *table,
                           const struct lf_contract_options *options) {
    for (uint32_t i = 0; i < table->entries; i++)
        if (is_selected(options, table->entry[i].name) &&
            !has_record(table, table->entry[i].name)) {
            fprintf(options->out, "UNREGISTERED %s: no record\n", table->entry[i].name);
            result->limit_problems++;
        }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < result->records; i++) {
        if (lf_contract_entry(table, result->record[i].record->name)) {
            result->record[kept++] = result->record[i];
            continue;
        }
        fprintf(options->out, "UNREGISTERED %s: not in the launch table\n",
                result->record[i].record->name);
        result->limit_problems++;
    }
    result->records = kept;
}

static enum lf_status list_controls(struct lf_record_result *r,
                                    const struct lf_contract_options *options,
                                    struct lf_error *err) {
    const struct lf_record *record = r->record;
    r->control = calloc(record->n_controls + 1, sizeof *r->control);
    if (!r->control)
        return lf_fail(err, LF_E_MEM, "out of memory for the controls");
    for (uint32_t i = 0; options->faults && i < record->n_controls; i++) {
        const struct lf_control *control = &record->controls[i];
        bool here = !control->sets || (control->sets & options->sets);
        if (here && !(control->red_in & ~options->gates))
            r->control[r->controls++].control = control;
    }
    return LF_OK;
}

static void work(void *ctx, struct lf_outcome *outcome) {
    struct task *task = ctx;
    struct lf_record_result *r = task->of;
    const struct lf_contract_options *options = task->options;
    if (task->control == GATES) {
        struct lf_trial trial = {.record = r->record, .entry = task->entry, .all = r->shapes.shape,
                                 .shapes = r->shapes.n, .sets = options->sets,
                                 .plain_memory = options->plain_memory, .seed = options->seed,
                                 .effort = options->effort,
                                 .outcome = outcome};
        lf_trial_run(&trial, options->gates);
        return;
    }
    struct lf_control_run run = {.record = r->record, .entry = task->entry,
                                 .control = r->control[task->control].control,
                                 .faults = options->faults, .all = r->shapes.shape,
                                 .shapes = r->shapes.n, .sets = options->sets,
                                 .plain_memory = options->plain_memory, .seed = options->seed,
                                 .effort = options->effort};
    lf_control_work(&run, outcome);
}

static void finish(struct task *task, struct lf_child *child) {
    struct lf_record_result *r = task->of;
    if (task->control == GATES) {
        r->end = lf_child_take(child, &r->outcome);
        r->passed = r->end == LF_CHILD_DONE && !r->outcome.failed;
        return;
    }
    struct lf_control_result *c = &r->control[task->control];
    c->end = lf_child_take(child, &c->outcome);
    c->red = c->end == LF_CHILD_DONE && !(c->control->red_in & ~c->outcome.failed);
    r->red += c->red;
}

static bool is_done(const struct task *task, const bool *done, uint32_t tasks,
                    const struct lf_record_result *r) {
    for (uint32_t i = 0; i < tasks; i++)
        if (task[i].of == r && !done[i])
            return false;
    return true;
}

// Prints records in their order as soon as all that belongs to them is in.
static void print_ready(struct lf_contract_result *result,
                        const struct lf_contract_options *options, const struct task *task,
                        const bool *done, uint32_t tasks) {
    for (uint32_t i = 0; i < result->records; i++) {
        struct lf_record_result *r = &result->record[i];
        if (r->done)
            continue;
        if (!is_done(task, done, tasks, r))
            return;
        r->done = true;
        lf_contract_print_record(r, options);
    }
}

static enum lf_status run_tasks(struct lf_contract_result *result,
                                const struct lf_contract_options *options, struct task *task,
                                uint32_t tasks, struct lf_error *err) {
    struct lf_child child[JOBS_MAX] = {0};
    uint32_t holds[JOBS_MAX], next = 0, running = 0;
    uint32_t jobs = options->jobs < JOBS_MAX ? options->jobs : JOBS_MAX;
    bool *done = calloc(tasks + 1, sizeof *done);
    if (!done)
        return lf_fail(err, LF_E_MEM, "out of memory for the tasks");
    while (running || (next < tasks && err->status == LF_OK)) {
        for (uint32_t j = 0; j < jobs && next < tasks && err->status == LF_OK; j++) {
            if (child[j].pid)
                continue;
            uint32_t limit = task[next].control == GATES ? options->gates_limit_s
                                                         : options->control_limit_s;
            if (lf_child_fork(&child[j], limit, work, &task[next], err) == LF_OK)
                holds[j] = next++, running++;
        }
        if (!running)
            break;
        uint32_t j = lf_child_next(child, jobs);
        finish(&task[holds[j]], &child[j]);
        done[holds[j]] = true;
        running--;
        print_ready(result, options, task, done, tasks);
    }
    free(done);
    return err->status;
}

static enum lf_status run_gates(struct lf_contract_result *result,
                                const struct lf_contract_table *table,
                                const struct lf_contract_options *options, struct lf_error *err) {
    uint32_t tasks = 0, room = 0;
    for (uint32_t i = 0; i < result->records; i++) {
        LF_TRY(list_controls(&result->record[i], options, err));
        room += 1 + result->record[i].controls;
    }
    struct task *task = calloc(room + 1, sizeof *task);
    if (!task)
        return lf_fail(err, LF_E_MEM, "out of memory for the tasks");
    for (uint32_t i = 0; i < result->records; i++) {
        struct lf_record_result *r = &result->record[i];
        struct task one = {.of = r, .options = options, .control = GATES,
                           .entry = lf_contract_entry(table, r->record->name)};
        task[tasks++] = one;
        for (one.control = 0; one.control < r->controls; one.control++)
            task[tasks++] = one;
    }
    run_tasks(result, options, task, tasks, err);
    free(task);
    return err->status;
}

static void count(struct lf_contract_result *result) {
    for (uint32_t i = 0; i < result->records; i++) {
        const struct lf_record_result *r = &result->record[i];
        result->passed += r->passed && !r->outcome.findings;
        result->failed += !r->passed;
        result->findings += (uint32_t)__builtin_popcount(r->outcome.findings);
        result->controls += r->controls;
        result->red += r->red;
    }
}

static void run_limits(struct lf_contract_result *result, const struct lf_contract_table *table,
                       const struct lf_contract_options *options,
                       const struct lf_configs *configs) {
    struct lf_buffer lines = {0};
    check_complete(result, table, options);
    for (uint32_t i = 0; i < result->records; i++) {
        const struct lf_record *record = result->record[i].record;
        result->limit_problems += lf_limits_check(
            record, lf_contract_entry(table, record->name), options->sets, configs, &lines);
    }
    fputs(lines.len ? lines.data : "", options->out);
    lf_buffer_free(&lines);
}

static void probe_device(void *ctx, struct lf_outcome *outcome) {
    struct lf_trial_cuda *device;
    struct lf_error err = LF_ERROR_INIT;
    (void)ctx;
    outcome->failed = (uint32_t)lf_trial_cuda_open(&device, &err);
    snprintf(outcome->text, sizeof outcome->text, "%s", err.text);
    lf_trial_cuda_close(device);
}

// A child opens the device: this process could not fork any more.
static enum lf_status check_device(const struct lf_contract_options *options,
                                   struct lf_error *err) {
    struct lf_child child;
    struct lf_outcome outcome;
    if (!(options->gates || options->limits) || !(options->sets >> LF_SET_CUDA & 1))
        return LF_OK;
    LF_TRY(lf_child_fork(&child, options->control_limit_s, probe_device, NULL, err));
    if (lf_child_take(&child, &outcome) != LF_CHILD_DONE)
        return lf_fail(err, LF_E_DEVICE, "opening the device: %s", outcome.text);
    return outcome.failed ? lf_fail(err, (enum lf_status)outcome.failed, "%s", outcome.text)
                          : LF_OK;
}

static void list_shapes(struct lf_record_result *r, const struct lf_configs *configs,
                        uint64_t row_most) {
    struct lf_shapes *shapes = &r->shapes;
    uint32_t kept = 0;
    lf_shapes_of(shapes, r->record, configs);
    for (uint32_t i = 0; row_most && i < shapes->n; i++)
        if (lf_shape_work(r->record, &shapes->shape[i]) <= row_most)
            shapes->shape[kept++] = shapes->shape[i];
    shapes->n = row_most ? kept : shapes->n;
}

enum lf_status lf_contract_run(const struct lf_contract_table *table,
                               const struct lf_contract_options *options,
                               struct lf_contract_result *result, struct lf_error *err) {
    *result = (struct lf_contract_result){0};
    struct lf_configs *configs = calloc(1, sizeof *configs);
    if (!configs)
        return lf_fail(err, LF_E_MEM, "out of memory for the configurations");
    double start = lf_clock_s();
    if (lf_configs_read(configs, err) == LF_OK &&
        select_records(result, table, options, err) == LF_OK &&
        check_device(options, err) == LF_OK) {
        if (options->limits)
            run_limits(result, table, options, configs);
        result->limits_ms = (lf_clock_s() - start) * 1e3;
        for (uint32_t i = 0; i < result->records; i++)
            list_shapes(&result->record[i], configs, options->effort.row_most);
        start = lf_clock_s();
        if (options->gates)
            run_gates(result, table, options, err);
        result->gates_ms = (lf_clock_s() - start) * 1e3;
    }
    free(configs);
    if (options->gates)
        count(result);
    if (err->status == LF_OK)
        lf_contract_print_summary(result, options);
    return err->status;
}

bool lf_contract_passed(const struct lf_contract_result *result) {
    return !result->failed && result->red == result->controls && !result->limit_problems;
}

void lf_contract_free(struct lf_contract_result *result) {
    for (uint32_t i = 0; result->record && i < result->records; i++) {
        lf_shapes_free(&result->record[i].shapes);
        free(result->record[i].control);
    }
    free(result->record);
    *result = (struct lf_contract_result){0};
}

enum lf_status lf_contract_list(const struct lf_contract_table *table,
                                const struct lf_contract_options *options, struct lf_error *err) {
    struct lf_contract_result result = {0};
    LF_TRY(select_records(&result, table, options, err));
    for (uint32_t i = 0; i < result.records; i++) {
        const struct lf_record *record = result.record[i].record;
        fprintf(options->out, "%s (%s)\n  %s\n", record->name, record->file, record->contract);
        for (uint32_t c = 0; c < record->n_controls; c++) {
            const struct lf_control *control = &record->controls[c];
            if (!control->sets || control->sets & options->sets)
                fprintf(options->out, "  control %u, red in gates %#x: %s\n", control->number,
                        control->red_in, control->fault);
        }
    }
    lf_contract_free(&result);
    return LF_OK;
}
