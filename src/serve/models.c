// GET /v1/models and /v1/models/{id} (api.md 15), in OpenAI's or Anthropic's form.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "serve/router.h"
#include "serve/state.h"

static void print_text(struct lf_buffer *out, const char *text) {
    lf_json_print_string(out, text, strlen(text));
}

static void print_anthropic(struct lf_server *server, struct lf_buffer *out) {
    char stamp[32];
    time_t started = (time_t)server->started_s;
    struct tm utc;
    gmtime_r(&started, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    lf_buffer_add_text(out, "{\"type\":\"model\",\"id\":");
    print_text(out, server->options.name);
    lf_buffer_add_text(out, ",\"display_name\":");
    print_text(out, server->options.name);
    lf_buffer_printf(out, ",\"created_at\":\"%s\"}", stamp);
}

static void print_openai(struct lf_server *server, struct lf_buffer *out) {
    const struct lf_server_options *options = &server->options;
    unsigned long long context = lf_engine_info(server->engine)->context;
    lf_buffer_add_text(out, "{\"id\":");
    print_text(out, options->name);
    lf_buffer_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"lanefold\",",
                     (long long)server->started_s);
    lf_buffer_add_text(out, "\"root\":");
    print_text(out, options->name);
    lf_buffer_printf(out, ",\"max_model_len\":%llu,\"context_length\":%llu,\"aliases\":[", context,
                     context);
    for (size_t i = 0; i < options->n_aliases; i++) {
        lf_buffer_add_text(out, i ? "," : "");
        print_text(out, options->alias[i]);
    }
    lf_buffer_add_text(out, "]}");
}

enum lf_status lf_models_list(struct lf_exchange *x, struct lf_error *err) {
    struct lf_server *server = x->server;
    (void)err;
    lf_buffer_add_text(&x->out, x->anthropic ? "{\"data\":[" : "{\"object\":\"list\",\"data\":[");
    if (x->anthropic)
        print_anthropic(server, &x->out);
    else
        print_openai(server, &x->out);
    lf_buffer_add_text(&x->out, "]");
    if (x->anthropic) {
        lf_buffer_add_text(&x->out, ",\"has_more\":false,\"first_id\":");
        print_text(&x->out, server->options.name);
        lf_buffer_add_text(&x->out, ",\"last_id\":");
        print_text(&x->out, server->options.name);
    }
    lf_buffer_add_text(&x->out, "}");
    lf_exchange_answer(x, 200, "application/json");
    return LF_OK;
}

enum lf_status lf_models_one(struct lf_exchange *x, struct lf_error *err) {
    const struct lf_server_options *options = &x->server->options;
    bool known = !strcmp(x->tail, options->name);
    for (size_t i = 0; i < options->n_aliases; i++)
        known = known || !strcmp(x->tail, options->alias[i]);
    if (!known)
        return lf_fail_param(err, LF_E_NOT_FOUND, "model",
                             "the model %.100s is not served here; this server has %.100s",
                             x->tail, options->name);
    if (x->anthropic)
        print_anthropic(x->server, &x->out);
    else
        print_openai(x->server, &x->out);
    lf_exchange_answer(x, 200, "application/json");
    return LF_OK;
}
