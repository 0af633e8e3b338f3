// F-7 on the fake target: whichever allocation fails, one request fails at most, never the engine.
#include "kit.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { PROMPT = 40, REPLY = 70, N = 3 };

// The allocation to fail, counted down while it is positive; this program is linked with --wrap.
static atomic_long left;
static atomic_bool failed;

static bool refused(void) {
    if (atomic_load(&left) <= 0 || atomic_fetch_sub(&left, 1) != 1)
        return false;
    atomic_store(&failed, true);
    return true;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    return refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return refused() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
    return refused() ? NULL : __real_realloc(old, bytes);
}

// A request whose events allocate nothing: what fails is the engine's.
struct quiet {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished;
    enum lf_done why;
    uint32_t id[REPLY], n;
    char message[512];
};

static void on_tokens(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                      const struct lf_logprob_row *rows) {
    struct quiet *q = ctx;
    (void)id, (void)rows;
    assert_true(q->n + n <= REPLY);
    memcpy(q->id + q->n, token, n * sizeof *token);
    q->n += n;
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct quiet *q = ctx;
    (void)id, (void)stats;
    pthread_mutex_lock(&q->lock);
    q->why = why;
    strncpy(q->message, message, sizeof q->message - 1);
    q->finished = true;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static const struct lf_sink quiet_sink = {.tokens = on_tokens, .finished = on_finished};

static void quiet_wait(struct quiet *q) {
    pthread_mutex_lock(&q->lock);
    while (!q->finished)
        pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

static bool quiet_submit(struct kit *k, uint64_t id, const struct lf_request *r, struct quiet *q) {
    struct lf_error err = LF_ERROR_INIT;
    *q = (struct quiet){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    enum lf_status status = lf_engine_submit(k->engine, id, r, &quiet_sink, q, &err);
    assert_true(status == LF_OK || status == LF_E_MEM);
    return status == LF_OK;
}

// Whole, or failed for want of memory; what came is right in any case. Returns whether it is whole.
static bool expect(const struct quiet *q, const uint32_t *prompt) {
    uint32_t history[PROMPT + REPLY];
    memcpy(history, prompt, PROMPT * sizeof *prompt);
    for (uint32_t i = 0; i < q->n; i++) {
        history[PROMPT + i] = lf_fake_next(history, PROMPT + i, 42, KIT_VOCAB);
        assert_int_equal(q->id[i], history[PROMPT + i]);
    }
    if (q->why == LF_DONE_LENGTH) {
        assert_int_equal(q->n, REPLY);
        return true;
    }
    assert_true(q->why == LF_DONE_FAILED || q->why == LF_DONE_MEMORY);
    assert_non_null(strstr(q->message, "memory"));
    return false;
}

// Three requests, the last a background one that yields, and one more; false: nothing failed.
static bool run_with_failure(long at) {
    struct kit k = {0};
    uint32_t prompt[N][PROMPT], whole = 0;
    struct quiet q[N], after;
    bool taken[N];
    kit_open(&k,
             (struct lf_fake_options){.slots = 2, .drafter = {.present = true, .right = 0.6}},
             (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = 3,
                                        .prompt_cache_bytes = 1 << 20},
             true);
    atomic_store(&failed, false);
    atomic_store(&left, at);
    for (uint32_t i = 0; i < N; i++) {
        kit_prompt(prompt[i], PROMPT, i / 2);
        struct lf_request r = kit_request(prompt[i], PROMPT, REPLY);
        r.background = i == 0;
        taken[i] = quiet_submit(&k, i + 1, &r, &q[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        if (!taken[i])
            continue;
        quiet_wait(&q[i]);
        whole += expect(&q[i], prompt[i]);
    }
    atomic_store(&left, 0);
    assert_true(whole >= N - 1);
    struct lf_engine_status status;
    lf_engine_status_read(k.engine, &status);
    assert_false(status.dead);
    struct lf_request r = kit_request(prompt[0], PROMPT, REPLY);
    assert_true(quiet_submit(&k, 9, &r, &after));
    quiet_wait(&after);
    assert_true(expect(&after, prompt[0]));
    kit_close(&k);
    return atomic_load(&failed);
}

static void does_each_failed_allocation_fail_one_request_at_most(void **state) {
    (void)state;
    long at = 1;
    while (run_with_failure(at))
        at++;
    // Streams, replies, drafts of the history and saved states all allocate.
    assert_true(at > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_each_failed_allocation_fail_one_request_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
