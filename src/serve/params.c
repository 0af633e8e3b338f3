#include "serve/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STOPS_MAX = 64, STOP_BYTES_MAX = 1024, BIASES_MAX = 1024, STOP_IDS_MAX = 1024 };

static enum lf_status unsupported(struct lf_error *err, const char *name) {
    return lf_fail_param(err, LF_E_FIELD, name, "%s is not supported by this server", name);
}

// Fields whose neutral value is fine and whose other values would change logits or the answer.
static const struct neutral {
    const char *name;
    double low, high, neutral;
    bool integer, above_low;
} neutrals[] = {
    {"presence_penalty", -2, 2, 0, false, false},
    {"frequency_penalty", -2, 2, 0, false, false},
    {"repetition_penalty", 0, 2, 1, false, true},
    {"min_tokens", 0, 9007199254740992.0, 0, true, false},
    {"mirostat", 0, 2, 0, true, false},
    {"typical_p", 0, 1, 1, false, false},
    {"tfs_z", 0, 1, 1, false, false},
    {"top_a", 0, 1, 0, false, false},
    {"xtc_probability", 0, 1, 0, false, false},
    {"dry_multiplier", 0, 1000, 0, false, false},
    {"dynatemp_range", 0, 1000, 0, false, false},
};

// Fields that may only be absent or null.
static const char *const absent_only[] = {
    "audio",         "web_search_options", "suffix",          "prompt_logprobs",
    "guided_json",   "guided_regex",       "guided_choice",   "guided_grammar",
    "grammar",       "json_schema",        "structured_outputs",
};

static enum lf_status check_above(const struct lf_fields *fields, const char *name, double value,
                                  struct lf_error *err) {
    if (lf_fields_get(fields, name).text && value <= 0)
        return lf_fail_param(err, LF_E_VALUE, name, "%s must be more than 0", name);
    return LF_OK;
}

static enum lf_status read_neutrals(const struct lf_fields *fields, struct lf_error *err) {
    for (size_t i = 0; i < sizeof neutrals / sizeof *neutrals; i++) {
        const struct neutral *row = &neutrals[i];
        double value = row->neutral;
        int64_t whole = (int64_t)row->neutral;
        if (row->integer) {
            LF_TRY(lf_field_integer(fields, row->name, (int64_t)row->low, (int64_t)row->high,
                                    &whole, err));
            value = (double)whole;
        } else {
            LF_TRY(lf_field_number(fields, row->name, row->low, row->high, &value, err));
        }
        if (row->above_low)
            LF_TRY(check_above(fields, row->name, value, err));
        if (value != row->neutral)
            return unsupported(err, row->name);
    }
    for (size_t i = 0; i < sizeof absent_only / sizeof *absent_only; i++)
        if (lf_fields_get(fields, absent_only[i]).text)
            return unsupported(err, absent_only[i]);
    bool beams = false;
    LF_TRY(lf_field_bool(fields, "use_beam_search", &beams, err));
    return beams ? unsupported(err, "use_beam_search") : LF_OK;
}

static enum lf_status check_bias(struct lf_json_span key, struct lf_json_span value,
                                 uint32_t vocab, struct lf_error *err) {
    struct lf_json_span digits = {key.text + 1, key.len - 2};
    struct lf_field entry = {"", value};
    struct lf_fields one = {&entry, 1, "logit_bias"};
    double bias = 0;
    int64_t id;
    for (size_t i = 0; i < digits.len; i++)
        if (digits.text[i] < '0' || digits.text[i] > '9')
            digits.len = 0;
    if (!digits.len)
        return lf_fail_param(err, LF_E_VALUE, "logit_bias",
                             "logit_bias keys must be token ids in decimal");
    LF_TRY(lf_json_integer(digits, "logit_bias", 0, (int64_t)vocab - 1, &id, err));
    if (lf_json_type(value) == LF_JSON_NULL)
        return lf_fail_param(err, LF_E_TYPE, "logit_bias",
                             "logit_bias values must be numbers, not null");
    return lf_field_number(&one, "", -100, 100, &bias, err);
}

