// Gate 1's comparison: an element, its float64 value, its limit.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/number.h"
#include "contract/launch.h"
#include "kernel/act_quant/act_quant.h"

static uint64_t bits_at(const struct lf_call *call, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_operand *o = &((const struct lf_launch *)call)->problem->operand[operand];
    uint64_t bits = 0;
    memcpy(&bits, lf_call_at(call, operand, row, column), lf_type_bytes(o->type));
    return bits;
}

static double value_of(enum lf_type type, uint64_t bits) {
    if (type == LF_BF16)
        return (double)lf_bf16_to_f32((uint16_t)bits);
    if (type == LF_F32)
        return (double)lf_f32_from_bits((uint32_t)bits);
    return (double)bits;
}

static bool is_covered(const struct lf_call *call, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_record *record = call->trial->record;
    for (uint32_t i = 0; i < record->n_findings; i++)
        if (record->findings[i].covers(call->args, operand, row, column)) {
            call->trial->outcome->findings |= 1u << i;
            return true;
        }
    return false;
}

static void fail_element(struct lf_call *call, uint32_t operand, uint32_t row, size_t column,
                         const char *why) {
    const struct lf_operand *o = &((struct lf_launch *)call)->problem->operand[operand];
    uint64_t bits = bits_at(call, operand, row, column);
    if (is_covered(call, operand, row, column))
        return;
    lf_trial_fail(call->trial, "%s row %u of %u column %zu: got %llx (%.9g), %s", o->name, row,
                  call->rows, column, (unsigned long long)bits, value_of(o->type, bits), why);
}

// Half a spacing of the output at a magnitude; integers and float32 are not rounded to here.
static double rounding(enum lf_type type, double magnitude) {
    return type == LF_BF16 ? lf_check_half_bf16(magnitude) : 0.0;
}

// A magnitude from which nearest rounding goes to infinity.
static double overflow_at(enum lf_type type) {
    return type == LF_BF16 ? 0x1.FFp127 : 0x1.FFFFFFp127;
}

static bool is_the_nan(enum lf_type type, uint64_t bits) {
    return bits == (type == LF_BF16 ? 0x7FC0u : 0x7FC00000u);
}

static void note_ratio(struct lf_call *call, uint32_t operand, uint32_t row, size_t column,
                       double error, double limit) {
    struct lf_outcome *outcome = call->trial->outcome;
    char place[96];
    call->trial->error_squares += error * error;
    call->trial->limit_squares += limit * limit;
    if (!(limit > 0.0) || error / limit <= outcome->worst || call->trial->gate != LF_GATE_BOUND)
        return;
    outcome->worst = error / limit;
    outcome->worst_error = error, outcome->worst_limit = limit;
    snprintf(outcome->worst_at, sizeof outcome->worst_at, "%s: %s row %u column %zu",
             lf_trial_place(call->trial, place, sizeof place),
             ((struct lf_launch *)call)->problem->operand[operand].name, row, column);
}

void lf_judge_element(struct lf_call *call, uint32_t operand, uint32_t row, size_t column,
                      double ref, double error) {
    enum lf_type type = ((struct lf_launch *)call)->problem->operand[operand].type;
    uint64_t bits = bits_at(call, operand, row, column);
    double out = value_of(type, bits);
    double limit = error < 0.0 ? 0.0 : error + rounding(type, fabs(ref) + error);
    bool right;
    if (isnan(ref))
        right = isnan(out) && is_the_nan(type, bits);
    else if (isinf(out))
        right = out == ref || (signbit(out) == signbit(ref) &&
                               fabs(ref) + fmax(error, 0.0) >= overflow_at(type));
    else if (error >= 0.0)
        right = fabs(out - ref) <= limit;
    else
        right = out == ref && (out != 0.0 || signbit(out) == signbit(ref));
    if (!right) {
        char why[160];
        snprintf(why, sizeof why, "float64 says %.17g, allowed %.3g off", ref, limit);
        fail_element(call, operand, row, column, why);
    } else if (isfinite(ref) && isfinite(out))
        note_ratio(call, operand, row, column, fabs(out - ref), limit);
}

