#include "serve/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "serve/state.h"

enum { JSON_DEPTH_MAX = 128, LIMIT_THINKING = 65536, LIMIT_PLAIN = 8192, CHOICES_MAX = 8 };

enum lf_status lf_body_read(struct lf_exchange *x, struct lf_fields *out,
                            struct lf_json_span *body, struct lf_error *err) {
    LF_TRY(lf_json_check(body, x->body.data ? x->body.data : "", x->body.len, JSON_DEPTH_MAX, err));
    if (lf_json_type(*body) != LF_JSON_OBJECT)
        return lf_fail(err, LF_E_TYPE, "the request body must be a JSON object, not %s",
                       lf_json_kind(*body));
    return lf_fields_read(out, &x->arena, *body, "", err);
}

enum lf_status lf_generation_new(struct lf_generation **out, struct lf_exchange *x,
                                 const struct lf_voice *voice, struct lf_error *err) {
    struct lf_generation *g = calloc(1, sizeof *g);
    if (!g)
        return lf_fail(err, LF_E_MEM, "no memory for the request");
    g->x = x;
    g->voice = voice;
    g->parallel_calls = g->include_reasoning = true;
    g->created_s = (int64_t)time(NULL);
    lf_id_make(g->reply_id, sizeof g->reply_id, voice->id_prefix);
    pthread_mutex_lock(&x->lock);
    x->generation = g;
    pthread_mutex_unlock(&x->lock);
    *out = g;
    return LF_OK;
}

static bool model_known(const struct lf_server_options *options, const char *model) {
    bool known = !strcmp(model, options->name);
    for (size_t i = 0; i < options->n_aliases; i++)
        known = known || !strcmp(model, options->alias[i]);
    return known;
}

static void take_request_id(struct lf_exchange *x, const char *id) {
    size_t len = id ? strlen(id) : 0;
    bool good = len >= 1 && len <= LF_REQUEST_ID_MAX;
    for (size_t i = 0; good && i < len; i++)
        good = id[i] >= 0x20 && id[i] <= 0x7e;
    if (good)
        memcpy(x->request_id, id, len + 1);
}

enum lf_status lf_generation_params(struct lf_generation *g, const struct lf_fields *fields,
                                    bool completions, struct lf_error *err) {
    struct lf_exchange *x = g->x;
    const struct lf_server_options *options = &x->server->options;
    struct lf_params_limits limits = {.sampling = options->sampling,
                                      .n_max = CHOICES_MAX,
                                      .vocab = lf_engine_info(x->server->engine)->vocab,
                                      .completions = completions};
    LF_TRY(lf_params_read(&g->params, &x->arena, fields, &limits, err));
    take_request_id(x, g->params.request_id);
    if (options->strict_model && g->params.model && !model_known(options, g->params.model))
        return lf_fail_param(err, LF_E_NOT_FOUND, "model",
                             "the model %.100s is not served here; this server has %.100s",
                             g->params.model, options->name);
    return LF_OK;
}

// Parses an id and tells whether a stop string is complete.
static int parse_id(struct lf_generation *g, uint32_t id) {
    const struct lf_tokenizer *tokenizer = g->x->server->tokenizer;
    bool silent = id >= lf_tokenizer_size(tokenizer) ||
                  (g->plain && lf_tokenizer_is_added(tokenizer, id));
    lf_ids_add(&g->ids, id);
    for (uint32_t i = 0; i < g->params.n_stop_ids; i++)
        silent = silent || g->params.stop_id[i] == id;
    if (!silent)
        return lf_reply_push(g->reply, id) >= 0;
    lf_reply_skip(g->reply);
    return 0;
}

// On the engine's thread, once an id.
static int on_stop(void *ctx, uint32_t id) {
    struct lf_generation *g = ctx;
    int stopped = parse_id(g, id);
    lf_thinking_hear(&g->think, id, lf_reply_in_reasoning(g->reply));
    return stopped;
}

// The parser's sink, on the engine's thread.
static void on_piece(void *ctx, const struct lf_reply_event *event) {
    struct lf_generation *g = ctx;
    lf_pieces_add(&g->early, event);
    if (g->params.logprobs)
        lf_entry_queue_event(&g->queue, event);
}

// Under the lock: hands over the pieces, with the entries of their tokens.
static void release_pieces(struct lf_generation *g) {
    lf_buffer_add(&g->heard.pieces, g->early.data, g->early.len);
    g->heard.pieces.failed = g->heard.pieces.failed || g->early.failed;
    lf_buffer_clear(&g->early);
    if (g->params.logprobs)
        lf_entry_queue_pass(&g->queue, &g->heard.entries);
}

