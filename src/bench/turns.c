// Conversations of several turns with a cache, then the same ones without (bench.md section 4).
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "bench/client.h"
#include "bench/report.h"

enum { FILE_BYTES_MAX = 16 << 20 };

struct play {
    const struct lf_bench_options *o;
    struct lf_report *report;
    json_t *file;
    uint64_t rows, failed, unequal, unmet, unverified;
};

static bool all_texts(const json_t *list) {
    size_t i;
    const json_t *text;
    json_array_foreach(list, i, text)
        if (!json_is_string(text))
            return false;
    return json_array_size(list) > 0;
}

// {"system": TEXT, "edit": TEXT, "conversations": [[TEXT, ...], ...]}
static enum lf_status read_file(json_t **out, const char *path, struct lf_error *err) {
    struct lf_buffer text = {0};
    LF_TRY(lf_file_read(&text, path, FILE_BYTES_MAX, err));
    json_t *file = json_loadb(text.data ? text.data : "", text.len, 0, NULL), *talk;
    const json_t *talks = json_object_get(file, "conversations");
    bool good = json_is_string(json_object_get(file, "system")) &&
                json_is_string(json_object_get(file, "edit")) && json_array_size(talks) > 0;
    size_t i;
    lf_buffer_free(&text);
    json_array_foreach(talks, i, talk)
        good = good && all_texts(talk);
    if (!good) {
        json_decref(file);
        return lf_fail(err, LF_E_FORMAT,
                       "%s: expected an object with system, edit and conversations, which is a "
                       "list of lists of texts", path);
    }
    *out = file;
    return LF_OK;
}

static void add_message(json_t *messages, const char *role, const char *text, size_t len) {
    json_array_append_new(messages, json_pack("{s:s,s:s%}", "role", role, "content", text, len));
}

// Sends the conversation to both servers and adds its row; reply is freed by the caller.
static enum lf_status step(struct play *play, json_t *messages, const char *phase, size_t talk,
                           size_t turn, struct lf_answer *reply, struct lf_error *err) {
    const struct lf_bench_options *o = play->o;
    struct lf_bench_ask ask = {.model = o->server.model, .messages = messages,
                               .tokens = o->tokens, .seed = o->seed};
    struct lf_answer plain;
    lf_client_run(&o->server, &ask, reply);
    lf_client_run(&o->reference, &ask, &plain);
    enum lf_answer_equal equal = lf_answer_compare(reply, &plain);
    json_t *row = lf_answer_evidence(reply);
    json_object_set_new(row, "phase", json_string(phase));
    json_object_set_new(row, "conversation", json_integer((json_int_t)talk));
    json_object_set_new(row, "turn", json_integer((json_int_t)turn));
    json_object_set_new(row, "reference", lf_answer_evidence(&plain));
    json_object_set_new(row, "equal_reference_tokens",
                        equal == LF_ANSWER_UNVERIFIED ? json_null()
                                                     : json_boolean(equal == LF_ANSWER_EQUAL));
    bool later = turn || strcmp(phase, "turn");
    play->rows++;
    play->failed += lf_answer_failed(reply) || lf_answer_failed(&plain);
    play->unequal += equal == LF_ANSWER_UNEQUAL;
    play->unverified += equal == LF_ANSWER_UNVERIFIED;
    // A reference that reused anything is no reference.
    play->unmet += strcmp(lf_answer_cache_state(&plain), "cold") != 0 ||
                   (o->require_reuse && later && strcmp(lf_answer_cache_state(reply), "reused"));
    lf_answer_free(&plain);
    return lf_report_row(play->report, row, err);
}

static enum lf_status play_one(struct play *play, size_t talk, struct lf_error *err) {
    const json_t *turns = json_array_get(json_object_get(play->file, "conversations"), talk);
    const json_t *system = json_object_get(play->file, "system");
    const json_t *edit = json_object_get(play->file, "edit");
    json_t *messages = json_array();
    size_t n = json_array_size(turns), t;
    struct lf_answer reply;
    enum lf_status status = LF_OK;
    add_message(messages, "system", json_string_value(system), json_string_length(system));
    for (t = 0; t < n && status == LF_OK; t++) {
        const json_t *text = json_array_get(turns, t);
        add_message(messages, "user", json_string_value(text), json_string_length(text));
        status = step(play, messages, "turn", talk, t, &reply, err);
        if (t + 1 < n)
            add_message(messages, "assistant", reply.content.data ? reply.content.data : "",
                        reply.content.len);
        lf_answer_free(&reply);
    }
    if (status == LF_OK) {
        status = step(play, messages, "regenerate", talk, n - 1, &reply, err);
        lf_answer_free(&reply);
    }
    if (status == LF_OK) {
        json_array_remove(messages, json_array_size(messages) - 1);
        add_message(messages, "user", json_string_value(edit), json_string_length(edit));
        status = step(play, messages, "edited", talk, n - 1, &reply, err);
        lf_answer_free(&reply);
    }
    json_decref(messages);
    return status;
}

enum lf_status lf_bench_turns(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct play play = {.o = o, .report = &report};
    if (!o->reference_base)
        return lf_fail(err, LF_E_USAGE, "--turns needs --reference, a server without a cache");
    LF_TRY(read_file(&play.file, o->turns_file, err));
    json_t *settings = json_pack("{s:I,s:b}", "tokens", (json_int_t)o->tokens, "require_reuse",
                                 o->require_reuse);
    enum lf_status status = lf_report_open(&report, "cache-turns", "rows", true, settings,
                                           o->output, err);
    size_t talks = json_array_size(json_object_get(play.file, "conversations"));
    for (size_t i = 0; i < talks && status == LF_OK; i++)
        status = play_one(&play, i, err);
    json_decref(play.file);
    if (status != LF_OK) {
        lf_report_close(&report);
        return status;
    }
    bool qualified = !play.failed && !play.unequal && !play.unmet && !play.unverified;
    json_t *verdict = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:b}", "rows", (json_int_t)play.rows, "failed",
        (json_int_t)play.failed, "unequal", (json_int_t)play.unequal, "unverified",
        (json_int_t)play.unverified, "unmet", (json_int_t)play.unmet, "qualified", qualified);
    LF_TRY(lf_report_end(&report, verdict, err));
    printf("%llu rows, %llu failed, %llu unequal, %llu unmet\n", (unsigned long long)play.rows,
           (unsigned long long)play.failed, (unsigned long long)play.unequal,
           (unsigned long long)play.unmet);
    return qualified ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not qualify");
}
