#include "bench/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SILENT_S_MAX = 1800, CONNECT_S_MAX = 30, GET_S_MAX = 30 };

enum lf_status lf_client_setup(struct lf_error *err) {
    json_object_seed(0);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return lf_fail(err, LF_E_IO, "libcurl did not start");
    return LF_OK;
}

enum lf_status lf_client_base(struct lf_bench_server *server, const char *base,
                              struct lf_error *err) {
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    if (len > 3 && !strncmp(base + len - 3, "/v1", 3))
        len -= 3;
    if (strncmp(base, "http://", 7) && strncmp(base, "https://", 8))
        return lf_fail(err, LF_E_USAGE, "BASE %s: expected http://HOST:PORT", base);
    if (len >= sizeof server->base)
        return lf_fail(err, LF_E_USAGE, "BASE: at most %zu characters", sizeof server->base - 1);
    memcpy(server->base, base, len);
    server->base[len] = 0;
    return LF_OK;
}

static size_t take_stream(char *bytes, size_t size, size_t n, void *to) {
    struct lf_client *client = to;
    bool on = lf_answer_feed(&client->reply, bytes, size * n, lf_clock_s());
    atomic_store(&client->pieces, client->reply.pieces);
    return on ? size * n : 0;
}

static size_t take_body(char *bytes, size_t size, size_t n, void *to) {
    struct lf_buffer *body = to;
    if (body->len + size * n > LF_ANSWER_BODY_MAX)
        return 0;
    lf_buffer_add(body, bytes, size * n);
    return body->failed ? 0 : size * n;
}

static struct curl_slist *headers_of(const struct lf_bench_server *server) {
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    if (server->key) {
        struct lf_buffer line = {0};
        lf_buffer_printf(&line, "Authorization: Bearer %s", server->key);
        if (!line.failed)
            list = curl_slist_append(list, line.data);
        lf_buffer_free(&line);
    }
    // A 100-continue round trip would be measured as the server's time.
    return curl_slist_append(list, "Expect:");
}

// An easy handle that no environment variable can redirect.
static CURL *open_handle(const struct lf_bench_server *server, const char *path) {
    char url[sizeof server->base + 64];
    CURL *curl = curl_easy_init();
    if (!curl)
        return NULL;
    snprintf(url, sizeof url, "%s%s", server->base, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S_MAX);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    return curl;
}

static void perform(struct lf_client *client, CURL *curl, const char *body) {
    struct lf_answer *reply = &client->reply;
    bool whole = client->ask.whole;
    struct curl_slist *headers = headers_of(client->server);
    long status = 0;
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S_MAX);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, whole ? take_body : take_stream);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, whole ? (void *)&reply->body : (void *)client);
    reply->sent_s = lf_clock_s();
    atomic_store(&client->sent, true);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_HTTP_RETURNED_ERROR) {
        char text[40];
        snprintf(text, sizeof text, "HTTP status %ld", status);
        lf_answer_fail(reply, "http_status", text);
    } else if (code != CURLE_OK) {
        lf_answer_fail(reply, "transport", curl_easy_strerror(code));
    }
    // The end may have been seen before the connection broke; the reply is not whole then.
    reply->complete = reply->complete && code == CURLE_OK;
    if (whole && code == CURLE_OK)
        lf_answer_whole(reply);
    curl_slist_free_all(headers);
}

static void pass(struct lf_gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->ready++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void run(struct lf_client *client) {
    char *body = lf_ask_body(&client->ask);
    CURL *curl = open_handle(client->server, lf_ask_route(&client->ask));
    if (client->gate)
        pass(client->gate);
    if (client->delay_s > 0) {
        struct timespec pause = {(time_t)client->delay_s,
                                 (long)((client->delay_s - (double)(time_t)client->delay_s) * 1e9)};
        nanosleep(&pause, NULL);
    }
    if (body && curl)
        perform(client, curl, body);
    else
        lf_answer_fail(&client->reply, "memory", "out of memory for the request");
    lf_answer_finish(&client->reply, client->ask.tokens);
    if (client->reply.error)
        fprintf(stderr, "request failed: %s: %s\n", client->reply.error, client->reply.detail);
    curl_easy_cleanup(curl);
    free(body);
    atomic_store(&client->done, true);
}

void lf_client_run(const struct lf_bench_server *server, const struct lf_bench_ask *ask,
                   struct lf_answer *reply) {
    struct lf_client client = {.server = server, .ask = *ask};
    lf_answer_init(&client.reply);
    run(&client);
    *reply = client.reply;
}

static void *thread_main(void *client) {
    run(client);
    return NULL;
}

void lf_client_start(struct lf_client *client) {
    lf_answer_init(&client->reply);
    client->started = !pthread_create(&client->thread, NULL, thread_main, client);
    if (client->started)
        return;
    lf_answer_fail(&client->reply, "thread", "a thread did not start");
    lf_answer_finish(&client->reply, client->ask.tokens);
    atomic_store(&client->done, true);
}

void lf_client_wait(struct lf_client *client) {
    if (client->started)
        pthread_join(client->thread, NULL);
    client->started = false;
}

void lf_client_gang(struct lf_client *client, size_t n, double stagger_ms) {
    struct lf_gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    size_t started = 0;
    for (size_t i = 0; i < n; i++) {
        client[i].gate = &gate;
        client[i].delay_s = (double)i * stagger_ms / 1000;
        lf_client_start(&client[i]);
        started += client[i].started;
    }
    pthread_mutex_lock(&gate.lock);
    while (gate.ready < started)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    for (size_t i = 0; i < n; i++)
        lf_client_wait(&client[i]);
    pthread_cond_destroy(&gate.changed);
    pthread_mutex_destroy(&gate.lock);
}

void lf_client_get(const struct lf_bench_server *server, const char *path,
                   struct lf_buffer *body, long *status) {
    CURL *curl = open_handle(server, path);
    *status = 0;
    if (!curl)
        return;
    struct curl_slist *headers = headers_of(server);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)GET_S_MAX);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}