static enum lf_status read_bias(const struct lf_fields *fields, uint32_t vocab,
                                struct lf_error *err) {
    struct lf_json_span bias = {0}, key, value;
    LF_TRY(lf_field_object(fields, "logit_bias", &bias, err));
    struct lf_json_walk walk = lf_json_walk_open(bias);
    size_t n = 0;
    for (; lf_json_walk_next(&walk, &key, &value); n++) {
        if (n == BIASES_MAX)
            return lf_fail_param(err, LF_E_VALUE, "logit_bias",
                                 "logit_bias may have at most %d entries", BIASES_MAX);
        LF_TRY(check_bias(key, value, vocab, err));
    }
    return n ? unsupported(err, "logit_bias") : LF_OK;
}

// Completions ask by a number; chat by a flag and a number (api.md 8).
static enum lf_status read_logprobs(struct lf_params *out, const struct lf_fields *fields,
                                    bool completions, struct lf_error *err) {
    int64_t own = -1, top = 0;
    LF_TRY(lf_field_integer(fields, "top_logprobs", 0, LF_LOGPROBS_MAX, &top, err));
    if (completions) {
        LF_TRY(lf_field_integer(fields, "logprobs", 0, LF_LOGPROBS_MAX, &own, err));
        if (top)
            return lf_fail_param(err, LF_E_FIELD, "top_logprobs",
                                 "top_logprobs belongs to chat; here logprobs is the number");
        out->logprobs = own >= 0;
        out->top_logprobs = own > 0 ? (uint32_t)own : 0;
        return LF_OK;
    }
    LF_TRY(lf_field_bool(fields, "logprobs", &out->logprobs, err));
    if (!out->logprobs && lf_fields_get(fields, "top_logprobs").text)
        return lf_fail_param(err, LF_E_VALUE, "top_logprobs",
                             "top_logprobs needs logprobs to be true");
    out->top_logprobs = (uint32_t)top;
    return LF_OK;
}

static enum lf_status read_choices(const struct lf_fields *fields, uint32_t n_max,
                                   struct lf_error *err) {
    int64_t n = 1;
    LF_TRY(lf_field_integer(fields, "n", 1, n_max, &n, err));
    if (n != 1)
        return lf_fail_param(err, LF_E_UNSUPPORTED, "n", "n must be 1: one choice a request");
    int64_t best_of = n;
    LF_TRY(lf_field_integer(fields, "best_of", 1, n_max, &best_of, err));
    if (best_of != n)
        return lf_fail_param(err, LF_E_UNSUPPORTED, "best_of", "best_of must equal n");
    return LF_OK;
}

static enum lf_status read_modalities(const struct lf_fields *fields, struct lf_arena *arena,
                                      struct lf_error *err) {
    struct lf_json_span list = lf_fields_get(fields, "modalities"), key, value;
    if (!list.text)
        return LF_OK;
    if (lf_json_type(list) != LF_JSON_ARRAY)
        return lf_fail_param(err, LF_E_TYPE, "modalities", "modalities must be an array, not %s",
                             lf_json_kind(list));
    struct lf_json_walk walk = lf_json_walk_open(list);
    while (lf_json_walk_next(&walk, &key, &value)) {
        const char *name;
        size_t len;
        LF_TRY(lf_json_text(value, "modalities", arena, &name, &len, err));
        if (!strcmp(name, "audio"))
            return unsupported(err, "modalities");
        if (strcmp(name, "text"))
            return lf_fail_param(err, LF_E_VALUE, "modalities", "modalities must be [\"text\"]");
    }
    return LF_OK;
}