static void on_admitted(void *ctx, uint64_t id) {
    struct lf_generation *g = ctx;
    (void)id;
    pthread_mutex_lock(&g->x->lock);
    g->heard.admitted = true;
    g->x->wrote_s = lf_clock_s();
    pthread_mutex_unlock(&g->x->lock);
}

static void on_prefilled(void *ctx, uint64_t id, uint32_t cached_tokens) {
    struct lf_generation *g = ctx;
    (void)id;
    pthread_mutex_lock(&g->x->lock);
    g->heard.admitted = true;
    g->heard.cached_tokens = cached_tokens;
    pthread_mutex_unlock(&g->x->lock);
}

static void on_tokens(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                      const struct lf_logprob_row *rows) {
    struct lf_generation *g = ctx;
    (void)id;
    uint32_t reasoning = lf_reply_reasoning_tokens(g->reply);
    if (g->params.logprobs)
        lf_entry_queue_hear(&g->queue, token, n, rows);
    pthread_mutex_lock(&g->x->lock);
    // Stop strings are asked for about several ids before their rows come.
    if (!g->params.logprobs || g->queue.n_heard >= g->ids.len)
        release_pieces(g);
    g->heard.admitted = true;
    g->heard.completion_tokens += n;
    g->heard.reasoning_tokens = reasoning;
    if (g->params.stream)
        lf_exchange_wake(g->x);
    pthread_mutex_unlock(&g->x->lock);
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct lf_generation *g = ctx;
    (void)id;
    bool open = lf_reply_in_reasoning(g->reply);
    lf_reply_end(g->reply, why == LF_DONE_LENGTH || why == LF_DONE_WINDOW);
    // A tail that was held back as possible markup may have completed a stop string.
    bool cut = why == LF_DONE_LENGTH || why == LF_DONE_WINDOW;
    if (cut && lf_reply_stopped(g->reply) >= 0)
        why = LF_DONE_STOP_STRING;
    if (lf_reply_failed(g->reply)) {
        why = LF_DONE_FAILED;
        message = "no memory for the reply's text";
    }
    uint32_t calls = lf_reply_calls(g->reply), reasoning = lf_reply_reasoning_tokens(g->reply);
    pthread_mutex_lock(&g->x->lock);
    release_pieces(g);
    g->heard.done = true;
    g->heard.why = why;
    g->heard.stats = *stats;
    g->heard.calls = calls;
    g->heard.in_reasoning = open;
    g->heard.completion_tokens = stats->completion_tokens;
    g->heard.reasoning_tokens = reasoning;
    g->heard.cached_tokens = stats->cached_tokens;
    snprintf(g->heard.message, sizeof g->heard.message, "%s", message ? message : "");
    g->x->in_engine = false;
    lf_exchange_wake(g->x);
    // Before the unlock: after it the exchange and a stopping server may be freed.
    lf_watch_poke(g->x->server);
    pthread_mutex_unlock(&g->x->lock);
}

static enum lf_status choose_limit(struct lf_generation *g, struct lf_error *err) {
    const struct lf_server_options *options = &g->x->server->options;
    bool given = g->params.max_tokens && !options->clamp_reply;
    uint64_t fallback = options->max_tokens ? options->max_tokens
                        : g->thinking       ? LIMIT_THINKING
                                            : LIMIT_PLAIN;
    uint64_t wanted = g->params.max_tokens ? g->params.max_tokens : fallback;
    if (!g->prompt.len)
        return lf_fail_param(err, LF_E_VALUE, g->voice->prompt_field,
                             "the prompt is empty: at least one token is needed");
    // A limit that is not the client's may pass the context: the engine then ends there.
    g->limit = (uint32_t)wanted;
    g->limit_given = given;
    return LF_OK;
}

static enum lf_status fill_ends(struct lf_generation *g, uint32_t **out, uint32_t *n,
                                struct lf_error *err) {
    const struct lf_params *params = &g->params;
    uint32_t *ends = lf_arena_alloc(&g->x->arena, params->n_stop_ids + 1, sizeof *ends);
    if (!ends)
        return lf_fail(err, LF_E_MEM, "no memory for the end tokens");
    for (*n = 0; *n < params->n_stop_ids; ++*n)
        ends[*n] = params->stop_id[*n];
    if (!params->ignore_eos)
        ends[(*n)++] = (uint32_t)g->x->server->controls->id[LF_CONTROL_EOS];
    *out = ends;
    return LF_OK;
}

