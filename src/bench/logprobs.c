// Are log-probabilities the same drafted, plain, repeated, resumed and in company (section 7)?
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "bench/client.h"
#include "bench/report.h"
#include "text/json_text.h"

enum { COMPANY = 5, LOGITS_BYTES_MAX = 512 << 20, DEPTH_MAX = 64, RESUMED_TOKENS = 16 };
static const double difference_max = 2e-6;

struct tally {
    const struct lf_bench_options *o;
    struct lf_report *report;
    uint64_t comparisons, unequal, failed, unverified;
    double worst;
};

// The rows of a reply as the server printed them; absent when there are none.
static struct lf_json_span rows_of(const struct lf_answer *reply) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span root;
    if (lf_answer_failed(reply) ||
        lf_json_check(&root, reply->body.data, reply->body.len, DEPTH_MAX, &err) != LF_OK)
        return (struct lf_json_span){0};
    struct lf_json_span choice = lf_json_element(lf_json_member(root, "choices"), 0);
    struct lf_json_span rows = lf_json_member(lf_json_member(choice, "logprobs"), "content");
    return lf_json_type(rows) == LF_JSON_ARRAY ? rows : (struct lf_json_span){0};
}

// Rows that differ in any printed field, a missing row included.
static uint64_t rows_unequal(struct lf_json_span a, struct lf_json_span b, uint64_t *compared) {
    struct lf_json_walk one = lf_json_walk_open(a), two = lf_json_walk_open(b);
    struct lf_json_span key, x = {0}, y = {0};
    uint64_t unequal = 0;
    *compared = 0;
    for (;;) {
        bool more = lf_json_walk_next(&one, &key, &x), other = lf_json_walk_next(&two, &key, &y);
        if (!more && !other)
            return unequal;
        ++*compared;
        unequal += !more || !other || x.len != y.len || memcmp(x.text, y.text, x.len);
    }
}

// with_rows: both replies must have rows, and the same ones.
static enum lf_status compare(struct tally *t, const char *phase, size_t chat, double temperature,
                              const struct lf_answer *a, const struct lf_answer *b, bool with_rows,
                              bool resumed, struct lf_error *err) {
    enum lf_answer_equal equal = lf_answer_compare(a, b);
    uint64_t compared = 0, unequal = 0;
    struct lf_json_span one = rows_of(a), two = rows_of(b);
    bool missing = with_rows && (!one.text || !two.text || !lf_json_count(one));
    if (with_rows && !missing)
        unequal = rows_unequal(one, two, &compared);
    bool failed = lf_answer_failed(a) || lf_answer_failed(b);
    // A reply that reused nothing shows nothing about reuse.
    bool unsure = equal == LF_ANSWER_UNVERIFIED || missing ||
                  (resumed && strcmp(lf_answer_cache_state(a), "reused"));
    t->comparisons++;
    t->failed += failed;
    t->unequal += equal == LF_ANSWER_UNEQUAL || unequal;
    t->unverified += !failed && unsure;
    json_t *row = json_object();
    json_object_set_new(row, "phase", json_string(phase));
    json_object_set_new(row, "prompt", json_string(lf_bench_chat[chat].name));
    json_object_set_new(row, "temperature", json_real(temperature));
    json_object_set_new(row, "equal", equal == LF_ANSWER_UNVERIFIED
                                          ? json_null()
                                          : json_boolean(equal == LF_ANSWER_EQUAL));
    json_object_set_new(row, "rows_compared", json_integer((json_int_t)compared));
    json_object_set_new(row, "rows_unequal", json_integer((json_int_t)unequal));
    json_object_set_new(row, "cache_state", json_string(lf_answer_cache_state(a)));
    json_object_set_new(row, "failed", json_boolean(failed));
    json_object_set_new(row, "unverified", json_boolean(unsure));
    return lf_report_row(t->report, row, err);
}

