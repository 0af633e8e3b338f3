#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    enum lf_log_level lowest;
    bool json;
    lf_log_fn *write; // NULL: standard error
    void *ctx;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .lowest = LF_LOG_WARN};

void lf_log_setup(enum lf_log_level lowest, bool json) {
    pthread_mutex_lock(&state.lock);
    state.lowest = lowest;
    state.json = json;
    pthread_mutex_unlock(&state.lock);
}

void lf_log_to(enum lf_log_level lowest, lf_log_fn *write, void *ctx) {
    pthread_mutex_lock(&state.lock);
    state.lowest = lowest;
    state.write = write;
    state.ctx = ctx;
    pthread_mutex_unlock(&state.lock);
}

static void put_json_text(const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(stderr, "\\%c", c);
        else if (c < 0x20)
            fprintf(stderr, "\\u%04x", c);
        else
            fputc(c, stderr);
    }
}

void lf_log(enum lf_log_level level, const char *format, ...) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char text[1024], stamp[32];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    pthread_mutex_lock(&state.lock);
    if (level >= state.lowest && state.write) {
        state.write(state.ctx, level, text);
    } else if (level >= state.lowest && state.json) {
        fprintf(stderr, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":\"", stamp, names[level]);
        put_json_text(text);
        fputs("\"}\n", stderr);
    } else if (level >= state.lowest) {
        fprintf(stderr, "%s %s %s\n", stamp, names[level], text);
    }
    pthread_mutex_unlock(&state.lock);
}
