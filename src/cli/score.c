#include "cli/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/utf8.h"
#include "cli/session.h"
#include "text/json_text.h"

enum { FILE_BYTES_MAX = 64 << 20, CHUNK_ROWS = 64 };

struct score_flags {
    struct lf_session_flags session;
    bool json, help;
};

// log softmax of one id at temperature 1, in float64 from the float32 logits (engine.md S-20).
static double log_probability(const float *logits, uint32_t vocab, uint32_t id) {
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    return (double)logits[id] - most - log(sum);
}

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

// Runs the rows in chunks; row i's logits score id i + 1.
static enum lf_status score(struct lf_session *s, const struct lf_ids *ids, bool json,
                            struct lf_error *err) {
    uint32_t vocab = s->topology->vocab;
    double total = 0;
    float *logits = malloc((size_t)CHUNK_ROWS * vocab * sizeof *logits);
    if (!logits)
        return lf_fail(err, LF_E_MEM, "out of memory for logits");
    for (size_t at = 0; at < ids->len && err->status == LF_OK;) {
        size_t left = ids->len - at;
        struct lf_chunk chunk = {.rows = left < CHUNK_ROWS ? (uint32_t)left : CHUNK_ROWS,
                                 .pos0 = at, .tok = ids->id + at};
        if (s->target->ops->grow(s->target, 0, at + chunk.rows, err) != LF_OK ||
            lf_model_score(s->target, &chunk, logits, err) != LF_OK)
            break;
        for (uint32_t r = 0; r < chunk.rows && at + r + 1 < ids->len; r++) {
            uint32_t id = ids->id[at + r + 1];
            double value = log_probability(logits + (size_t)r * vocab, vocab, id);
            print_token(s, id, value, json, at + r == 0);
            total += value;
        }
        at += chunk.rows;
    }
    free(logits);
    double n = (double)(ids->len - 1);
    if (err->status == LF_OK && json)
        printf("],\"tokens\":%zu,\"logprob\":%.9g,\"perplexity\":%.9g}\n", ids->len - 1, total,
               exp(-total / n));
    else if (err->status == LF_OK)
        printf("%zu tokens, log-probability %.5f, perplexity %.5f\n", ids->len - 1, total,
               exp(-total / n));
    return err->status;
}

static enum lf_status score_file(struct lf_session *s, const struct score_flags *f,
                                 const char *path, struct lf_error *err) {
    struct lf_buffer text = {0};
    struct lf_ids ids = {0};
    lf_ids_add(&ids, s->topology->bos_id);
    if (lf_file_read(&text, path, FILE_BYTES_MAX, err) == LF_OK &&
        lf_tokenizer_encode(s->tokenizer, text.data, text.len, false, &ids, err) == LF_OK) {
        uint64_t context = s->target->ops->info(s->target)->context;
        if (ids.len < 2)
            lf_fail(err, LF_E_VALUE, "%s is empty: expected a text", path);
        else if (ids.len > context)
            lf_fail(err, LF_E_CONTEXT, "%s has %zu tokens with the first, the context has %llu",
                    path, ids.len, (unsigned long long)context);
        else {
            if (f->json)
                fputs("{\"logprobs\":[", stdout);
            score(s, &ids, f->json, err);
        }
    }
    lf_ids_free(&ids);
    lf_buffer_free(&text);
    return err->status;
}

enum lf_status lf_command_score(int argc, char **argv, struct lf_error *err) {
    struct score_flags f = {.session = LF_SESSION_FLAGS_INIT};
    struct lf_flag flag[] = {
        {.name = "json", .kind = LF_FLAG_ON, .out = &f.json, .help = "as one JSON object"},
        LF_SESSION_FLAG_ROWS(f.session),
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
    if (lf_session_open(&session, given.n > 1 ? given.value[0] : NULL, err) == LF_OK &&
        lf_session_load(&session, &f.session, err) == LF_OK)
        score_file(&session, &f, given.value[given.n - 1], err);
    lf_session_close(&session);
    return err->status;
}
