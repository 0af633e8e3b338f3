// How fast one stream decodes and how soon it starts (bench.md section 2).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/client.h"
#include "bench/report.h"
#include "bench/stats.h"

enum { SAMPLE_CHARS = 160 };

struct tally {
    uint64_t rows, failed, unequal;
};

// The first characters of a reply, cut between characters.
static json_t *sample_of(const struct lf_answer *reply) {
    const struct lf_buffer *text = reply->content.len ? &reply->content : &reply->reasoning;
    size_t len = 0, chars = 0;
    while (len < text->len) {
        chars += ((unsigned char)text->data[len] & 0xc0) != 0x80;
        if (chars > SAMPLE_CHARS)
            break;
        len++;
    }
    return json_stringn(text->data ? text->data : "", len);
}

static json_t *row_of(const struct lf_bench_options *o, const struct lf_bench_prompt *prompt,
                      double temperature, const struct lf_answer *reply) {
    json_t *row = json_object(), *all = json_array(), *evidence = json_array();
    double *tps = calloc(o->reps, sizeof *tps), *ttft = calloc(o->reps, sizeof *ttft);
    for (uint64_t i = 0; tps && ttft && i < o->reps; i++) {
        tps[i] = reply[i].decode_tps;
        ttft[i] = reply[i].ttft_s;
        json_array_append_new(all, lf_report_number(tps[i]));
        json_array_append_new(evidence, lf_answer_evidence(&reply[i]));
    }
    if (tps && ttft) {
        json_object_set_new(row, "label", lf_report_text(o->label));
        json_object_set_new(row, "prompt", json_string(prompt->name));
        json_object_set_new(row, "temperature", json_real(temperature));
        json_object_set_new(row, "tokens", json_integer((json_int_t)o->tokens));
        json_object_set_new(row, "decode_tps_median",
                            lf_report_number(lf_stats_median(tps, o->reps)));
        json_object_set_new(row, "decode_tps_all", json_incref(all));
        json_object_set_new(row, "ttft_s_median",
                            lf_report_number(lf_stats_median(ttft, o->reps)));
        json_object_set_new(row, "evidence", json_incref(evidence));
        json_object_set_new(row, "sample", sample_of(&reply[0]));
    } else {
        json_decref(row);
        row = NULL;
    }
    json_decref(all);
    json_decref(evidence);
    free(tps);
    free(ttft);
    return row;
}

static enum lf_status run_row(const struct lf_bench_options *o, struct lf_report *report,
                              const struct lf_bench_prompt *prompt, double temperature,
                              struct tally *tally, struct lf_error *err) {
    struct lf_answer warm, *reply = calloc(o->reps, sizeof *reply);
    struct lf_bench_ask ask = {.model = o->server.model, .prompt = prompt, .tokens = o->tokens,
                               .temperature = temperature, .seed = o->seed,
                               .no_seed = o->seed_from_prompt, .no_filters = o->no_filters};
    if (!reply)
        return lf_fail(err, LF_E_MEM, "out of memory for replies");
    lf_client_run(&o->server, &ask, &warm);
    bool failed = lf_answer_failed(&warm), unequal = false;
    // One request repeated must give one reply; other seeds may differ.
    bool repeats = temperature <= 0 || o->seed_from_prompt;
    for (uint64_t i = 0; i < o->reps; i++) {
        ask.seed = o->seed + i;
        lf_client_run(&o->server, &ask, &reply[i]);
        failed |= lf_answer_failed(&reply[i]);
        unequal |= repeats && lf_answer_compare(&reply[0], &reply[i]) == LF_ANSWER_UNEQUAL;
    }
    tally->rows++;
    tally->failed += failed;
    tally->unequal += unequal;
    enum lf_status status = lf_report_row(report, row_of(o, prompt, temperature, reply), err);
    for (uint64_t i = 0; i < o->reps; i++)
        lf_answer_free(&reply[i]);
    lf_answer_free(&warm);
    free(reply);
    return status;
}

static json_t *settings_of(const struct lf_bench_options *o) {
    json_t *temperatures = json_array();
    for (size_t i = 0; i < o->temperatures; i++)
        json_array_append_new(temperatures, json_real(o->temperature[i]));
    return json_pack("{s:I,s:I,s:I,s:o,s:b,s:b}", "tokens", (json_int_t)o->tokens, "reps",
                     (json_int_t)o->reps, "seed", (json_int_t)o->seed, "temperatures",
                     temperatures, "seed_from_prompt", o->seed_from_prompt, "no_filters",
                     o->no_filters);
}

enum lf_status lf_bench_openai(const struct lf_bench_options *o, struct lf_error *err) {
    struct lf_report report;
    struct tally tally = {0};
    enum lf_status status = lf_report_open(&report, "openai", "rows", false, settings_of(o),
                                           o->output, err);
    for (size_t t = 0; t < o->temperatures; t++)
        for (size_t p = 0; p < LF_BENCH_PROMPTS && status == LF_OK; p++)
            status = run_row(o, &report, &lf_bench_prompt[p], o->temperature[t], &tally, err);
    bool passed = !tally.failed && !tally.unequal;
    json_t *verdict = json_pack("{s:I,s:I,s:I,s:b}", "rows", (json_int_t)tally.rows, "failed",
                                (json_int_t)tally.failed, "unequal", (json_int_t)tally.unequal,
                                "passed", passed);
    if (status != LF_OK) {
        json_decref(verdict);
        lf_report_close(&report);
        return status;
    }
    LF_TRY(lf_report_end(&report, verdict, err));
    printf("%llu rows, %llu failed, %llu unequal\n", (unsigned long long)tally.rows,
           (unsigned long long)tally.failed, (unsigned long long)tally.unequal);
    return passed ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not pass");
}