static struct lf_bench_ask ask_of(const struct lf_bench_options *o, size_t chat,
                                  double temperature) {
    return (struct lf_bench_ask){.model = o->server.model, .prompt = &lf_bench_chat[chat],
                                 .tokens = o->tokens, .temperature = temperature,
                                 .seed = o->seed + chat, .no_filters = o->no_filters,
                                 .logprobs = true, .whole = true};
}

// A second turn after the first reply, from the kept prefix and without any cache.
static enum lf_status run_resumed(struct tally *t, size_t chat, double temperature,
                                  const struct lf_answer *first, struct lf_error *err) {
    struct lf_bench_ask ask = ask_of(t->o, chat, temperature);
    struct lf_answer resumed, fresh;
    const char *text = first->content.data ? first->content.data : "";
    ask.messages = json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "role", "user", "content",
                             lf_bench_chat[chat].text, "role", "assistant", "content", text,
                             "role", "user", "content", "Please go on.");
    if (!ask.messages)
        return lf_fail(err, LF_E_MEM, "out of memory for a conversation");
    ask.tokens = RESUMED_TOKENS;
    lf_client_run(&t->o->server, &ask, &resumed);
    ask.no_cache = true;
    lf_client_run(&t->o->server, &ask, &fresh);
    enum lf_status status = compare(t, "resumed", chat, temperature, &resumed, &fresh, true, true,
                                    err);
    lf_answer_free(&resumed);
    lf_answer_free(&fresh);
    json_decref(ask.messages);
    return status;
}

static enum lf_status run_chat(struct tally *t, size_t chat, double temperature,
                               struct lf_answer *alone, struct lf_error *err) {
    const struct lf_bench_server *server = &t->o->server;
    struct lf_bench_ask ask = ask_of(t->o, chat, temperature);
    struct lf_answer bare, plain, again;
    lf_client_run(server, &ask, alone);
    lf_client_run(server, &ask, &again);
    ask.plain = true;
    lf_client_run(server, &ask, &plain);
    ask.plain = ask.logprobs = false;
    lf_client_run(server, &ask, &bare);
    enum lf_status status = compare(t, "without", chat, temperature, alone, &bare, false, false,
                                    err);
    if (status == LF_OK)
        status = compare(t, "plain", chat, temperature, alone, &plain, true, false, err);
    if (status == LF_OK)
        status = compare(t, "repeated", chat, temperature, alone, &again, true, false, err);
    if (status == LF_OK)
        status = run_resumed(t, chat, temperature, alone, err);
    lf_answer_free(&bare);
    lf_answer_free(&plain);
    lf_answer_free(&again);
    return status;
}

// Five at once, each against itself alone.
static enum lf_status run_company(struct tally *t, double temperature,
                                  const struct lf_answer *alone, struct lf_error *err) {
    enum lf_status status = LF_OK;
    for (size_t first = 0; first < LF_BENCH_CHATS && status == LF_OK; first += COMPANY) {
        struct lf_client client[COMPANY];
        for (size_t i = 0; i < COMPANY; i++) {
            size_t chat = (first + i) % LF_BENCH_CHATS;
            client[i] = (struct lf_client){.server = &t->o->server,
                                           .ask = ask_of(t->o, chat, temperature)};
        }
        lf_client_gang(client, COMPANY, 0);
        for (size_t i = 0; i < COMPANY; i++) {
            size_t chat = (first + i) % LF_BENCH_CHATS;
            if (status == LF_OK)
                status = compare(t, "company", chat, temperature, &client[i].reply, &alone[chat],
                                 true, false, err);
            lf_answer_free(&client[i].reply);
        }
    }
    return status;
}

// log softmax in float64 of one entry of a row of logits.
static double log_softmax(const json_t *logits, size_t at) {
    double most = -INFINITY, sum = 0;
    size_t i;
    const json_t *x;
    json_array_foreach(logits, i, x)
        most = fmax(most, json_number_value(x));
    json_array_foreach(logits, i, x)
        sum += exp(json_number_value(x) - most);
    return json_number_value(json_array_get(logits, at)) - most - log(sum);
}

