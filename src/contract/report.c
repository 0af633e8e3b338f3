// The tool's lines and its JSON (kernel-contract.md 9).
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "contract/contract.h"

// "1,2" for the bits of some gates.
static const char *gates_text(uint32_t gates, char text[16]) {
    size_t n = 0;
    for (uint32_t g = 0; g < 4; g++) {
        if (!(gates >> g & 1))
            continue;
        if (n)
            text[n++] = ',';
        text[n++] = (char)('1' + g);
    }
    text[n] = 0;
    return text;
}

static void print_gates(const struct lf_record_result *r, FILE *out) {
    const struct lf_outcome *o = &r->outcome;
    if (o->asked & LF_GATE_BOUND)
        fprintf(out, " g1 %.3f%s", o->worst, o->failed & LF_GATE_BOUND ? " FAIL" : "");
    if (o->asked & LF_GATE_ROWS)
        fprintf(out, " g2 %llu/%llu", (unsigned long long)o->differing,
                (unsigned long long)o->compared);
    if (o->asked & LF_GATE_MEMORY)
        fprintf(out, " g3 %s", o->failed & LF_GATE_MEMORY ? "FAIL" : "ok");
    if (o->asked & LF_GATE_EDGES)
        fprintf(out, " g4 %s", o->failed & LF_GATE_EDGES ? "FAIL" : "ok");
}

static void print_controls(const struct lf_record_result *r,
                           const struct lf_contract_options *options) {
    for (uint32_t i = 0; i < r->controls; i++) {
        const struct lf_control_result *c = &r->control[i];
        char gates[16];
        if (c->red && !options->verbose)
            continue;
        fprintf(options->out, "  control %u (%s), gates %s: %s: %s\n", c->control->number,
                c->control->fault, gates_text(c->control->red_in, gates),
                c->red ? "red" : "MISSED", *c->outcome.text ? c->outcome.text : "it passed");
    }
}

void lf_contract_print_record(const struct lf_record_result *r,
                              const struct lf_contract_options *options) {
    FILE *out = options->out;
    const struct lf_outcome *o = &r->outcome;
    const struct lf_record *record = r->record;
    fprintf(out, "%s %s", r->passed ? "PASS" : "FAIL", record->name);
    print_gates(r, out);
    if (options->faults)
        fprintf(out, " controls %u/%u", r->red, r->controls);
    fprintf(out, " (%u shapes, %.0f ms)\n", r->shapes.n, o->ms);
    if (!r->passed)
        fprintf(out, "  %s\n", o->text);
    for (uint32_t i = 0; i < record->n_findings; i++)
        if (o->findings >> i & 1)
            fprintf(out, "  FINDING %s: %s\n", record->findings[i].id, record->findings[i].what);
    if (options->verbose && o->asked)
        fprintf(out, "  worst at %s", *o->worst_at ? o->worst_at : "(exact)");
    if (options->verbose && o->asked && o->stack_bytes)
        fprintf(out, "; %zu of %zu bytes of stack", o->stack_bytes, record->stack_bytes);
    if (options->verbose && o->asked)
        fputc('\n', out);
    print_controls(r, options);
    fflush(out);
}

void lf_contract_print_summary(const struct lf_contract_result *result,
                               const struct lf_contract_options *options) {
    FILE *out = options->out;
    char gates[16];
    fprintf(out, "SUMMARY %s: %u kernels: ", lf_contract_backend(options), result->records);
    if (!options->gates)
        fputs("gates not run; ", out);
    else if (options->gates == LF_GATES_ALL)
        fprintf(out, "%u pass gates 1-4, %u fail, %u known findings; ", result->passed,
                result->failed, result->findings);
    else
        fprintf(out, "%u pass gates %s only, %u fail, %u known findings; ", result->passed,
                gates_text(options->gates, gates), result->failed, result->findings);
    if (options->faults && options->gates)
        fprintf(out, "%u controls: %u red as planted, %u missed; ", result->controls, result->red,
                result->controls - result->red);
    else
        fputs("controls not run; ", out);
    // Kernels without a record are counted whatever was asked.
    if (options->limits)
        fprintf(out, "%u limit problems; ", result->limit_problems);
    else
        fputs("limits not run; ", out);
    fprintf(out, "gates %.0f ms, limits %.0f ms\n", result->gates_ms, result->limits_ms);
    fflush(out);
}

static json_t *control_json(const struct lf_control_result *c) {
    return json_pack("{s:i,s:s,s:b,s:s}", "number", (int)c->control->number, "fault",
                     c->control->fault, "red", c->red, "text", c->outcome.text);
}

static json_t *record_json(const struct lf_record_result *r) {
    const struct lf_outcome *o = &r->outcome;
    json_t *controls = json_array();
    for (uint32_t i = 0; i < r->controls; i++)
        json_array_append_new(controls, control_json(&r->control[i]));
    return json_pack("{s:s,s:s,s:b,s:f,s:s,s:I,s:I,s:i,s:i,s:i,s:I,s:f,s:s,s:o}", "name",
                     r->record->name, "file", r->record->file, "passed", r->passed, "g1_worst",
                     o->worst, "g1_worst_at", o->worst_at, "g2_differing",
                     (json_int_t)o->differing, "g2_compared", (json_int_t)o->compared,
                     "gates_asked", (int)o->asked, "gates_failed", (int)o->failed, "shapes",
                     (int)r->shapes.n, "stack_bytes", (json_int_t)o->stack_bytes, "ms", o->ms,
                     "text", o->text, "controls", controls);
}

enum lf_status lf_contract_write_json(const struct lf_contract_result *result,
                                      const struct lf_contract_options *options, const char *path,
                                      struct lf_error *err) {
    char beside[4096];
    json_t *records = json_array();
    for (uint32_t i = 0; i < result->records; i++)
        json_array_append_new(records, record_json(&result->record[i]));
    json_t *root = json_pack(
        "{s:s,s:I,s:i,s:b,s:b,s:o,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:f}", "backend",
        lf_contract_backend(options), "seed",
        (json_int_t)options->seed, "gates", (int)options->gates, "controls_run",
        options->faults && options->gates, "limits_run", options->limits, "records", records,
        "passed", (int)result->passed, "failed", (int)result->failed, "findings",
        (int)result->findings, "controls", (int)result->controls, "red", (int)result->red,
        "limit_problems", (int)result->limit_problems, "gates_ms", result->gates_ms, "limits_ms",
        result->limits_ms);
    if (!root)
        return lf_fail(err, LF_E_MEM, "out of memory for the report");
    snprintf(beside, sizeof beside, "%s.part", path);
    if (json_dump_file(root, beside, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) ||
        rename(beside, path))
        lf_fail_errno(err, LF_E_IO, "write %s", path);
    json_decref(root);
    return err->status;
}