static enum lf_status read_stop(struct lf_params *out, struct lf_arena *arena,
                                const struct lf_fields *fields, struct lf_error *err) {
    struct lf_json_span stop = lf_fields_get(fields, "stop"), key, value = stop;
    if (!stop.text)
        return LF_OK;
    bool list = lf_json_type(stop) == LF_JSON_ARRAY;
    if (!list && lf_json_type(stop) != LF_JSON_STRING)
        return lf_fail_param(err, LF_E_TYPE, "stop",
                             "stop must be a string or an array of strings, not %s",
                             lf_json_kind(stop));
    out->stop = lf_arena_alloc(arena, STOPS_MAX, sizeof *out->stop);
    if (!out->stop)
        return lf_fail(err, LF_E_MEM, "no memory for stop strings");
    struct lf_json_walk walk = lf_json_walk_open(stop);
    for (size_t i = 0; list ? lf_json_walk_next(&walk, &key, &value) : i < 1; i++) {
        char place[32] = "stop";
        const char *text;
        size_t len = 0;
        if (list)
            snprintf(place, sizeof place, "stop[%zu]", i);
        if (i == STOPS_MAX)
            return lf_fail_param(err, LF_E_VALUE, "stop", "stop may have at most %d strings",
                                 STOPS_MAX);
        LF_TRY(lf_json_text(value, place, arena, &text, &len, err));
        if (len > STOP_BYTES_MAX || strlen(text) != len)
            return lf_fail_param(err, LF_E_VALUE, place,
                                 "%s must have at most %d bytes and no NUL", place,
                                 STOP_BYTES_MAX);
        if (len)
            out->stop[out->n_stops++] = text;
    }
    return LF_OK;
}

static enum lf_status read_stop_ids(struct lf_params *out, struct lf_arena *arena,
                                    const struct lf_fields *fields, uint32_t vocab,
                                    struct lf_error *err) {
    struct lf_json_span list = lf_fields_get(fields, "stop_token_ids"), key, value;
    if (!list.text)
        return LF_OK;
    if (lf_json_type(list) != LF_JSON_ARRAY)
        return lf_fail_param(err, LF_E_TYPE, "stop_token_ids",
                             "stop_token_ids must be an array of ids, not %s", lf_json_kind(list));
    out->stop_id = lf_arena_alloc(arena, STOP_IDS_MAX, sizeof *out->stop_id);
    if (!out->stop_id)
        return lf_fail(err, LF_E_MEM, "no memory for stop ids");
    struct lf_json_walk walk = lf_json_walk_open(list);
    while (lf_json_walk_next(&walk, &key, &value)) {
        char place[48];
        int64_t id;
        snprintf(place, sizeof place, "stop_token_ids[%u]", out->n_stop_ids);
        if (out->n_stop_ids == STOP_IDS_MAX)
            return lf_fail_param(err, LF_E_VALUE, "stop_token_ids",
                                 "stop_token_ids may have at most %d ids", STOP_IDS_MAX);
        LF_TRY(lf_json_integer(value, place, 0, (int64_t)vocab - 1, &id, err));
        out->stop_id[out->n_stop_ids++] = (uint32_t)id;
    }
    return LF_OK;
}

static enum lf_status read_limit(struct lf_params *out, const struct lf_fields *fields,
                                 struct lf_error *err) {
    int64_t tokens = 0, completion = 0;
    LF_TRY(lf_field_integer(fields, "max_tokens", 1, INT64_MAX, &tokens, err));
    LF_TRY(lf_field_integer(fields, "max_completion_tokens", 1, INT64_MAX, &completion, err));
    int64_t limit = completion ? completion : tokens;
    out->max_tokens = limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
    return LF_OK;
}

static enum lf_status read_budget(struct lf_params *out, const struct lf_fields *fields,
                                  struct lf_error *err) {
    int64_t budget = 0;
    LF_TRY(lf_field_integer(fields, "thinking_budget", 0, INT64_MAX, &budget, err));
    out->thinking_budget = budget > UINT32_MAX ? UINT32_MAX : (uint32_t)budget;
    return LF_OK;
}

static enum lf_status read_sampling(struct lf_params *out, const struct lf_fields *fields,
                                    struct lf_error *err) {
    struct lf_sampling *s = &out->sampling;
    LF_TRY(lf_field_number(fields, "temperature", 0, 2, &s->temperature, err));
    LF_TRY(lf_field_number(fields, "top_p", 0, 1, &s->top_p, err));
    LF_TRY(lf_field_integer(fields, "top_k", -1, INT64_MAX, &s->top_k, err));
    LF_TRY(lf_field_number(fields, "min_p", 0, 1, &s->min_p, err));
    return lf_field_seed(fields, "seed", &s->seed, &out->seed_given, err);
}

