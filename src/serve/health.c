// GET /health, /ready and /version (api.md 15): answered without waiting for the engine.
#include <string.h>
#include "serve/router.h"
#include "serve/state.h"

static void answer_status(struct lf_exchange *x, int status, const char *name,
                          const char *message) {
    lf_buffer_printf(&x->out, "{\"status\":\"%s\"", name);
    if (message) {
        lf_buffer_add_text(&x->out, ",\"message\":");
        lf_json_print_string(&x->out, message, strlen(message));
    }
    lf_buffer_add_text(&x->out, "}");
    lf_exchange_answer(x, status, "application/json");
}

// True when the engine neither failed nor stops; otherwise answers.
static bool is_healthy(struct lf_exchange *x, struct lf_engine_status *status) {
    lf_engine_status_read(x->server->engine, status);
    if (status->dead)
        answer_status(x, 503, "failed", status->message);
    else if (atomic_load(&x->server->draining) || status->draining)
        answer_status(x, 503, "draining", NULL);
    return !x->replied;
}

enum lf_status lf_health_handle(struct lf_exchange *x, struct lf_error *err) {
    struct lf_engine_status status;
    (void)err;
    if (is_healthy(x, &status))
        answer_status(x, 200, "ok", NULL);
    return LF_OK;
}

enum lf_status lf_ready_handle(struct lf_exchange *x, struct lf_error *err) {
    struct lf_engine_status status;
    (void)err;
    if (is_healthy(x, &status)) {
        bool full = status.waiting >= status.queue_max;
        answer_status(x, full ? 503 : 200, full ? "full" : "ready", NULL);
    }
    return LF_OK;
}

enum lf_status lf_version_handle(struct lf_exchange *x, struct lf_error *err) {
    const struct lf_server_options *options = &x->server->options;
    const char *fingerprint = lf_engine_info(x->server->engine)->fingerprint;
    (void)err;
    lf_buffer_add_text(&x->out, "{\"version\":\"" LF_VERSION "\",\"commit\":");
    lf_json_print_string(&x->out, options->commit, strlen(options->commit));
    lf_buffer_add_text(&x->out, ",\"backend\":");
    lf_json_print_string(&x->out, options->backend, strlen(options->backend));
    lf_buffer_add_text(&x->out, ",\"fingerprint\":");
    lf_json_print_string(&x->out, fingerprint, strlen(fingerprint));
    lf_buffer_add_text(&x->out, "}");
    lf_exchange_answer(x, 200, "application/json");
    return LF_OK;
}
