// Whether N cold prompts of great length fit and stay right (bench.md section 8).
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/client.h"
#include "bench/report.h"

enum { PROBE_WORDS = 400, PROBE_TOKENS = 4, WATCH_MS = 100 };

// The largest figures seen; -1: unknown.
struct peak {
    int64_t device_bytes, footprint_bytes, plan_bytes, watched_bytes;
};

struct run {
    const struct lf_bench_options *o;
    struct lf_report *report;
    struct lf_client *client;
    struct peak peak;
    double words_per_token;
    uint64_t failed, missed, warm, shorter;
};

// The needle of prompt i: four digits that no other prompt has; small models know the question.
static unsigned needle_of(size_t i) {
    return 1000 + (unsigned)((i * 7919 + 4241) % 9000);
}

static double depth_of(size_t i, size_t n) {
    return n > 1 ? 0.05 + 0.9 * (double)i / (double)(n - 1) : 0.5;
}

// Filler of so many words with prompt i's needle at its depth.
static json_t *messages_of(size_t i, uint64_t words, double depth, uint64_t seed) {
    static const char *const word[16] = {"stone", "river", "lamp",  "winter", "green", "seven",
                                         "quiet", "table", "glass", "north",  "paper", "cloud",
                                         "sugar", "train", "early", "field"};
    struct lf_buffer text = {0};
    uint64_t state = (seed + i) * 2 + 1, at = (uint64_t)((double)words * depth);
    lf_buffer_printf(&text, "Box %zu of %llu.", i, (unsigned long long)seed);
    for (uint64_t w = 0; w < words; w++) {
        if (w == at)
            lf_buffer_printf(&text, ". The code of Emma is %u.", needle_of(i));
        state = state * 6364136223846793005u + 1442695040888963407u;
        lf_buffer_add(&text, " ", 1);
        lf_buffer_add_text(&text, word[state >> 60]);
    }
    lf_buffer_add_text(&text, ".\n\nWhat is the code of Emma?");
    json_t *messages = text.failed ? NULL : lf_ask_user(text.data);
    lf_buffer_free(&text);
    return messages;
}

// How many words a token is, from the server's own count of two lengths.
static enum lf_status calibrate(struct run *run, struct lf_error *err) {
    int64_t tokens[2];
    for (int i = 0; i < 2; i++) {
        struct lf_answer reply;
        struct lf_bench_ask ask = {.model = run->o->server.model, .tokens = PROBE_TOKENS};
        // A prompt of its own, so that it warms none of the measured ones.
        ask.messages = messages_of(run->o->prompts, (uint64_t)PROBE_WORDS * (i + 1), 0.5,
                                   run->o->seed);
        if (!ask.messages)
            return lf_fail(err, LF_E_MEM, "out of memory for a prompt");
        lf_client_run(&run->o->server, &ask, &reply);
        tokens[i] = reply.prompt_tokens;
        bool failed = lf_answer_failed(&reply);
        lf_answer_free(&reply);
        json_decref(ask.messages);
        if (failed || tokens[i] < 0)
            return lf_fail(err, LF_E_VALUE, "no report: the server does not count a prompt of %d "
                                            "words", PROBE_WORDS * (i + 1));
    }
    if (tokens[1] <= tokens[0])
        return lf_fail(err, LF_E_VALUE, "no report: the server counts twice the words as no more");
    run->words_per_token = (double)PROBE_WORDS / (double)(tokens[1] - tokens[0]);
    return LF_OK;
}

static int64_t bytes_of(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                     : -1;
}

static void raise(int64_t *peak, int64_t value) {
    *peak = value > *peak ? value : *peak;
}

static void read_memory(struct run *run) {
    struct lf_buffer body = {0};
    long status;
    lf_client_get(&run->o->server, "/memory", &body, &status);
    json_t *memory = status == 200 && body.data ? json_loadb(body.data, body.len, 0, NULL)
                                                : NULL;
    const json_t *process = json_object_get(memory, "process");
    const json_t *device = json_object_get(memory, "device");
    raise(&run->peak.device_bytes, bytes_of(device, "peak_bytes"));
    raise(&run->peak.footprint_bytes, bytes_of(process, "resident_peak_bytes"));
    raise(&run->peak.plan_bytes, bytes_of(json_object_get(memory, "plan"), "need_bytes"));
    json_decref(memory);
    lf_buffer_free(&body);
}

// The kernel's own high-water mark of the watched process.
static void read_process(struct run *run) {
    char path[40];
    FILE *file;
    if (!run->o->watch)
        return;
    snprintf(path, sizeof path, "/proc/%llu/status", (unsigned long long)run->o->watch);
    // A proc file has no size, so it is not read as a regular file.
    if (!(file = fopen(path, "r")))
        return;
    char line[256];
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "VmHWM:", 6))
            raise(&run->peak.watched_bytes, strtoll(line + 6, NULL, 10) * 1024);
    fclose(file);
}

static bool all_done(struct run *run) {
    for (uint64_t i = 0; i < run->o->prompts; i++)
        if (!atomic_load(&run->client[i].done))
            return false;
    return true;
}

