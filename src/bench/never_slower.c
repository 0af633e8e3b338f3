// Whether any drafted cell is slower than the same cell without drafts (bench.md section 5).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/child.h"
#include "bench/client.h"
#include "bench/rates.h"
#include "bench/report.h"
#include "bench/stats.h"

enum { DRAFTS, PLAIN, MODES, WARMUP_TOKENS = 16, BLOCKS_MAX = 64, RUNS = 4, REPS_MAX = 64 };
static const char *const mode_name[MODES] = {"drafts", "plain"};
static const char *const mode_flags[MODES] = {"--prompt-cache-gib 0",
                                              "--prompt-cache-gib 0 --no-drafts"};

struct cell {
    const struct lf_bench_prompt *prompt; // NULL: the cold prompt
    double temperature;
    uint64_t level;
    int order[RUNS]; // modes of a block
    struct lf_bench_ask ask;
    double figure[MODES][2 * BLOCKS_MAX * REPS_MAX]; // of every repetition
    size_t figures[MODES];
    double ratio[BLOCKS_MAX];
    size_t blocks;
    struct lf_answer reference[LF_BENCH_STREAMS_MAX]; // the first run's, of which hashes are kept
    bool has_reference, failed, unequal, unverified;
    double low, high;
    const char *verdict;
};

struct sweep {
    const struct lf_bench_options *o;
    struct lf_report *report;
    struct lf_buffer table;
    uint64_t cells, slower, unequal, noisy, failed, unverified;
    bool broken; // a server did not start or stop
};

// Every run of a cell, in both modes, must give the first run's tokens.
static void compare(struct cell *cell, const struct lf_client *client) {
    for (uint64_t i = 0; i < cell->level; i++) {
        const struct lf_answer *reply = &client[i].reply;
        struct lf_answer *first = &cell->reference[i];
        cell->failed |= lf_answer_failed(reply);
        if (!cell->has_reference) {
            first->complete = reply->complete;
            first->error = reply->error;
            memcpy(first->token_sha, reply->token_sha, sizeof first->token_sha);
        }
        enum lf_answer_equal equal = lf_answer_compare(first, reply);
        cell->unequal |= equal == LF_ANSWER_UNEQUAL;
        cell->unverified |= equal == LF_ANSWER_UNVERIFIED;
        // A cold cell that used a kept prefix measured something else.
        cell->failed |= !cell->prompt && strcmp(lf_answer_cache_state(reply), "cold");
    }
    cell->has_reference = true;
}

static double repetition(struct cell *cell, const struct lf_bench_server *server,
                         struct lf_client *client) {
    for (uint64_t i = 0; i < cell->level; i++) {
        client[i] = (struct lf_client){.server = server, .ask = cell->ask};
        client[i].ask.model = server->model;
        client[i].ask.seed += cell->temperature > 0 ? i : 0;
    }
    lf_client_gang(client, cell->level, 0);
    compare(cell, client);
    double figure = cell->level > 1 ? lf_rates_aggregate(client, cell->level)
                                    : client[0].reply.decode_tps;
    // Streams that were not measured would make the sum of the others look slow.
    for (uint64_t i = 0; i < cell->level; i++) {
        figure = lf_answer_measured(&client[i].reply) ? figure : (double)NAN;
        figure = cell->prompt ? figure : client[i].reply.ttft_s;
        lf_answer_free(&client[i].reply);
    }
    return figure;
}

// The median figure of one fresh server.
static double run_server(struct sweep *sweep, struct cell *cell, int mode, struct lf_error *err) {
    const struct lf_bench_options *o = sweep->o;
    struct lf_child child;
    uint64_t reps = cell->prompt ? o->reps : 1;
    double *figure = &cell->figure[mode][cell->figures[mode]];
    struct lf_client *client = calloc(cell->level, sizeof *client);
    if (!client) {
        lf_fail(err, LF_E_MEM, "out of memory for streams");
        return NAN;
    }
    if (lf_child_start(&child, o->serve, mode_flags[mode], o->server.key, o->start_s, err) !=
        LF_OK) {
        free(client);
        return NAN;
    }
    if (cell->prompt) {
        struct lf_answer warm;
        struct lf_bench_ask ask = cell->ask;
        ask.model = child.server.model;
        ask.tokens = WARMUP_TOKENS;
        lf_client_run(&child.server, &ask, &warm);
        cell->failed |= lf_answer_failed(&warm);
        lf_answer_free(&warm);
    }
    for (uint64_t r = 0; r < reps; r++)
        cell->figure[mode][cell->figures[mode]++] = repetition(cell, &child.server, client);
    free(client);
    (void)!lf_child_stop(&child, err);
    return lf_stats_median(figure, reps);
}

