// How fast N streams decode; are their tokens those alone and without drafts (section 3)?
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/client.h"
#include "bench/rates.h"
#include "bench/report.h"
#include "bench/stats.h"

enum { WARMUP_TOKENS = 16 };

struct counts {
    uint64_t equal, unequal, failed, unverified;
};

// A request alone, and the same without drafts.
struct solo {
    const struct lf_bench_prompt *prompt;
    uint64_t seed;
    struct lf_answer alone, plain;
};

// What cells of one prompt and temperature share.
struct group {
    const struct lf_bench_options *o;
    struct lf_report *report;
    const struct lf_bench_prompt *prompt; // NULL: mixed
    double temperature;
    bool alone, serial, warmup_failed;
    struct solo *solo;
    size_t solos;
    uint64_t cells, failed, unequal; // over all groups
};

struct cell {
    uint64_t level, failed, unmeasured, unhashed;
    struct counts alone, serial;
    double ttft_s_max;
};

static struct lf_bench_ask ask_of(const struct group *g, uint64_t stream) {
    const struct lf_bench_options *o = g->o;
    uint64_t step = g->prompt ? stream : stream / 2;
    return (struct lf_bench_ask){
        .model = o->server.model,
        .prompt = g->prompt ? g->prompt : &lf_bench_prompt[stream % LF_BENCH_PROMPTS],
        .tokens = o->tokens, .temperature = g->temperature, .no_seed = o->no_seed,
        .seed = o->seed + (g->temperature > 0 ? step : 0), .no_filters = o->no_filters};
}

static struct solo *find_solo(const struct group *g, const struct lf_bench_ask *ask) {
    for (size_t i = 0; i < g->solos; i++)
        if (g->solo[i].prompt == ask->prompt && g->solo[i].seed == ask->seed)
            return &g->solo[i];
    return NULL;
}

static void count(struct counts *c, const struct lf_answer *a, const struct lf_answer *b) {
    enum lf_answer_equal equal = lf_answer_compare(a, b);
    if (lf_answer_failed(a) || lf_answer_failed(b))
        c->failed++;
    else if (equal == LF_ANSWER_UNVERIFIED)
        c->unverified++;
    else if (equal == LF_ANSWER_EQUAL)
        c->equal++;
    else
        c->unequal++;
}

// Every (prompt, seed) that the levels will use, alone and once more without drafts.
static enum lf_status run_solos(struct group *g, struct lf_error *err) {
    uint64_t most = 0;
    for (size_t l = 0; l < g->o->levels; l++)
        most = g->o->level[l] > most ? g->o->level[l] : most;
    g->solo = calloc(most, sizeof *g->solo);
    if (!g->solo)
        return lf_fail(err, LF_E_MEM, "out of memory for replies");
    for (uint64_t i = 0; i < most; i++) {
        struct lf_bench_ask ask = ask_of(g, i);
        if (find_solo(g, &ask))
            continue;
        struct solo *solo = &g->solo[g->solos++];
        solo->prompt = ask.prompt;
        solo->seed = ask.seed;
        lf_client_run(&g->o->server, &ask, &solo->alone);
        ask.plain = true;
        if (g->serial)
            lf_client_run(&g->o->server, &ask, &solo->plain);
    }
    return LF_OK;
}

static void free_solos(struct group *g) {
    for (size_t i = 0; i < g->solos; i++) {
        lf_answer_free(&g->solo[i].alone);
        lf_answer_free(&g->solo[i].plain);
    }
    free(g->solo);
    g->solo = NULL;
    g->solos = 0;
}

