#include "cli/command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "cli/serve_flags.h"
#include "commit.h"
#include "lane/session.h"
#include "serve/server.h"

// Sampling defaults: the operator's flag, else the checkpoint's generation config (engine.md S-15).
static struct lf_sampling sampling(const struct serve_flags *f, const struct lf_flag *flag,
                                   size_t n, const struct lf_sampling *own) {
    return (struct lf_sampling){
        .temperature = lf_flag_given(flag, n, "temperature") ? f->temperature : own->temperature,
        .top_p = lf_flag_given(flag, n, "top-p") ? f->top_p : own->top_p,
        .min_p = lf_flag_given(flag, n, "min-p") ? f->min_p : own->min_p,
        .top_k = lf_flag_given(flag, n, "top-k") ? (int64_t)f->top_k : own->top_k,
    };
}

static enum lf_status set_names(struct lf_server_options *o, const struct serve_flags *f,
                                struct lf_error *err) {
    bool thinking_off = false;
    o->effort = 75;
    if (f->effort && lf_effort_parse(&o->effort, &thinking_off, f->effort, err) != LF_OK)
        return err->status = LF_E_USAGE;
    o->thinking = f->thinking && !thinking_off;
    if (!strcmp(f->reasoning_field, "reasoning"))
        o->reasoning_field = LF_REASONING_PLAIN;
    else if (!strcmp(f->reasoning_field, "both"))
        o->reasoning_field = LF_REASONING_BOTH;
    return LF_OK;
}

// LANEFOLD_API_KEY holds keys separated by commas; they are cut apart in memory.
static enum lf_status add_environment_keys(struct lf_flag_list *keys, char *memory, size_t bytes,
                                           struct lf_error *err) {
    const char *value = lf_environment("LANEFOLD_API_KEY");
    size_t len = value ? strlen(value) : 0;
    if (len >= bytes)
        return lf_fail(err, LF_E_USAGE, "LANEFOLD_API_KEY has %zu bytes: expected below %zu", len,
                       bytes);
    memcpy(memory, value ? value : "", len + 1);
    for (char *key = memory, *next; key && *key; key = next) {
        next = strchr(key, ',');
        if (next)
            *next++ = 0;
        if (!*key)
            continue;
        if (keys->n == LF_FLAG_LIST_MAX)
            return lf_fail(err, LF_E_USAGE, "LANEFOLD_API_KEY and --api-key name more than %d keys",
                           LF_FLAG_LIST_MAX);
        keys->value[keys->n++] = key;
    }
    return LF_OK;
}

