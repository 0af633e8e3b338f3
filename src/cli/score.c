#include "cli/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/utf8.h"
#include "cli/engine_flags.h"
#include "lane/session.h"
#include "model/model.h"
#include "text/json_text.h"

enum { FILE_BYTES_MAX = 64 << 20, CHUNK_ROWS = 64 };

struct score_flags {
    struct lf_engine_flags engine;
    bool json, help;
};

static void print_token(const struct lf_session *s, uint32_t id, double value, bool json,
                        bool first) {
    size_t len;
    const char *bytes = lf_tokenizer_bytes(s->tokenizer, id, &len);
    struct lf_buffer text = {0}, quoted = {0};
    lf_utf8_repair(&text, bytes, len);
    lf_json_print_string(&quoted, text.data ? text.data : "", text.len);
    if (json)
        printf("%s{\"id\":%u,\"token\":%s,\"logprob\":%.9g}", first ? "" : ",", id, quoted.data,
               value);
    else
        printf("%10.5f  %6u  %s\n", value, id, quoted.data);
    lf_buffer_free(&text);
    lf_buffer_free(&quoted);
}

// Runs the rows in chunks; row i's logits score id i + 1, so the last is not run.
static enum lf_status score(const struct lf_session *s, struct lf_target *target,
                            const struct lf_ids *ids, bool json, struct lf_error *err) {
    struct lf_logprob_row row[CHUNK_ROWS];
    double total = 0, n = (double)(ids->len - 1);
    float *logits = malloc((size_t)CHUNK_ROWS * s->topology->vocab * sizeof *logits);
    if (!logits)
        return lf_fail(err, LF_E_MEM, "out of memory for logits");
    for (size_t at = 0; err->status == LF_OK && at + 1 < ids->len;) {
        size_t left = ids->len - 1 - at;
        struct lf_chunk chunk = {.rows = left < CHUNK_ROWS ? (uint32_t)left : CHUNK_ROWS,
                                 .pos0 = at, .tok = ids->id + at};
        const uint32_t *next = chunk.tok + 1;
        if (target->ops->grow(target, 0, at + chunk.rows, err) != LF_OK ||
            lf_model_score(target, &chunk, logits, err) != LF_OK ||
            lf_model_logprobs(target, logits, chunk.rows, next, row, err) != LF_OK)
            break;
        for (uint32_t r = 0; r < chunk.rows; r++) {
            if (isnan(row[r].drawn)) {
                lf_fail(err, LF_E_NONFINITE, "the model's logits for token %zu are not finite",
                        at + r + 1);
                break;
            }
            print_token(s, next[r], (double)row[r].drawn, json, at + r == 0);
            total += (double)row[r].drawn;
        }
        at += chunk.rows;
    }
    free(logits);
    if (err->status == LF_OK && json)
        printf("],\"tokens\":%zu,\"logprob\":%.9g,\"perplexity\":%.9g}\n", ids->len - 1, total,
               exp(-total / n));
    else if (err->status == LF_OK)
        printf("%zu tokens, log-probability %.5f, perplexity %.5f\n", ids->len - 1, total,
               exp(-total / n));
    return err->status;
}

static enum lf_status score_file(const struct lf_session *s, struct lf_target *target,
                                 const char *path, bool json, struct lf_error *err) {
    struct lf_buffer text = {0};
    struct lf_ids ids = {0};
    lf_ids_add(&ids, s->topology->bos_id);
    if (lf_file_read(&text, path, FILE_BYTES_MAX, err) == LF_OK &&
        lf_tokenizer_encode(s->tokenizer, text.data, text.len, false, &ids, err) == LF_OK) {
        uint64_t context = target->ops->info(target)->context;
        if (ids.len < 2)
            lf_fail(err, LF_E_VALUE, "%s is empty: expected a text", path);
        else if (ids.len > context)
            lf_fail(err, LF_E_CONTEXT, "%s has %zu tokens with the first, the context has %llu",
                    path, ids.len, (unsigned long long)context);
        else {
            if (json)
                fputs("{\"logprobs\":[", stdout);
            score(s, target, &ids, json, err);
        }
    }
    lf_ids_free(&ids);
    lf_buffer_free(&text);
    return err->status;
}

enum lf_status lf_command_score(int argc, char **argv, struct lf_error *err) {
    struct score_flags f = {.engine = LF_ENGINE_FLAGS_INIT};
    struct lf_flag flag[] = {
        {.name = "json", .kind = LF_FLAG_ON, .out = &f.json, .help = "as one JSON object"},
        LF_ENGINE_FLAG_ROWS(f.engine),
        {.name = "help", .kind = LF_FLAG_ON, .out = &f.help, .help = "this text"},
    };
    struct lf_positionals given;
    struct lf_session session = {0};
    LF_TRY(lf_flags_parse(flag, sizeof flag / sizeof *flag, argc, argv, &given, 2, err));
    if (f.help) {
        lf_flags_print("score [MODEL] FILE [options]",
                       "Log-probability of each token of a text file, and its perplexity.", flag,
                       sizeof flag / sizeof *flag);
        return LF_OK;
    }
    if (!given.n)
        return lf_fail(err, LF_E_USAGE, "a text FILE is missing");
    const char *model = given.n > 1 ? given.value[0] : NULL;
    struct lf_engine_options options = lf_engine_flags_single(&f.engine);
    struct lf_target *target = NULL;
    LF_TRY(lf_engine_flags_dummy(&options, &f.engine, err));
    if (lf_session_plan(&session, model, &options, err) == LF_OK &&
        lf_session_load(&session, options.isa, &target, err) == LF_OK)
        score_file(&session, target, given.value[given.n - 1], f.json, err);
    if (target)
        target->ops->close(target);
    lf_session_close(&session);
    return err->status;
}
