// What a long prompt does to running replies (bench.md section 6).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/client.h"
#include "bench/rates.h"
#include "bench/report.h"

enum { BEFORE_PIECES = 16, LONG_TOKENS = 64, SHORT_TOKENS = 32, POLL_MS = 1 };

struct scene {
    const struct lf_bench_options *o;
    struct lf_report *report;
    struct lf_client *client; // the running streams, the long prompt, the short ones
    size_t n;
    json_t *long_messages;
    double injected_s;
    double gap_s_max, tps_before, tps_during, short_ttft_s_max;
    uint64_t unequal, unverified, broken;
};

static void pause_ms(long ms) {
    struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

// Words in an order of their own, so that no cache has seen the text.
static json_t *long_messages(uint64_t words, uint64_t seed) {
    static const char *const word[16] = {"stone", "river", "lamp",  "winter", "green", "seven",
                                         "quiet", "table", "glass", "north",  "paper", "cloud",
                                         "sugar", "train", "early", "field"};
    struct lf_buffer text = {0};
    uint64_t state = seed * 2 + 1;
    lf_buffer_printf(&text, "List %llu.", (unsigned long long)seed);
    for (uint64_t i = 0; i < words; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        lf_buffer_add(&text, " ", 1);
        lf_buffer_add_text(&text, word[state >> 60]);
    }
    lf_buffer_add_text(&text, ". Which word came most often?");
    json_t *messages = text.failed ? NULL : lf_ask_user(text.data);
    lf_buffer_free(&text);
    return messages;
}

static void lay_out(struct scene *s) {
    const struct lf_bench_options *o = s->o;
    for (size_t i = 0; i < s->n; i++) {
        bool running = i < o->active, is_long = i == o->active;
        struct lf_bench_ask ask = {.model = o->server.model,
                                   .prompt = &lf_bench_prompt[running ? 0 : 1],
                                   .messages = is_long ? s->long_messages : NULL,
                                   .seed = o->seed + i, .temperature = running ? 1 : 0,
                                   .tokens = running   ? o->tokens
                                             : is_long ? LONG_TOKENS
                                                       : SHORT_TOKENS};
        s->client[i] = (struct lf_client){.server = &o->server, .ask = ask};
    }
}

static void play(struct scene *s) {
    size_t active = s->o->active;
    for (size_t i = 0; i < active; i++)
        lf_client_start(&s->client[i]);
    for (size_t i = 0; i < active; i++)
        while (atomic_load(&s->client[i].pieces) < BEFORE_PIECES &&
               !atomic_load(&s->client[i].done))
            pause_ms(POLL_MS);
    s->injected_s = lf_clock_s();
    for (size_t i = active; i < s->n; i++) {
        lf_client_start(&s->client[i]);
        // The short ones are asked while the long prompt is already with the server.
        while (!atomic_load(&s->client[i].sent) && !atomic_load(&s->client[i].done))
            pause_ms(POLL_MS);
    }
    for (size_t i = 0; i < s->n; i++)
        lf_client_wait(&s->client[i]);
}

// Without these the figures would say nothing.
static enum lf_status check_scene(const struct scene *s, struct lf_error *err) {
    for (size_t i = 0; i < s->n; i++) {
        const struct lf_answer *reply = &s->client[i].reply;
        if (lf_answer_failed(reply))
            return lf_fail(err, LF_E_VALUE, "no report: reply %zu failed (%s)", i, reply->error);
        if (i < s->o->active &&
            !(reply->first_s < s->injected_s && s->injected_s < reply->last_s))
            return lf_fail(err, LF_E_VALUE,
                           "no report: stream %zu was not live when the long prompt was sent", i);
    }
    if (s->client[s->o->active].reply.cached_tokens != 0)
        return lf_fail(err, LF_E_VALUE, "no report: the long prompt is not known to be uncached");
    return LF_OK;
}

static void measure(struct scene *s) {
    const struct lf_answer *filler = &s->client[s->o->active].reply;
    double from = s->injected_s, until = filler->first_s, start = -INFINITY, end = until;
    for (size_t i = 0; i < s->o->active; i++) {
        const struct lf_answer *reply = &s->client[i].reply;
        for (size_t p = 1; p < reply->pieces; p++)
            if (reply->piece[p].at_s > from && reply->piece[p - 1].at_s < until)
                s->gap_s_max = fmax(s->gap_s_max,
                                    reply->piece[p].at_s - reply->piece[p - 1].at_s);
        start = fmax(start, reply->first_s);
        end = fmin(end, reply->last_s);
    }
    double before = 0, during = 0;
    for (size_t i = 0; i < s->o->active; i++) {
        before += lf_rates_tokens(&s->client[i].reply, start, from);
        during += lf_rates_tokens(&s->client[i].reply, from, end);
    }
    s->tps_before = from > start ? before / (from - start) : (double)NAN;
    s->tps_during = end > from ? during / (end - from) : (double)NAN;
    for (size_t i = s->o->active + 1; i < s->n; i++) {
        double ttft = s->client[i].reply.ttft_s;
        // One unmeasured reply leaves the worst one unknown.
        s->short_ttft_s_max = isnan(ttft) || isnan(s->short_ttft_s_max)
                                  ? (double)NAN
                                  : fmax(s->short_ttft_s_max, ttft);
    }
}

// Everything once more alone: company must not change a token.
static enum lf_status add_rows(struct scene *s, struct lf_error *err) {
    for (size_t i = 0; i < s->n; i++) {
        struct lf_answer alone;
        lf_client_run(&s->o->server, &s->client[i].ask, &alone);
        enum lf_answer_equal equal = lf_answer_compare(&s->client[i].reply, &alone);
        json_t *row = lf_answer_evidence(&s->client[i].reply);
        const char *phase = i < s->o->active ? "running" : i == s->o->active ? "long" : "short";
        json_object_set_new(row, "phase", json_string(phase));
        json_object_set_new(row, "equal", equal == LF_ANSWER_UNVERIFIED
                                              ? json_null()
                                              : json_boolean(equal == LF_ANSWER_EQUAL));
        s->unequal += equal == LF_ANSWER_UNEQUAL;
        s->unverified += equal == LF_ANSWER_UNVERIFIED;
        lf_answer_free(&alone);
        LF_TRY(lf_report_row(s->report, row, err));
    }
    return LF_OK;
}

static enum lf_status end(struct scene *s, struct lf_error *err) {
    const struct lf_bench_options *o = s->o;
    double share = s->tps_during / s->tps_before;
    // An unknown figure breaks its limit.
    s->broken = (o->max_gap >= 0 && !(s->gap_s_max <= o->max_gap)) +
                (o->min_decode_share >= 0 && !(share >= o->min_decode_share)) +
                (o->max_short_ttft >= 0 && !(s->short_ttft_s_max <= o->max_short_ttft));
    bool passed = !s->unequal && !s->unverified && !s->broken;
    json_t *verdict = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:b}", "gap_s_max", lf_report_number(s->gap_s_max),
        "tps_before", lf_report_number(s->tps_before), "tps_during",
        lf_report_number(s->tps_during), "share", lf_report_number(share), "ttft_s",
        lf_report_number(s->client[o->active].reply.ttft_s), "ttft_s_max",
        lf_report_number(s->short_ttft_s_max), "unequal", (json_int_t)s->unequal, "unverified",
        (json_int_t)s->unverified, "limits_broken", (json_int_t)s->broken, "passed", passed);
    printf("worst gap %.3f s, %.1f tok/s before, %.1f during, long prompt's first token %.3f s\n",
           s->gap_s_max, s->tps_before, s->tps_during, s->client[o->active].reply.ttft_s);
    LF_TRY(lf_report_end(s->report, verdict, err));
    printf("%zu replies, %llu unequal, %llu unverified, %llu limits broken\n", s->n,
           (unsigned long long)s->unequal, (unsigned long long)s->unverified,
           (unsigned long long)s->broken);
    return passed ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not pass");
}