void lf_expect_bits(struct lf_call *call, uint32_t operand, uint32_t row, size_t column,
                    uint64_t want, const char *why) {
    char text[200];
    snprintf(text, sizeof text, "expected %llx: %s", (unsigned long long)want, why);
    if (bits_at(call, operand, row, column) != want)
        fail_element(call, operand, row, column, text);
}

void lf_expect(struct lf_call *call, bool holds, uint32_t operand, uint32_t row, size_t column,
               const char *why) {
    if (!holds)
        fail_element(call, operand, row, column, why);
}

static size_t columns_of(const struct lf_launch *launch) {
    const struct lf_record *record = launch->call.trial->record;
    size_t columns = 0;
    if (record->columns)
        return record->columns(launch->call.args);
    for (uint32_t i = 0; i < record->operands; i++) {
        const struct lf_operand *o = &launch->problem->operand[i];
        columns += lf_operand_is_result(o) && !o->quantizes ? o->n : 0;
    }
    return columns;
}

void lf_launch_reference(struct lf_launch *launch) {
    const struct lf_record *record = launch->call.trial->record;
    launch->columns = columns_of(launch);
    size_t n = launch->columns * launch->call.rows + 1;
    free(launch->ref);
    free(launch->error);
    launch->ref = calloc(n, sizeof *launch->ref);
    launch->error = calloc(n, sizeof *launch->error);
    LF_ASSERT(launch->ref && launch->error);
    launch->call.trial->entry->reference(launch->call.args, launch->ref);
    const struct lf_own_sums *own = lf_trial_own_sums(launch->call.trial, launch->call.shape);
    if (own)
        own->bound(launch->call.args, launch->ref, launch->error);
    else if (record->bound)
        record->bound(launch->call.args, launch->ref, launch->error);
}

static void judge_operand(struct lf_launch *launch, uint32_t operand, size_t first) {
    struct lf_trial *trial = launch->call.trial;
    const struct lf_record *record = trial->record;
    for (uint32_t row = 0; row < launch->call.rows; row++)
        for (size_t c = 0; c < launch->problem->operand[operand].n; c++) {
            size_t at = row * launch->columns + first + c;
            if (lf_trial_failed(trial))
                return;
            if (!record->written || record->written(launch->call.args, operand, row, c))
                lf_judge_element(&launch->call, operand, row, c, launch->ref[at],
                                 record->bound ? launch->error[at] : -1.0);
        }
}

// Values of model.md 3.2 of what the launch itself stored.
static void judge_quantized(struct lf_launch *launch, uint32_t operand) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    double *want = calloc(o->n + 1, sizeof *want);
    LF_ASSERT(want);
    for (uint32_t row = 0; row < launch->call.rows && o->n; row++) {
        const uint16_t *x = lf_call_at(&launch->call, o->quantizes - 1, row, 0);
        lf_act_quant_f64(&(struct lf_act_quant_args){.format = LF_ACT_QA8, .rows = 1,
                                                     .dim = (uint32_t)o->n, .x = x}, want);
        for (size_t c = 0; c < o->n && !lf_trial_failed(launch->call.trial); c++)
            lf_judge_element(&launch->call, operand, row, c, want[c], -1.0);
    }
    free(want);
}

void lf_launch_judge(struct lf_launch *launch) {
    struct lf_trial *trial = launch->call.trial;
    if (trial->record->judge) {
        trial->record->judge(&launch->call, launch->ref);
        return;
    }
    size_t first = 0;
    for (uint32_t i = 0; i < trial->record->operands; i++)
        if (launch->problem->operand[i].quantizes) {
            judge_quantized(launch, i);
        } else if (lf_operand_is_result(&launch->problem->operand[i])) {
            judge_operand(launch, i, first);
            first += launch->problem->operand[i].n;
        }
    const struct lf_own_sums *own = lf_trial_own_sums(trial, launch->call.shape);
    if (own && !lf_trial_failed(trial))
        own->expect(&launch->call);
}