// {"prompt": index of the chat, "ids": [...], "logits": [[...], ...]} of the greedy reply's rows.
static enum lf_status check_logits(struct tally *t, const struct lf_answer *alone,
                                   struct lf_error *err) {
    struct lf_buffer text = {0};
    size_t i;
    const json_t *row;
    LF_TRY(lf_file_read(&text, t->o->logits, LOGITS_BYTES_MAX, err));
    json_t *file = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
    lf_buffer_free(&text);
    const json_t *ids = json_object_get(file, "ids"), *logits = json_object_get(file, "logits");
    json_int_t chat = json_integer_value(json_object_get(file, "prompt"));
    bool good = json_array_size(ids) && json_array_size(ids) == json_array_size(logits) &&
                chat >= 0 && chat < LF_BENCH_CHATS;
    json_array_foreach(logits, i, row) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        good = good && id >= 0 && (size_t)id < json_array_size(row);
    }
    if (!good) {
        json_decref(file);
        return lf_fail(err, LF_E_FORMAT, "%s: expected an object with prompt, ids and a row of "
                                         "logits for each id", t->o->logits);
    }
    struct lf_json_span rows = rows_of(&alone[chat]);
    bool missing = !rows.text || lf_json_count(rows) != json_array_size(ids);
    for (i = 0; i < json_array_size(ids) && !missing; i++) {
        double printed = 0;
        struct lf_json_span value = lf_json_member(lf_json_element(rows, i), "logprob");
        missing = !lf_json_double(value, &printed);
        size_t id = (size_t)json_integer_value(json_array_get(ids, i));
        t->worst = fmax(t->worst, fabs(printed - log_softmax(json_array_get(logits, i), id)));
    }
    json_decref(file);
    t->comparisons++;
    t->unverified += missing;
    t->unequal += t->worst > difference_max;
    return LF_OK;
}

static enum lf_status run_all(struct tally *t, struct lf_error *err) {
    static const double temperature[2] = {0, 1};
    enum lf_status status = LF_OK;
    for (int k = 0; k < 2 && status == LF_OK; k++) {
        struct lf_answer alone[LF_BENCH_CHATS];
        for (size_t i = 0; i < LF_BENCH_CHATS; i++)
            lf_answer_init(&alone[i]);
        for (size_t i = 0; i < LF_BENCH_CHATS && status == LF_OK; i++)
            status = run_chat(t, i, temperature[k], &alone[i], err);
        if (status == LF_OK)
            status = run_company(t, temperature[k], alone, err);
        if (status == LF_OK && t->o->logits && k == 0)
            status = check_logits(t, alone, err);
        for (size_t i = 0; i < LF_BENCH_CHATS; i++)
            lf_answer_free(&alone[i]);
    }
    return status;
}

enum lf_status lf_bench_logprobs(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct tally t = {.o = o, .report = &report};
    json_t *settings = json_pack("{s:I,s:I,s:b}", "tokens", (json_int_t)o->tokens, "seed",
                                 (json_int_t)o->seed, "no_filters", o->no_filters);
    enum lf_status status = lf_report_open(&report, "logprobs", "rows", true, settings, o->output,
                                           err);
    if (status == LF_OK)
        status = run_all(&t, err);
    if (status != LF_OK) {
        lf_report_close(&report);
        return status;
    }
    bool passed = !t.failed && !t.unequal && !t.unverified;
    json_t *verdict = json_pack("{s:I,s:I,s:I,s:I,s:o,s:b}", "comparisons",
                                (json_int_t)t.comparisons, "failed", (json_int_t)t.failed,
                                "unequal", (json_int_t)t.unequal, "unverified",
                                (json_int_t)t.unverified, "worst_difference",
                                o->logits ? lf_report_number(t.worst) : json_null(), "passed",
                                passed);
    LF_TRY(lf_report_end(&report, verdict, err));
    printf("%llu comparisons, %llu failed, %llu unequal, %llu unverified\n",
           (unsigned long long)t.comparisons, (unsigned long long)t.failed,
           (unsigned long long)t.unequal, (unsigned long long)t.unverified);
    return passed ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not pass");
}