static json_t *repetition_of(const struct group *g, struct cell *cell,
                             const struct lf_client *client, double *aggregate, double *steady) {
    json_t *row = json_object(), *tps = json_array(), *ttft = json_array();
    json_t *errors = json_array(), *hashes = json_array();
    uint64_t unhashed = 0;
    for (uint64_t i = 0; i < cell->level; i++) {
        const struct lf_answer *reply = &client[i].reply;
        json_array_append_new(tps, lf_report_number(reply->decode_tps));
        json_array_append_new(ttft, lf_report_number(reply->ttft_s));
        json_array_append_new(errors, reply->error ? json_string(reply->error) : json_null());
        json_array_append_new(hashes, lf_report_text(reply->token_sha));
        unhashed += !*reply->token_sha;
        cell->failed += lf_answer_failed(reply);
        cell->unmeasured += !lf_answer_measured(reply);
        if (reply->ttft_s > cell->ttft_s_max || isnan(cell->ttft_s_max))
            cell->ttft_s_max = reply->ttft_s;
        const struct solo *solo = find_solo(g, &client[i].ask);
        if (solo && g->alone)
            count(&cell->alone, reply, &solo->alone);
    }
    cell->unhashed += unhashed;
    *aggregate = lf_rates_aggregate(client, cell->level);
    *steady = lf_rates_steady(client, cell->level);
    json_object_set_new(row, "per_stream_tps", tps);
    json_object_set_new(row, "ttft_s", ttft);
    json_object_set_new(row, "errors", errors);
    json_object_set_new(row, "token_hashes", hashes);
    json_object_set_new(row, "hashes_unverified", json_integer((json_int_t)unhashed));
    json_object_set_new(row, "aggregate_tps", lf_report_number(*aggregate));
    json_object_set_new(row, "steady_tps", lf_report_number(*steady));
    return row;
}

static void count_serial(const struct group *g, struct cell *cell) {
    for (size_t i = 0; i < g->solos; i++)
        for (uint64_t s = 0; s < cell->level; s++) {
            struct lf_bench_ask ask = ask_of(g, s);
            if (g->solo[i].prompt != ask.prompt || g->solo[i].seed != ask.seed)
                continue;
            count(&cell->serial, &g->solo[i].alone, &g->solo[i].plain);
            break;
        }
}

static json_t *counts_json(const struct counts *c) {
    return json_pack("{s:I,s:I,s:I,s:I}", "equal", (json_int_t)c->equal, "unequal",
                     (json_int_t)c->unequal, "failed", (json_int_t)c->failed, "unverified",
                     (json_int_t)c->unverified);
}

static bool cell_passes(const struct group *g, const struct cell *c) {
    bool good = !c->failed && !g->warmup_failed && !c->alone.failed && !c->serial.failed &&
                !c->alone.unequal && !c->serial.unequal;
    bool sure = !c->unmeasured && !c->unhashed && !c->alone.unverified && !c->serial.unverified;
    return good && (sure || !g->o->strict);
}

static enum lf_status end_cell(struct group *g, struct cell *cell, json_t *repetitions,
                               const double *rate, struct lf_error *err) {
    const struct lf_bench_options *o = g->o;
    json_t *row = json_object();
    uint64_t n = o->reps;
    if (g->serial)
        count_serial(g, cell);
    bool passed = cell_passes(g, cell);
    json_object_set_new(row, "label", lf_report_text(o->label));
    json_object_set_new(row, "temperature", json_real(g->temperature));
    json_object_set_new(row, "prompt", json_string(g->prompt ? g->prompt->name : "mixed"));
    json_object_set_new(row, "level", json_integer((json_int_t)cell->level));
    json_object_set_new(row, "repetitions", repetitions);
    json_object_set_new(row, "aggregate_tps_median", lf_report_number(lf_stats_median(rate, n)));
    json_object_set_new(row, "steady_tps_median", lf_report_number(lf_stats_median(rate + n, n)));
    json_object_set_new(row, "per_stream_tps_median",
                        lf_report_number(lf_stats_median(rate + 2 * n, n * cell->level)));
    json_object_set_new(row, "ttft_s_max", lf_report_number(cell->ttft_s_max));
    json_object_set_new(row, "failed", json_integer((json_int_t)cell->failed));
    json_object_set_new(row, "unmeasured", json_integer((json_int_t)cell->unmeasured));
    json_object_set_new(row, "hashes_unverified", json_integer((json_int_t)cell->unhashed));
    json_object_set_new(row, "warmup_failed", json_boolean(g->warmup_failed));
    if (g->alone)
        json_object_set_new(row, "alone", counts_json(&cell->alone));
    if (g->serial)
        json_object_set_new(row, "serial", counts_json(&cell->serial));
    json_object_set_new(row, "passed", json_boolean(passed));
    g->cells++;
    g->failed += !passed;
    g->unequal += cell->alone.unequal || cell->serial.unequal;
    return lf_report_row(g->report, row, err);
}

