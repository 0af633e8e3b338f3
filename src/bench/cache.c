// What a cold prompt costs, whether a repeat reuses it, whether tokens stay the same (section 4).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/client.h"
#include "bench/report.h"

struct run {
    const struct lf_bench_options *o;
    struct lf_report *report;
    struct lf_answer first;
    uint64_t rows, failed, unequal, unmet;
};

static json_t *known(enum lf_answer_equal equal) {
    return equal == LF_ANSWER_UNVERIFIED ? json_null() : json_boolean(equal == LF_ANSWER_EQUAL);
}

// Equal text does not prove equal tokens, so both are reported.
static enum lf_answer_equal compare_output(const struct lf_answer *a, const struct lf_answer *b) {
    if (lf_answer_failed(a) || lf_answer_failed(b))
        return LF_ANSWER_UNVERIFIED;
    return strcmp(a->output_sha, b->output_sha) ? LF_ANSWER_UNEQUAL : LF_ANSWER_EQUAL;
}

static bool meets(const struct lf_bench_options *o, const struct lf_answer *reply,
                  const char *phase) {
    const char *state = lf_answer_cache_state(reply);
    bool repeated = !strcmp(phase, "repeated");
    if (o->expected_prompt_tokens && reply->prompt_tokens != (int64_t)o->expected_prompt_tokens)
        return false;
    if (o->require_cold && !strcmp(phase, "first") && strcmp(state, "cold"))
        return false;
    if (o->require_reuse && repeated && strcmp(state, "reused"))
        return false;
    // An unmeasured time is NAN and so never small enough.
    return !(o->max_reuse_ttft >= 0 && repeated) || reply->ttft_s <= o->max_reuse_ttft;
}

static enum lf_status add_row(struct run *run, const char *phase, const struct lf_answer *reply,
                              struct lf_error *err) {
    bool first = reply == &run->first;
    json_t *row = lf_answer_evidence(reply);
    enum lf_answer_equal tokens = lf_answer_compare(&run->first, reply);
    enum lf_answer_equal output = compare_output(&run->first, reply);
    json_object_set_new(row, "phase", json_string(phase));
    if (!first) {
        json_object_set_new(row, "equal_first_tokens", known(tokens));
        json_object_set_new(row, "equal_first_output", known(output));
    }
    run->rows++;
    run->failed += lf_answer_failed(reply);
    run->unequal += !first && (tokens == LF_ANSWER_UNEQUAL || output == LF_ANSWER_UNEQUAL);
    run->unmet += !meets(run->o, reply, phase);
    return lf_report_row(run->report, row, err);
}

static enum lf_status run_phases(struct run *run, const struct lf_bench_ask *ask,
                                 struct lf_error *err) {
    const struct lf_bench_options *o = run->o;
    lf_client_run(&o->server, ask, &run->first);
    enum lf_status status = add_row(run, "first", &run->first, err);
    for (uint64_t i = 0; i < o->repeats && status == LF_OK; i++) {
        struct lf_answer reply;
        lf_client_run(&o->server, ask, &reply);
        status = add_row(run, "repeated", &reply, err);
        lf_answer_free(&reply);
    }
    struct lf_client *client = calloc(o->streams ? o->streams : 1, sizeof *client);
    if (!client)
        status = lf_fail(err, LF_E_MEM, "out of memory for streams");
    if (status != LF_OK) {
        free(client);
        return status;
    }
    for (uint64_t i = 0; i < o->streams; i++)
        client[i] = (struct lf_client){.server = &o->server, .ask = *ask};
    lf_client_gang(client, o->streams, 0);
    for (uint64_t i = 0; i < o->streams; i++) {
        if (status == LF_OK)
            status = add_row(run, "concurrent", &client[i].reply, err);
        lf_answer_free(&client[i].reply);
    }
    free(client);
    return status;
}

static json_t *settings_of(const struct lf_bench_options *o, const char *sha) {
    return json_pack("{s:I,s:I,s:I,s:o,s:o,s:b,s:b,s:o}", "tokens", (json_int_t)o->tokens,
                     "repeats", (json_int_t)o->repeats, "streams", (json_int_t)o->streams,
                     "prompt_sha256", lf_report_text(sha), "expected_prompt_tokens",
                     o->expected_prompt_tokens
                         ? json_integer((json_int_t)o->expected_prompt_tokens)
                         : json_null(),
                     "require_cold", o->require_cold, "require_reuse", o->require_reuse,
                     "max_reuse_ttft_s",
                     lf_report_limit(o->max_reuse_ttft));
}

static enum lf_status end(struct run *run, struct lf_error *err) {
    bool qualified = !run->failed && !run->unequal && !run->unmet;
    json_t *verdict = json_pack("{s:I,s:I,s:I,s:I,s:b}", "rows", (json_int_t)run->rows, "failed",
                                (json_int_t)run->failed, "unequal", (json_int_t)run->unequal,
                                "unmet", (json_int_t)run->unmet, "qualified", qualified);
    LF_TRY(lf_report_end(run->report, verdict, err));
    printf("%llu rows, %llu failed, %llu unequal, %llu unmet\n", (unsigned long long)run->rows,
           (unsigned long long)run->failed, (unsigned long long)run->unequal,
           (unsigned long long)run->unmet);
    return qualified ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not qualify");
}

enum lf_status lf_bench_cache(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct run run = {.o = o, .report = &report};
    json_t *ids = NULL;
    char sha[65] = "";
    if (o->turns_file)
        return lf_bench_turns(o, err);
    if (o->prompt_file)
        LF_TRY(lf_ask_read_ids(&ids, sha, o->prompt_file, err));
    struct lf_bench_ask ask = {.model = o->server.model, .prompt = &lf_bench_prompt[0], .ids = ids,
                               .tokens = o->tokens, .seed = o->seed};
    enum lf_status status = lf_report_open(&report, "cache", "rows", true, settings_of(o, sha),
                                           o->output, err);
    if (status == LF_OK)
        status = run_phases(&run, &ask, err);
    lf_answer_free(&run.first);
    json_decref(ids);
    if (status == LF_OK)
        return end(&run, err);
    lf_report_close(&report);
    return status;
}