static enum lf_status report_scene(struct scene *s, struct lf_error *err) {
    const struct lf_bench_options *o = s->o;
    json_t *settings = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o}", "active", (json_int_t)o->active, "tokens",
        (json_int_t)o->tokens, "words", (json_int_t)o->words, "seed", (json_int_t)o->seed, "short",
        (json_int_t)o->short_replies, "max_gap_s", lf_report_limit(o->max_gap),
        "min_decode_share", lf_report_limit(o->min_decode_share), "max_short_ttft_s",
        lf_report_limit(o->max_short_ttft));
    enum lf_status status = lf_report_open(s->report, "fairness", "rows", true, settings,
                                           o->output, err);
    if (status == LF_OK)
        status = add_rows(s, err);
    if (status == LF_OK)
        return end(s, err);
    lf_report_close(s->report);
    return status;
}

enum lf_status lf_bench_fairness(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct scene s = {.o = o, .report = &report, .n = o->active + 1 + o->short_replies};
    s.client = calloc(s.n, sizeof *s.client);
    s.long_messages = long_messages(o->words, o->seed);
    if (!s.client || !s.long_messages)
        lf_fail(err, LF_E_MEM, "out of memory for the requests");
    if (err->status == LF_OK) {
        lay_out(&s);
        play(&s);
        measure(&s);
        if (check_scene(&s, err) == LF_OK)
            (void)!report_scene(&s, err);
        for (size_t i = 0; i < s.n; i++)
            lf_answer_free(&s.client[i].reply);
    }
    free(s.client);
    json_decref(s.long_messages);
    return err->status;
}
