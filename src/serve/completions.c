// POST /v1/completions (api.md 12): a raw prompt of text or ids, and text back.
#include <string.h>
#include "serve/generate.h"
#include "serve/router.h"
#include "serve/state.h"

static void print_text(struct lf_buffer *out, const char *text, size_t len) {
    lf_buffer_add_text(out, "\"text\":");
    lf_json_print_string(out, text, len);
}

static void print_choice(struct lf_generation *g, const struct lf_folded *folded,
                         struct lf_buffer *out) {
    (void)g;
    print_text(out, folded->content.data ? folded->content.data : "", folded->content.len);
}

static bool print_delta(struct lf_generation *g, const struct lf_reply_event *event,
                        struct lf_buffer *out) {
    (void)g;
    if (event->kind != LF_REPLY_CONTENT || !event->len)
        return false;
    print_text(out, event->text, event->len);
    return true;
}

static void print_logprobs(struct lf_generation *g, const struct lf_entry *entry,
                           size_t n_reasoning, size_t n_content, struct lf_buffer *out) {
    (void)n_reasoning; // a plain reply has none
    lf_entries_print_legacy(g->x->server->tokenizer, entry, n_content, out);
}

static const struct lf_voice completions_voice = {
    .id_prefix = "cmpl-",
    .object = "text_completion",
    .chunk = "text_completion",
    .prompt_field = "prompt",
    .message = print_choice,
    .delta = print_delta,
    .logprobs = print_logprobs,
    .last = "\"text\":\"\"",
};

// Ids of text whose added tokens are matched, all but the image token (vision.md 10.4).
static enum lf_status encode_marked(struct lf_generation *g, const char *text, size_t len,
                                    struct lf_error *err) {
    const struct lf_tokenizer *tokenizer = g->x->server->tokenizer;
    int64_t image = g->x->server->controls->id[LF_CONTROL_IMAGE];
    struct lf_ids ids = {0};
    enum lf_status status = lf_tokenizer_encode(tokenizer, text, len, true, &ids, err);
    size_t plain = 0, plain_len = 0;
    for (size_t i = 0; status == LF_OK && i <= ids.len; i++) {
        size_t bytes = 0;
        bool last = i == ids.len;
        if (!last)
            lf_tokenizer_bytes(tokenizer, ids.id[i], &bytes);
        bool added = !last && lf_tokenizer_is_added(tokenizer, ids.id[i]) && ids.id[i] != image;
        if (!last && !added) {
            plain_len += bytes;
            continue;
        }
        status = lf_tokenizer_encode(tokenizer, text + plain, plain_len, false, &g->prompt, err);
        if (added)
            lf_ids_add(&g->prompt, ids.id[i]);
        plain += plain_len + bytes;
        plain_len = 0;
    }
    bool failed = ids.failed;
    lf_ids_free(&ids);
    return failed ? lf_fail(err, LF_E_MEM, "no memory for the prompt's ids") : status;
}

static enum lf_status read_text(struct lf_generation *g, struct lf_json_span value, bool special,
                                struct lf_error *err) {
    const char *text;
    size_t len;
    LF_TRY(lf_json_text(value, "prompt", &g->x->arena, &text, &len, err));
    if (special)
        return encode_marked(g, text, len, err);
    return lf_tokenizer_encode(g->x->server->tokenizer, text, len, false, &g->prompt, err);
}

static enum lf_status read_ids(struct lf_generation *g, struct lf_json_span list,
                               struct lf_error *err) {
    struct lf_json_span key, value;
    struct lf_server *server = g->x->server;
    int64_t vocab = lf_engine_info(server->engine)->vocab, id;
    struct lf_json_walk walk = lf_json_walk_open(list);
    while (lf_json_walk_next(&walk, &key, &value)) {
        LF_TRY(lf_json_integer(value, "prompt", 0, vocab - 1, &id, err));
        if (id == server->controls->id[LF_CONTROL_IMAGE])
            return lf_fail_param(err, LF_E_VALUE, "prompt",
                                 "prompt may not hold the image token %lld", (long long)id);
        lf_ids_add(&g->prompt, (uint32_t)id);
    }
    return LF_OK;
}

// A string, ids, or an array of one of them.
static enum lf_status read_prompt(struct lf_generation *g, const struct lf_fields *fields,
                                  bool special, struct lf_error *err) {
    struct lf_json_span prompt = lf_fields_get(fields, "prompt"), key, first = {0}, more;
    if (!prompt.text && lf_fields_get(fields, "messages").text)
        return lf_fail_param(err, LF_E_MISSING, "prompt",
                             "prompt is missing; messages belong to /v1/chat/completions");
    if (!prompt.text)
        return lf_fail_param(err, LF_E_MISSING, "prompt", "prompt is missing");
    if (lf_json_type(prompt) == LF_JSON_STRING)
        return read_text(g, prompt, special, err);
    if (lf_json_type(prompt) != LF_JSON_ARRAY)
        return lf_fail_param(err, LF_E_TYPE, "prompt",
                             "prompt must be a string or an array, not %s", lf_json_kind(prompt));
    struct lf_json_walk walk = lf_json_walk_open(prompt);
    if (!lf_json_walk_next(&walk, &key, &first) || lf_json_type(first) == LF_JSON_NUMBER)
        return read_ids(g, prompt, err);
    if (lf_json_walk_next(&walk, &key, &more))
        return lf_fail_param(err, LF_E_UNSUPPORTED, "prompt",
                             "prompt may hold one prompt: send several requests");
    if (lf_json_type(first) == LF_JSON_ARRAY)
        return read_ids(g, first, err);
    return read_text(g, first, special, err);
}

// Puts BOS in front unless it is there.
static void add_begin(struct lf_generation *g) {
    uint32_t begin = (uint32_t)g->x->server->controls->id[LF_CONTROL_BOS];
    struct lf_ids ids = {0};
    if (g->prompt.len && g->prompt.id[0] == begin)
        return;
    lf_ids_add(&ids, begin);
    lf_ids_add_all(&ids, g->prompt.id, g->prompt.len);
    ids.failed = ids.failed || g->prompt.failed;
    lf_ids_free(&g->prompt);
    g->prompt = ids;
}

enum lf_status lf_completions_handle(struct lf_exchange *x, struct lf_error *err) {
    struct lf_generation *g;
    struct lf_fields fields;
    struct lf_json_span body;
    bool special = true, begin = false;
    LF_TRY(lf_body_read(x, &fields, &body, err));
    LF_TRY(lf_generation_new(&g, x, &completions_voice, err));
    g->plain = true;
    LF_TRY(lf_generation_params(g, &fields, true, err));
    LF_TRY(lf_field_bool(&fields, "parse_special", &special, err));
    LF_TRY(lf_field_bool(&fields, "add_special_tokens", &begin, err));
    LF_TRY(read_prompt(g, &fields, special, err));
    if (begin)
        add_begin(g);
    return lf_generation_start(g, err);
}
