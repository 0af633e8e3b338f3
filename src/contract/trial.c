#include "contract/trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "contract/gates.h"
#include "contract/launch.h"

const char *lf_set_name(uint32_t set) {
    return set == LF_SET_CUDA ? "cuda" : lf_isa_name(set);
}

const struct lf_own_sums *lf_trial_own_sums(const struct lf_trial *trial,
                                            const struct lf_shape *shape) {
    const struct lf_own_sums *sums = trial->record->cuda_sums;
    return trial->device && sums && sums->apart(shape->args) ? sums : NULL;
}

bool lf_call_own_sums(const struct lf_call *call) {
    return lf_trial_own_sums(call->trial, call->shape) != NULL;
}

const char *lf_trial_place(const struct lf_trial *trial, char *text, size_t bytes) {
    int n = snprintf(text, bytes, "%s, %s, %s", trial->shape->name,
                     lf_check_style_name(trial->style), lf_set_name(trial->set));
    if (trial->set != LF_SET_CUDA && n > 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, ", %u threads", trial->thread_count[trial->threads]);
    return text;
}

bool lf_trial_failed(const struct lf_trial *trial) {
    return trial->outcome->failed & trial->gate;
}

static int gate_number(uint32_t gate) {
    return __builtin_ctz(gate) + 1;
}

void lf_trial_fail(struct lf_trial *trial, const char *format, ...) {
    struct lf_outcome *outcome = trial->outcome;
    char place[160];
    outcome->failed |= trial->gate;
    if (*outcome->text)
        return;
    int n = snprintf(outcome->text, sizeof outcome->text, "gate %d, %s: ",
                     gate_number(trial->gate), lf_trial_place(trial, place, sizeof place));
    va_list list;
    va_start(list, format);
    vsnprintf(outcome->text + n, sizeof outcome->text - (size_t)n, format, list);
    va_end(list);
    size_t used = strlen(outcome->text);
    snprintf(outcome->text + used, sizeof outcome->text - used, "; --seed %llu",
             (unsigned long long)trial->seed);
}

uint64_t lf_shape_work(const struct lf_record *record, const struct lf_shape *shape) {
    struct lf_operand operand[LF_OPERANDS_MAX] = {0};
    uint64_t work = shape->work;
    if (work)
        return work;
    record->describe(shape->args, operand);
    for (uint32_t i = 0; i < record->operands; i++)
        work += operand[i].role == LF_WEIGHT ? 0 : operand[i].n;
    return work ? work : 1;
}

static void set_threads(struct lf_trial *trial) {
    static const uint32_t count[LF_TRIAL_THREADS] = {1, 2, 3, 7, 0};
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 0; i < LF_TRIAL_THREADS; i++)
        trial->thread_count[i] = count[i] ? count[i] : all > 1 ? (uint32_t)all : 1;
}

static bool open_device(struct lf_trial *trial, uint32_t gates) {
    struct lf_error err = LF_ERROR_INIT;
    if (!(trial->sets >> LF_SET_CUDA & 1))
        return true;
    if (lf_trial_cuda_open(&trial->device, &err) != LF_OK) {
        trial->outcome->asked = trial->outcome->failed = gates;
        trial->outcome->lost = true;
        snprintf(trial->outcome->text, sizeof trial->outcome->text, "%s", err.text);
        return false;
    }
    trial->space = trial->plain_memory ? NULL : &trial->device->space;
    return true;
}

static void close_device(struct lf_trial *trial) {
    trial->outcome->lost = trial->device && lf_cuda_is_lost(trial->device->cuda);
    lf_trial_cuda_close(trial->device);
    trial->device = NULL;
    trial->space = NULL;
}

void lf_trial_run(struct lf_trial *trial, uint32_t gates) {
    static void (*const run[])(struct lf_trial *, const struct lf_shape *) = {
        lf_gate_bound, lf_gate_rows, lf_gate_memory, lf_gate_edges};
    double start = lf_clock_s();
    set_threads(trial);
    trial->outcome->shapes = trial->shapes;
    if (!open_device(trial, gates))
        return;
    for (uint32_t i = 0; i < sizeof run / sizeof *run; i++) {
        trial->gate = 1u << i;
        if (!(gates & trial->gate))
            continue;
        trial->outcome->asked |= trial->gate;
        for (uint32_t s = 0; s < trial->shapes && !lf_trial_failed(trial); s++) {
            trial->shape = &trial->all[s];
            run[i](trial, trial->shape);
        }
    }
    for (uint32_t i = 0; i < LF_TRIAL_THREADS; i++) {
        lf_pool_close(trial->pool[i]);
        trial->pool[i] = NULL;
    }
    close_device(trial);
    trial->outcome->ms = (lf_clock_s() - start) * 1e3;
}
