// The usage and lanefold blocks (api.md 11), finish reasons (6.2) and ids (1).
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include "base/sha256.h"
#include "serve/generate.h"
#include "serve/state.h"

void lf_id_make(char *out, size_t room, const char *prefix) {
    unsigned char random[12];
    LF_ASSERT(getrandom(random, sizeof random, 0) == sizeof random);
    size_t at = (size_t)snprintf(out, room, "%s", prefix);
    for (size_t i = 0; i < sizeof random && at + 3 <= room; i++)
        at += (size_t)snprintf(out + at, room - at, "%02x", random[i]);
}

const char *lf_finish_reason(const struct lf_generation *g) {
    if (g->heard.why == LF_DONE_LENGTH || g->heard.why == LF_DONE_WINDOW)
        return "length";
    return g->heard.calls ? "tool_calls" : "stop";
}

static const char *finish_detail(const struct lf_generation *g) {
    uint32_t last = g->ids.len ? g->ids.id[g->ids.len - 1] : UINT32_MAX;
    switch (g->heard.why) {
    case LF_DONE_EOS:
        for (uint32_t i = 0; i < g->params.n_stop_ids; i++)
            if (g->params.stop_id[i] == last)
                return "stop_token";
        return "eos";
    case LF_DONE_STOP_STRING: return "stop_string";
    case LF_DONE_LENGTH: return "length";
    case LF_DONE_WINDOW: return "window";
    default: return "cancelled";
    }
}

void lf_usage_print(const struct lf_generation *g, struct lf_buffer *out) {
    const struct lf_stats *stats = &g->heard.stats;
    size_t prompt = g->prompt.len, cached = g->cached_now;
    uint32_t accepted = stats->accepted;
    uint32_t rejected = stats->drafted > accepted ? stats->drafted - accepted : 0;
    lf_buffer_printf(out,
                     "{\"prompt_tokens\":%zu,\"completion_tokens\":%u,\"total_tokens\":%zu,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":%zu,\"image_tokens\":0},"
                     "\"completion_tokens_details\":{\"reasoning_tokens\":%u,"
                     "\"accepted_prediction_tokens\":%u,\"rejected_prediction_tokens\":%u},"
                     "\"prompt_cache_hit_tokens\":%zu,\"prompt_cache_miss_tokens\":%zu}",
                     prompt, g->completion_now, prompt + g->completion_now, cached,
                     g->reasoning_now, accepted, rejected, cached, prompt - cached);
}

static void print_ids(struct lf_buffer *out, const char *name, const struct lf_ids *ids) {
    lf_buffer_printf(out, "\"%s\":[", name);
    for (size_t i = 0; i < ids->len; i++)
        lf_buffer_printf(out, "%s%u", i ? "," : "", ids->id[i]);
    lf_buffer_add_text(out, "],");
}

// The receipt of other servers: SHA-256 over the decimal ids joined by commas.
static void decimal_sha(const struct lf_ids *ids, char hex[65]) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    char text[16];
    lf_sha256_init(&sha);
    for (size_t i = 0; i < ids->len; i++) {
        int len = snprintf(text, sizeof text, "%s%u", i ? "," : "", ids->id[i]);
        lf_sha256_add(&sha, text, (size_t)len);
    }
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
}

static void print_dropped(const struct lf_generation *g, struct lf_buffer *out) {
    for (size_t i = 0; i < g->dropped.n; i++) {
        lf_buffer_add_text(out, i ? "," : ",\"dropped_tools\":[");
        lf_json_print_string(out, g->dropped.name[i], strlen(g->dropped.name[i]));
    }
    lf_buffer_add_text(out, g->dropped.n ? "]" : "");
}

void lf_extras_print(const struct lf_generation *g, struct lf_buffer *out) {
    const struct lf_server_options *options = &g->x->server->options;
    const struct lf_stats *s = &g->heard.stats;
    bool drafts = lf_engine_info(g->x->server->engine)->drafts && g->params.draft;
    char exact[65], decimal[65];
    if (options->no_extras)
        return;
    lf_sha256_ids(g->ids.id, g->ids.len, exact);
    decimal_sha(&g->ids, decimal);
    lf_buffer_add_text(out, ",");
    lf_json_print_string(out, options->extras_key, strlen(options->extras_key));
    lf_buffer_add_text(out, ":{");
    if (g->params.return_ids)
        print_ids(out, "token_ids", &g->ids);
    if (g->params.return_prompt_ids)
        print_ids(out, "prompt_token_ids", &g->prompt);
    lf_buffer_printf(out, "\"token_sha256\":\"%s\",\"token_sha\":\"%.12s\",\"seed\":\"%llu\",",
                     exact, decimal, (unsigned long long)g->seed);
    lf_buffer_printf(out,
                     "\"draft\":%s,\"rounds\":%u,\"drafted\":%u,\"accepted\":%u,"
                     "\"plain_rounds\":%u,\"min_rows\":%u,",
                     drafts ? "true" : "false", s->rounds,
                     s->drafted, s->accepted, s->plain_rounds, s->min_rows);
    lf_buffer_printf(out,
                     "\"queue_seconds\":%.6f,\"prefill_seconds\":%.6f,"
                     "\"time_to_first_token\":%.6f,\"decode_seconds\":%.6f,"
                     "\"tokens_per_second\":%.3f,\"cached_tokens\":%u,\"finish_detail\":\"%s\"",
                     s->queue_seconds, s->prefill_seconds, s->time_to_first_token,
                     s->decode_seconds, s->tokens_per_second, g->cached_now, finish_detail(g));
    print_dropped(g, out);
    lf_buffer_add_text(out, "}");
}