static enum lf_status read_priority(struct lf_params *out, struct lf_arena *arena,
                                    const struct lf_fields *fields, struct lf_error *err) {
    struct lf_json_span value = lf_fields_get(fields, "priority");
    int64_t level = 0;
    if (!value.text)
        return LF_OK;
    if (lf_json_type(value) != LF_JSON_STRING) {
        LF_TRY(lf_json_integer(value, "priority", 0, INT64_MAX, &level, err));
        out->background = level > 0;
        return LF_OK;
    }
    const char *name;
    size_t len;
    LF_TRY(lf_json_text(value, "priority", arena, &name, &len, err));
    out->background = !strcmp(name, "background");
    if (!out->background && strcmp(name, "normal"))
        return lf_fail_param(err, LF_E_VALUE, "priority",
                             "priority must be normal, background or a number of at least 0");
    return LF_OK;
}

static enum lf_status read_stream(struct lf_params *out, struct lf_arena *arena,
                                  const struct lf_fields *fields, struct lf_error *err) {
    struct lf_json_span options = {0};
    struct lf_fields inner;
    LF_TRY(lf_field_bool(fields, "stream", &out->stream, err));
    LF_TRY(lf_field_object(fields, "stream_options", &options, err));
    LF_TRY(lf_fields_read(&inner, arena, options, "stream_options.", err));
    LF_TRY(lf_field_bool(&inner, "include_usage", &out->include_usage, err));
    return lf_field_bool(&inner, "continuous_usage_stats", &out->usage_always, err);
}

static enum lf_status read_flags(struct lf_params *out, const struct lf_fields *fields,
                                 struct lf_error *err) {
    const struct {
        const char *name;
        bool *to;
    } flags[] = {
        {"stop_in_reasoning", &out->stop_in_reasoning},
        {"include_stop_str_in_output", &out->include_stop},
        {"ignore_eos", &out->ignore_eos},
        {"draft", &out->draft},
        {"cache_prompt", &out->cache_prompt},
        {"return_token_ids", &out->return_ids},
        {"return_prompt_token_ids", &out->return_prompt_ids},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        LF_TRY(lf_field_bool(fields, flags[i].name, flags[i].to, err));
    return LF_OK;
}

enum lf_status lf_params_read(struct lf_params *out, struct lf_arena *arena,
                              const struct lf_fields *fields,
                              const struct lf_params_limits *limits, struct lf_error *err) {
    size_t len;
    *out = (struct lf_params){.sampling = limits->sampling, .draft = true, .cache_prompt = true};
    LF_TRY(lf_field_text(fields, "model", arena, &out->model, &len, err));
    LF_TRY(read_limit(out, fields, err));
    LF_TRY(read_budget(out, fields, err));
    LF_TRY(read_sampling(out, fields, err));
    LF_TRY(read_stop(out, arena, fields, err));
    LF_TRY(read_stop_ids(out, arena, fields, limits->vocab, err));
    LF_TRY(read_flags(out, fields, err));
    LF_TRY(read_stream(out, arena, fields, err));
    LF_TRY(read_priority(out, arena, fields, err));
    LF_TRY(lf_field_number(fields, "timeout", 0, HUGE_VAL, &out->timeout_s, err));
    LF_TRY(check_above(fields, "timeout", out->timeout_s, err));
    LF_TRY(lf_field_text(fields, "request_id", arena, &out->request_id, &len, err));
    LF_TRY(read_choices(fields, limits->n_max, err));
    LF_TRY(read_logprobs(out, fields, limits->completions, err));
    LF_TRY(read_bias(fields, limits->vocab, err));
    LF_TRY(read_modalities(fields, arena, err));
    LF_TRY(read_neutrals(fields, err));
    bool echo = false;
    if (limits->completions)
        LF_TRY(lf_field_bool(fields, "echo", &echo, err));
    return echo ? unsupported(err, "echo") : LF_OK;
}