// A B B A: heat and load fall on both modes.
static void run_block(struct sweep *sweep, struct cell *cell) {
    double sum[MODES] = {0};
    struct lf_error err = LF_ERROR_INIT;
    for (int i = 0; i < RUNS && !cell->failed; i++) {
        double figure = run_server(sweep, cell, cell->order[i], &err);
        sum[cell->order[i]] += figure;
        cell->failed |= isnan(figure) || err.status != LF_OK;
    }
    if (err.status != LF_OK) {
        fprintf(stderr, "%s\n", err.text);
        sweep->broken = true;
    }
    // Of times the smaller is the better, of rates the larger.
    cell->ratio[cell->blocks++] = cell->prompt ? sum[DRAFTS] / sum[PLAIN]
                                               : sum[PLAIN] / sum[DRAFTS];
}

static void judge(struct cell *cell, double tolerance) {
    static const char *const names[] = {"pass", "slower", "noisy"};
    lf_stats_bounds(cell->ratio, cell->blocks, &cell->low, &cell->high);
    if (cell->failed)
        cell->verdict = "failed";
    else if (cell->unequal)
        cell->verdict = "unequal";
    else if (cell->unverified)
        cell->verdict = "unverified";
    else
        cell->verdict = names[lf_stats_ratio(cell->ratio, cell->blocks, tolerance)];
}

static json_t *spread(const double *figure, size_t n) {
    json_t *all = json_array();
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(all, lf_report_number(figure[i]));
        least = fmin(least, figure[i]);
        most = fmax(most, figure[i]);
    }
    return json_pack("{s:o,s:o,s:o,s:o}", "median", lf_report_number(lf_stats_median(figure, n)),
                     "min", lf_report_number(least), "max", lf_report_number(most), "all", all);
}

static json_t *row_of(const struct cell *c) {
    json_t *ratios = json_array(), *row = json_object();
    char order[64];
    snprintf(order, sizeof order, "%s-%s-%s-%s", mode_name[c->order[0]], mode_name[c->order[1]],
             mode_name[c->order[2]], mode_name[c->order[3]]);
    for (size_t i = 0; i < c->blocks; i++)
        json_array_append_new(ratios, lf_report_number(c->ratio[i]));
    json_object_set_new(row, "kind", json_string(c->prompt ? "decode" : "cold"));
    json_object_set_new(row, "prompt", json_string(c->prompt ? c->prompt->name : "cold"));
    json_object_set_new(row, "temperature", json_real(c->temperature));
    json_object_set_new(row, "level", json_integer((json_int_t)c->level));
    json_object_set_new(row, "unit", json_string(c->prompt ? "tokens-per-s" : "ttft-s"));
    json_object_set_new(row, "order", json_string(order));
    json_object_set_new(row, "blocks", json_integer((json_int_t)c->blocks));
    json_object_set_new(row, "drafts", spread(c->figure[DRAFTS], c->figures[DRAFTS]));
    json_object_set_new(row, "plain", spread(c->figure[PLAIN], c->figures[PLAIN]));
    json_object_set_new(row, "ratios", ratios);
    json_object_set_new(row, "ratio", lf_report_number(lf_stats_median(c->ratio, c->blocks)));
    json_object_set_new(row, "ratio_low", lf_report_number(c->low));
    json_object_set_new(row, "ratio_high", lf_report_number(c->high));
    json_object_set_new(row, "hashes", json_string(c->unequal      ? "unequal"
                                                   : c->unverified ? "unverified"
                                                                   : "equal"));
    json_object_set_new(row, "verdict", json_string(c->verdict));
    return row;
}

static void tally(struct sweep *sweep, const struct cell *c) {
    sweep->cells++;
    sweep->failed += !strcmp(c->verdict, "failed");
    sweep->unequal += c->unequal;
    sweep->unverified += !strcmp(c->verdict, "unverified");
    sweep->slower += !strcmp(c->verdict, "slower");
    sweep->noisy += !strcmp(c->verdict, "noisy");
    lf_buffer_printf(&sweep->table, "%-18s T %-4g N %-3llu  drafts %9.3f  plain %9.3f %s  "
                                    "ratio %6.3f  %s\n",
                     c->prompt ? c->prompt->name : "cold", c->temperature,
                     (unsigned long long)c->level,
                     lf_stats_median(c->figure[DRAFTS], c->figures[DRAFTS]),
                     lf_stats_median(c->figure[PLAIN], c->figures[PLAIN]),
                     c->prompt ? "tok/s" : "s    ", lf_stats_median(c->ratio, c->blocks),
                     c->verdict);
}