static enum lf_status submit(struct lf_generation *g, struct lf_request *request,
                             struct lf_error *err) {
    static const struct lf_sink sink = {.admitted = on_admitted,
                                        .prefilled = on_prefilled,
                                        .tokens = on_tokens,
                                        .finished = on_finished};
    struct lf_exchange *x = g->x;
    double most_s = x->server->options.request_timeout_s, own_s = g->params.timeout_s;
    if (own_s > 0 && (most_s <= 0 || own_s < most_s))
        most_s = own_s;
    pthread_mutex_lock(&x->lock);
    x->in_engine = true;
    x->deadline_s = most_s > 0 ? x->accepted_s + most_s : 0;
    pthread_mutex_unlock(&x->lock);
    if (lf_engine_submit(x->server->engine, x->id, request, &sink, g, err) == LF_OK)
        return LF_OK;
    pthread_mutex_lock(&x->lock);
    x->in_engine = false;
    pthread_mutex_unlock(&x->lock);
    if (err->status == LF_E_CONTEXT)
        snprintf(err->param, sizeof err->param, "%s", g->voice->prompt_field);
    return err->status;
}

enum lf_status lf_generation_start(struct lf_generation *g, struct lf_error *err) {
    struct lf_server *server = g->x->server;
    struct lf_params *params = &g->params;
    struct lf_reply_options options = {.tools = g->tools,
                                       .in_reasoning = g->in_reasoning,
                                       .parallel_calls = g->parallel_calls,
                                       .stop_in_reasoning = params->stop_in_reasoning,
                                       .include_stop = params->include_stop,
                                       .stop = params->stop,
                                       .n_stops = params->n_stops};
    if (g->prompt.failed)
        return lf_fail(err, LF_E_MEM, "no memory for the prompt's ids");
    LF_TRY(choose_limit(g, err));
    g->seed = params->seed_given ? params->sampling.seed
                                 : lf_seed_derive(g->prompt.id, g->prompt.len, NULL, 0,
                                                  server->options.seed_salt);
    params->sampling.seed = g->seed;
    LF_TRY(lf_reply_open(&g->reply, server->tokenizer, server->controls, &options, on_piece, g,
                         err));
    struct lf_request request = {.prompt = g->prompt.id,
                                 .prompt_len = (uint32_t)g->prompt.len,
                                 .max_tokens = g->limit,
                                 .max_explicit = g->limit_given,
                                 .sampling = params->sampling,
                                 .stop = on_stop,
                                 .stop_ctx = g,
                                 .background = params->background,
                                 .no_drafts = !params->draft,
                                 .no_cache = !params->cache_prompt,
                                 .want_logprobs = params->logprobs,
                                 .top_logprobs = params->top_logprobs};
    g->think = (struct lf_thinking){
        .close = (uint32_t)server->controls->id[LF_CONTROL_THINK_END],
        .budget = params->thinking_budget, .guard = server->options.loop_guard,
        .closed = !g->in_reasoning};
    if (g->in_reasoning && (g->think.budget || g->think.guard)) {
        request.path = lf_thinking_path;
        request.path_ctx = &g->think;
    }
    lf_request_mark(&request, server->controls);
    uint32_t *ends = NULL;
    LF_TRY(fill_ends(g, &ends, &request.n_eos, err));
    request.eos = ends;
    return submit(g, &request, err);
}

void lf_generation_free(struct lf_generation *g) {
    if (!g)
        return;
    lf_reply_close(g->reply);
    lf_ids_free(&g->prompt);
    lf_ids_free(&g->ids);
    lf_buffer_free(&g->heard.pieces);
    lf_buffer_free(&g->heard.entries);
    lf_buffer_free(&g->early);
    lf_entry_queue_free(&g->queue);
    lf_buffer_free(&g->taken);
    lf_buffer_free(&g->entries);
    lf_buffer_free(&g->scratch);
    lf_buffer_free(&g->json);
    lf_buffer_free(&g->logprobs);
    lf_buffer_free(&g->custom_text);
    free(g);
}

size_t lf_generation_unread_bytes(const struct lf_generation *g) {
    return g->heard.pieces.len + g->heard.entries.len;
}

bool lf_generation_keeps_alive(const struct lf_generation *g) {
    bool early = g->x->server->options.early_headers;
    return g->params.stream && (g->heard.admitted || early) && !g->heard.done;
}

double lf_generation_seconds(const struct lf_generation *g) {
    const struct lf_stats *s = &g->heard.stats;
    return g->heard.done ? s->time_to_first_token - s->queue_seconds + s->decode_seconds : 0;
}

void lf_generation_describe(const struct lf_generation *g, char *out, size_t room) {
    const struct lf_stats *s = &g->heard.stats;
    snprintf(out, room,
             " prompt=%zu completion=%u cached=%u queue_s=%.3f prefill_s=%.3f ttft_s=%.3f "
             "tok_s=%.1f",
             g->prompt.len, g->heard.completion_tokens, g->heard.cached_tokens, s->queue_seconds,
             s->prefill_seconds, s->time_to_first_token, s->tokens_per_second);
}