// Until the first SIGINT or SIGTERM, or the engine's death; a second signal ends the process.
static enum lf_status wait_for_end(const sigset_t *signals, struct lf_engine *engine,
                                   struct lf_error *err) {
    static const struct timespec look = {.tv_nsec = 250 * 1000 * 1000}, second = {.tv_sec = 1};
    struct lf_engine_status status;
    do {
        lf_engine_status_read(engine, &status);
        if (status.dead) {
            // Clients get their errors, and whoever asks /health its 503.
            sigtimedwait(signals, NULL, &second);
            return lf_fail(err, LF_E_DEVICE, "the engine failed: %s", status.message);
        }
    } while (sigtimedwait(signals, NULL, &look) < 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    return LF_OK;
}

// False when requests did not end (F-4); err: why serving ended, if not by a signal.
static bool serve(struct lf_engine *engine, const struct serve_flags *f,
                  struct lf_server_options *o, const sigset_t *signals, struct lf_error *err) {
    const struct lf_session *session = lf_engine_session(engine);
    struct lf_server *server;
    if (lf_server_open(&server, o, engine, session->tokenizer, &session->controls, err) != LF_OK)
        return true;
    lf_log(LF_LOG_INFO, "model %s: temperature %g, top_p %g, top_k %lld, min_p %g, thinking %s",
           o->name, o->sampling.temperature, o->sampling.top_p, (long long)o->sampling.top_k,
           o->sampling.min_p, o->thinking ? "on" : "off");
    printf("listening on %s\n", lf_server_url(server));
    fflush(stdout);
    // A dead engine has nothing to drain, and the process ends within two seconds (F-3).
    double drain_s = wait_for_end(signals, engine, err) == LF_OK ? f->drain_s : -1;
    lf_log(LF_LOG_INFO, "draining for at most %g s", drain_s > 0 ? drain_s : 0);
    return lf_server_stop(server, drain_s);
}

// Blocked in every thread to come, so that only wait_for_end sees them.
static void block_signals(sigset_t *signals) {
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

// Where the hub cache lies by default, beside it; NULL: the environment names no place.
static const char *find_cache_folder(char *folder, size_t bytes) {
    const char *cache = lf_environment("XDG_CACHE_HOME"), *home = lf_environment("HOME");
    int len = cache ? snprintf(folder, bytes, "%s/lanefold", cache)
                    : snprintf(folder, bytes, "%s/.cache/lanefold", home ? home : "");
    return (cache || home) && len > 0 && (size_t)len < bytes ? folder : NULL;
}

static const char usage[] = "serve [MODEL] [options]";

enum lf_status lf_command_serve(int argc, char **argv, struct lf_error *err) {
    struct serve_flags f = SERVE_FLAGS_INIT;
    struct lf_flag flag[] = {
#include "cli/serve_flags.def"
    };
    size_t n = sizeof flag / sizeof *flag;
    struct lf_positionals model;
    struct lf_engine *engine = NULL;
    sigset_t signals;
    LF_TRY(lf_flags_parse(flag, n, argc, argv, &model, 1, err));
    if (f.help) {
        lf_flags_print(usage, "Answers OpenAI clients over HTTP; prints its URL when ready.", flag,
                       n);
        return LF_OK;
    }
    char environment_keys[4096];
    LF_TRY(add_environment_keys(&f.api_key, environment_keys, sizeof environment_keys, err));
    lf_log_setup(LF_LOG_INFO, !strcmp(f.log, "json"));
    struct lf_server_options o = {
        .host = f.host, .port = (uint16_t)f.port, .alias = f.alias.value, .n_aliases = f.alias.n,
        .seed_salt = f.seed_salt, .max_tokens = (uint32_t)f.max_tokens,
        .api_key = f.api_key.value, .n_api_keys = f.api_key.n, .api_key_file = f.api_key_file,
        .cors = f.cors.value, .n_cors = f.cors.n, .allowed_host = f.allowed_host.value,
        .n_allowed_hosts = f.allowed_host.n, .body_bytes_max = f.body_bytes,
        .connections_max = (uint32_t)f.connections,
        .keep_alive_s = f.keepalive_s > 0 ? f.keepalive_s : -1, .slow_reader_s = f.slow_reader_s,
        .request_timeout_s = f.request_timeout_s, .strict_model = f.strict_model,
        .early_headers = f.early_headers, .clamp_reply = f.clamp_reply,
        .allow_half_close = f.half_close, .no_extras = f.no_extras, .extras_key = f.extras_key,
        .commit = LF_COMMIT, .strict_tools = f.strict_tools,
        .loop_guard = f.loop_guard,
    };
    LF_TRY(set_names(&o, &f, err));
    struct lf_engine_options options = lf_serve_engine_options(&f);
    LF_TRY(lf_engine_flags_dummy(&options, &f.engine, err));
    char cache_folder[4096];
    options.cost_folder = find_cache_folder(cache_folder, sizeof cache_folder);
    block_signals(&signals);
    LF_TRY(lf_engine_open(&engine, model.n ? model.value[0] : NULL, &options, err));
    o.backend = lf_engine_info(engine)->device;
    o.name = f.name ? f.name : lf_engine_info(engine)->name;
    o.sampling = sampling(&f, flag, n, &lf_engine_info(engine)->sampling);
    // A device that keeps the engine (F-4): nothing is freed under its thread, the process ends.
    if (!serve(engine, &f, &o, &signals, err) || !lf_engine_close(engine, 0))
        return lf_fail(err, LF_E_DEVICE, "the device does not give the engine back");
    return err->status;
}