static enum lf_status run_cell(struct sweep *sweep, const struct lf_bench_prompt *prompt,
                               json_t *ids, double temperature, uint64_t level,
                               struct lf_error *err) {
    const struct lf_bench_options *o = sweep->o;
    struct cell *cell = calloc(1, sizeof *cell);
    if (!cell)
        return lf_fail(err, LF_E_MEM, "out of memory for a cell");
    cell->prompt = prompt;
    cell->temperature = temperature;
    cell->level = level;
    cell->ask = (struct lf_bench_ask){.prompt = prompt, .ids = ids, .tokens = o->tokens,
                                      .temperature = temperature, .seed = o->seed,
                                      .no_filters = o->no_filters};
    int a = sweep->cells % 2 ? PLAIN : DRAFTS;
    for (int i = 0; i < RUNS; i++)
        cell->order[i] = i == 0 || i == RUNS - 1 ? a : 1 - a;
    do {
        run_block(sweep, cell);
        judge(cell, o->tolerance);
    } while (!cell->failed && !cell->unequal && !cell->unverified &&
             (cell->blocks < o->blocks ||
              (!strcmp(cell->verdict, "noisy") && cell->blocks < o->blocks_max)));
    tally(sweep, cell);
    enum lf_status status = lf_report_row(sweep->report, row_of(cell), err);
    free(cell);
    return status;
}

static enum lf_status run_cells(struct sweep *sweep, json_t *ids, struct lf_error *err) {
    const struct lf_bench_options *o = sweep->o;
    for (size_t p = 0; p < LF_BENCH_PROMPTS; p++)
        for (size_t t = 0; t < o->temperatures; t++)
            for (size_t l = 0; l < o->levels && !sweep->broken; l++)
                LF_TRY(run_cell(sweep, &lf_bench_prompt[p], NULL, o->temperature[t], o->level[l],
                                err));
    return ids && !sweep->broken ? run_cell(sweep, NULL, ids, 0, 1, err) : LF_OK;
}

static enum lf_status end(struct sweep *s, struct lf_error *err) {
    bool passed = !s->slower && !s->unequal && !s->noisy && !s->failed && !s->unverified;
    json_t *verdict = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "cells", (json_int_t)s->cells, "slower",
        (json_int_t)s->slower, "unequal", (json_int_t)s->unequal, "noisy", (json_int_t)s->noisy,
        "failed", (json_int_t)s->failed, "unverified", (json_int_t)s->unverified, "passed", passed);
    fputs(s->table.data ? s->table.data : "", stdout);
    LF_TRY(lf_report_end(s->report, verdict, err));
    printf("%llu cells, %llu slower, %llu unequal, %llu noisy", (unsigned long long)s->cells,
           (unsigned long long)s->slower, (unsigned long long)s->unequal,
           (unsigned long long)s->noisy);
    // Cells without a verdict are named only where there are any.
    if (s->failed)
        printf(", %llu failed", (unsigned long long)s->failed);
    if (s->unverified)
        printf(", %llu unverified", (unsigned long long)s->unverified);
    puts("");
    return passed ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not pass");
}

enum lf_status lf_bench_never_slower(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct sweep sweep = {.o = o, .report = &report};
    json_t *ids = NULL;
    char sha[65] = "";
    if (!o->serve)
        return lf_fail(err, LF_E_USAGE, "--serve \"COMMAND ...\" is missing");
    if (o->blocks_max < o->blocks)
        return lf_fail(err, LF_E_USAGE, "--blocks-max is below --blocks");
    if (o->cold_prompt)
        LF_TRY(lf_ask_read_ids(&ids, sha, o->cold_prompt, err));
    json_t *settings = json_pack("{s:I,s:I,s:I,s:f,s:I,s:I,s:o,s:b}", "tokens",
                                 (json_int_t)o->tokens, "reps", (json_int_t)o->reps, "seed",
                                 (json_int_t)o->seed, "tolerance", o->tolerance, "blocks",
                                 (json_int_t)o->blocks, "blocks_max", (json_int_t)o->blocks_max,
                                 "prompt_sha256", lf_report_text(sha), "no_filters",
                                 o->no_filters);
    enum lf_status status = lf_report_open(&report, "never-slower", "cells", true, settings,
                                           o->output, err);
    if (status == LF_OK)
        status = run_cells(&sweep, ids, err);
    json_decref(ids);
    if (status == LF_OK)
        status = end(&sweep, err);
    else
        lf_report_close(&report);
    lf_buffer_free(&sweep.table);
    return status;
}