static enum lf_status run_cell(struct group *g, uint64_t level, struct lf_error *err) {
    struct cell cell = {.level = level, .ttft_s_max = NAN};
    uint64_t reps = g->o->reps;
    struct lf_client *client = calloc(level, sizeof *client);
    // Per repetition the aggregate, then the steady rates, then every stream's.
    double *rate = calloc(reps * (2 + level), sizeof *rate);
    json_t *repetitions = json_array();
    if (!client || !rate || !repetitions) {
        free(client);
        free(rate);
        json_decref(repetitions);
        return lf_fail(err, LF_E_MEM, "out of memory for a cell");
    }
    for (uint64_t r = 0; r < reps; r++) {
        for (uint64_t i = 0; i < level; i++)
            client[i] = (struct lf_client){.server = &g->o->server, .ask = ask_of(g, i)};
        lf_client_gang(client, level, g->o->stagger_ms);
        json_array_append_new(repetitions, repetition_of(g, &cell, client, &rate[r],
                                                         &rate[reps + r]));
        for (uint64_t i = 0; i < level; i++) {
            rate[2 * reps + r * level + i] = client[i].reply.decode_tps;
            lf_answer_free(&client[i].reply);
        }
    }
    enum lf_status status = end_cell(g, &cell, repetitions, rate, err);
    free(client);
    free(rate);
    return status;
}

static enum lf_status run_group(struct group *g, struct lf_error *err) {
    enum lf_status status = LF_OK;
    g->warmup_failed = false;
    for (uint64_t i = 0; i < (g->prompt ? 1 : LF_BENCH_PROMPTS); i++) {
        struct lf_answer warm;
        struct lf_bench_ask ask = ask_of(g, i);
        ask.tokens = WARMUP_TOKENS;
        lf_client_run(&g->o->server, &ask, &warm);
        g->warmup_failed |= lf_answer_failed(&warm);
        lf_answer_free(&warm);
    }
    if (g->alone || g->serial)
        status = run_solos(g, err);
    for (size_t l = 0; l < g->o->levels && status == LF_OK; l++)
        status = run_cell(g, g->o->level[l], err);
    free_solos(g);
    return status;
}

static json_t *settings_of(const struct lf_bench_options *o) {
    json_t *temperatures = json_array(), *levels = json_array();
    for (size_t i = 0; i < o->temperatures; i++)
        json_array_append_new(temperatures, json_real(o->temperature[i]));
    for (size_t i = 0; i < o->levels; i++)
        json_array_append_new(levels, json_integer((json_int_t)o->level[i]));
    return json_pack("{s:I,s:I,s:I,s:o,s:o,s:b,s:b,s:b,s:b,s:b,s:b,s:f}", "tokens",
                     (json_int_t)o->tokens, "reps", (json_int_t)o->reps, "seed",
                     (json_int_t)o->seed, "temperatures", temperatures, "levels", levels, "mixed",
                     o->mixed, "alone", o->alone, "serial", o->serial, "strict", o->strict,
                     "no_seed", o->no_seed, "no_filters", o->no_filters, "stagger_ms",
                     o->stagger_ms);
}

enum lf_status lf_bench_concurrent(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    // Without seeds a reply may differ from itself: nothing can be compared.
    struct group g = {.o = o, .report = &report, .alone = o->alone && !o->no_seed,
                      .serial = o->serial && !o->no_seed};
    if (o->no_seed && o->strict)
        return lf_fail(err, LF_E_USAGE, "--no-seed compares nothing: it cannot go with --strict");
    enum lf_status status = lf_report_open(&report, "concurrent", "cells", false, settings_of(o),
                                           o->output, err);
    for (size_t t = 0; t < o->temperatures; t++)
        for (size_t p = 0; p < (o->mixed ? 1 : LF_BENCH_PROMPTS) && status == LF_OK; p++) {
            g.temperature = o->temperature[t];
            g.prompt = o->mixed ? NULL : &lf_bench_prompt[p];
            status = run_group(&g, err);
        }
    if (status != LF_OK) {
        lf_report_close(&report);
        return status;
    }
    json_t *verdict = json_pack("{s:I,s:I,s:I,s:b}", "cells", (json_int_t)g.cells, "failed",
                                (json_int_t)g.failed, "unequal", (json_int_t)g.unequal, "passed",
                                !g.failed);
    LF_TRY(lf_report_end(&report, verdict, err));
    printf("%llu cells, %llu failed, %llu unequal\n", (unsigned long long)g.cells,
           (unsigned long long)g.failed, (unsigned long long)g.unequal);
    return g.failed ? lf_fail(err, LF_E_VALUE, "the run did not pass") : LF_OK;
}