static void play(struct run *run) {
    struct timespec pause = {0, WATCH_MS * 1000000L};
    for (uint64_t i = 0; i < run->o->prompts; i++)
        lf_client_start(&run->client[i]);
    while (!all_done(run)) {
        read_process(run);
        nanosleep(&pause, NULL);
    }
    for (uint64_t i = 0; i < run->o->prompts; i++)
        lf_client_wait(&run->client[i]);
    read_process(run);
    read_memory(run);
}

static enum lf_status add_row(struct run *run, size_t i, struct lf_error *err) {
    const struct lf_answer *reply = &run->client[i].reply;
    char needle[16];
    snprintf(needle, sizeof needle, "%u", needle_of(i));
    bool found = (reply->content.data && strstr(reply->content.data, needle)) ||
                 (reply->reasoning.data && strstr(reply->reasoning.data, needle));
    json_t *row = lf_answer_evidence(reply);
    json_object_set_new(row, "prompt", json_integer((json_int_t)i));
    json_object_set_new(row, "depth", json_real(depth_of(i, run->o->prompts)));
    json_object_set_new(row, "needle_found", json_boolean(found));
    json_object_set_new(row, "prompt_tps",
                        lf_report_number((double)reply->prompt_tokens / reply->ttft_s));
    run->failed += lf_answer_failed(reply);
    run->missed += !found;
    run->warm += strcmp(lf_answer_cache_state(reply), "cold") != 0;
    // Words are not tokens: the length is met within a fiftieth.
    run->shorter += (double)reply->prompt_tokens < 0.98 * (double)run->o->length;
    return lf_report_row(run->report, row, err);
}

static enum lf_status end(struct run *run, struct lf_error *err) {
    const struct peak *p = &run->peak;
    int64_t most = p->device_bytes;
    raise(&most, p->footprint_bytes);
    raise(&most, p->watched_bytes);
    bool known = most >= 0 && p->plan_bytes > 0, over = known && most > p->plan_bytes;
    const char *memory = !known ? "unverified" : over ? "over" : "within";
    bool passed = known && !over && !run->failed && !run->missed && !run->warm && !run->shorter;
    json_t *verdict = json_pack(
        "{s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:s,s:b}", "rows", (json_int_t)run->o->prompts, "failed",
        (json_int_t)run->failed, "missed", (json_int_t)run->missed, "peak_device_bytes",
        lf_report_count(p->device_bytes), "peak_footprint_bytes",
        lf_report_count(p->footprint_bytes), "watched_peak_bytes",
        lf_report_count(p->watched_bytes), "plan_bytes", lf_report_count(p->plan_bytes),
        "peak_over_plan", known ? json_real((double)most / (double)p->plan_bytes) : json_null(),
        "memory", memory, "passed", passed);
    LF_TRY(lf_report_end(run->report, verdict, err));
    printf("%llu prompts, %llu failed, %llu missed, %llu not cold, %llu too short, memory %s\n",
           (unsigned long long)run->o->prompts, (unsigned long long)run->failed,
           (unsigned long long)run->missed, (unsigned long long)run->warm,
           (unsigned long long)run->shorter, memory);
    return passed ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not pass");
}

static enum lf_status run_prompts(struct run *run, struct lf_error *err) {
    const struct lf_bench_options *o = run->o;
    uint64_t words = (uint64_t)((double)o->length * run->words_per_token);
    for (uint64_t i = 0; i < o->prompts; i++) {
        struct lf_bench_ask ask = {.model = o->server.model, .tokens = o->tokens, .seed = o->seed};
        ask.messages = messages_of(i, words, depth_of(i, o->prompts), o->seed);
        if (!ask.messages)
            lf_fail(err, LF_E_MEM, "out of memory for a prompt");
        run->client[i] = (struct lf_client){.server = &o->server, .ask = ask};
    }
    LF_TRY(err->status);
    play(run);
    for (uint64_t i = 0; i < o->prompts; i++)
        LF_TRY(add_row(run, i, err));
    return LF_OK;
}

enum lf_status lf_bench_memory(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct run run = {.o = o, .report = &report, .peak = {-1, -1, -1, -1}};
    LF_TRY(calibrate(&run, err));
    json_t *settings = json_pack("{s:I,s:I,s:I,s:I}", "prompts", (json_int_t)o->prompts, "length",
                                 (json_int_t)o->length, "tokens", (json_int_t)o->tokens, "seed",
                                 (json_int_t)o->seed);
    enum lf_status status = lf_report_open(&report, "memory", "rows", true, settings, o->output,
                                           err);
    run.client = calloc(o->prompts, sizeof *run.client);
    if (!run.client)
        status = lf_fail(err, LF_E_MEM, "out of memory for the prompts");
    if (status == LF_OK)
        status = run_prompts(&run, err);
    for (uint64_t i = 0; run.client && i < o->prompts; i++) {
        json_decref(run.client[i].ask.messages);
        lf_answer_free(&run.client[i].reply);
    }
    free(run.client);
    if (status == LF_OK)
        return end(&run, err);
    lf_report_close(&report);
    return status;
}
