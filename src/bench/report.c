#include "bench/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Every field a report may have; anything else is a programming fault that must not be published.
static const char *const allowed[] = {
    "schema_version", "tool", "settings", "rows", "cells", "verdict", "passed", "qualified",
    // settings
    "tokens", "reps", "seed", "temperatures", "levels", "mixed", "alone", "serial", "strict",
    "no_seed", "no_filters", "seed_from_prompt", "stagger_ms", "repeats", "streams",
    "expected_prompt_tokens", "require_cold", "require_reuse", "max_reuse_ttft_s",
    "prompt_sha256", "tolerance", "blocks", "blocks_max", "active", "words", "short",
    "max_gap_s", "min_decode_share", "max_short_ttft_s", "prompts", "length", "reference",
    // evidence
    "prompt_tokens", "cached_tokens", "cache_state", "complete", "token_sha", "output_sha256",
    "ttft_s", "decode_tps", "drafted", "accepted", "rounds", "plain_rounds", "error",
    // rows and cells
    "label", "prompt", "temperature", "level", "decode_tps_median", "decode_tps_all",
    "ttft_s_median", "ttft_s_max", "evidence", "sample", "repetitions", "per_stream_tps",
    "errors", "token_hashes", "hashes_unverified", "aggregate_tps", "steady_tps",
    "per_stream_tps_median", "aggregate_tps_median", "steady_tps_median", "failed", "unmeasured",
    "warmup_failed", "equal", "unequal", "unverified", "phase", "stream", "conversation", "turn",
    "equal_first_tokens", "equal_first_output", "equal_reference_tokens", "unmet",
    "drafts", "plain", "median", "min", "max", "all", "ratio", "ratios", "ratio_low",
    "ratio_high", "order", "slower", "noisy", "unit", "kind", "hashes",
    "gap_s_max", "tps_before", "tps_during", "share", "limits_broken", "tps",
    "rows_compared", "rows_unequal", "compared", "comparisons", "worst_difference",
    "needle_found", "depth", "peak_device_bytes", "peak_footprint_bytes", "plan_bytes",
    "peak_over_plan", "watched_peak_bytes", "memory", "prompt_tps", "missed",
    // layers of a model
    "context", "chunk_rows", "threads", "isa", "clock", "min_linear", "max_attention", "layers",
    "seconds", "linear_of_peak", "attention_share", "bytes", "of_read", "read_bytes_per_s",
    "peak_operations_per_s", "kernels", "kernel", "calls", "operations", "bandwidth", "estimates",
    // rounds on a device
    "copy_bytes_per_s", "mark_s", "kernels_s", "gaps", "launches", "limit_s", "of_limit", "lanes",
    "position_bytes", "held_bytes", "fixed_bytes",
};

json_t *lf_report_count(int64_t value) {
    return value < 0 ? json_null() : json_integer(value);
}

json_t *lf_report_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *lf_report_limit(double value) {
    return value < 0 ? json_null() : json_real(value);
}

json_t *lf_report_text(const char *text) {
    return text && *text ? json_string(text) : json_null();
}

static bool is_allowed(const char *key) {
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!strcmp(allowed[i], key))
            return true;
    return false;
}

// Names and hashes only: no blank, slash or colon, so no address, path or sentence.
static bool is_name(const char *text) {
    return strlen(text) <= 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") ==
                                     strlen(text);
}

static enum lf_status check(const json_t *value, bool publishable, struct lf_error *err) {
    const char *key;
    const json_t *member;
    size_t i;
    if (!value)
        return lf_fail(err, LF_E_MEM, "out of memory for the report");
    if (publishable && json_is_string(value) && !is_name(json_string_value(value)))
        return lf_fail(err, LF_E_VALUE, "a text in the report is neither a name nor a hash");
    json_array_foreach(value, i, member)
        LF_TRY(check(member, publishable, err));
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        if (!is_allowed(key))
            return lf_fail(err, LF_E_VALUE, "the report may not have a field %s", key);
        LF_TRY(check(member, publishable, err));
    }
    return LF_OK;
}

enum lf_status lf_report_open(struct lf_report *report, const char *tool, const char *rows,
                              bool publishable, json_t *settings, const char *path,
                              struct lf_error *err) {
    *report = (struct lf_report){.path = path, .publishable = publishable};
    report->root = json_pack("{s:i,s:s,s:o,s:o}", "schema_version", 1, "tool", tool, "settings",
                             settings ? settings : json_null(), rows, json_array());
    report->rows = json_object_get(report->root, rows);
    return check(report->root, publishable, err);
}

enum lf_status lf_report_row(struct lf_report *report, json_t *row, struct lf_error *err) {
    if (check(row, report->publishable, err) != LF_OK) {
        json_decref(row);
        return err->status;
    }
    char *line = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!line || json_array_append_new(report->rows, row)) {
        free(line);
        return lf_fail(err, LF_E_MEM, "out of memory for the report");
    }
    puts(line);
    fflush(stdout);
    free(line);
    return LF_OK;
}

enum lf_status lf_report_end(struct lf_report *report, json_t *verdict, struct lf_error *err) {
    enum lf_status status = check(verdict, report->publishable, err);
    if (json_object_set_new(report->root, "verdict", verdict) && status == LF_OK)
        status = lf_fail(err, LF_E_MEM, "out of memory for the report");
    if (status == LF_OK && report->path &&
        json_dump_file(report->root, report->path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)))
        status = lf_fail_errno(err, LF_E_IO, "write %s", report->path);
    lf_report_close(report);
    return status;
}

void lf_report_close(struct lf_report *report) {
    json_decref(report->root);
    *report = (struct lf_report){0};
}
