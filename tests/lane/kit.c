#include "kit.h"

#include <math.h>
#include <stdlib.h>

static void on_admitted(void *ctx, uint64_t id) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    h->admitted++;
    pthread_mutex_unlock(&h->lock);
}

static void on_prefilled(void *ctx, uint64_t id, uint32_t cached) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    h->cached = cached;
    h->prefilled++;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

// A drawn token's row says its position; a forced one's what its alternatives say of it (S-21).
static bool row_wrong(const struct lf_logprob_row *row, uint32_t id, uint64_t position) {
    float value = NAN;
    if (row->id[0] == id)
        return row->drawn != -(float)position;
    for (uint32_t i = 0; i < row->n; i++)
        if (row->id[i] == id)
            value = row->value[i];
    return isnan(value) ? !isnan(row->drawn) : row->drawn != value;
}

static void on_tokens(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                      const struct lf_logprob_row *rows) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 0; rows && i < n; i++) {
        uint64_t position = h->prompt_len + h->ids.len + i;
        h->logprobs_wrong |= row_wrong(&rows[i], token[i], position);
    }
    if (!h->ids.len)
        h->first_at = h->kit ? lf_fake_clock(h->kit->target) : 0;
    lf_ids_add_all(&h->ids, token, n);
    h->calls++;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    h->finished++;
    h->why = why;
    h->stats = *stats;
    assert_true(!h->prefilled || stats->cached_tokens == h->cached);
    strncpy(h->message, message, sizeof h->message - 1);
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

const struct lf_sink kit_sink = {on_admitted, on_prefilled, on_tokens, on_finished};

void heard_init(struct heard *h) {
    *h = (struct heard){0};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
}

void heard_wait(struct heard *h) {
    pthread_mutex_lock(&h->lock);
    while (!h->finished)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

void heard_wait_tokens(struct heard *h, size_t n) {
    pthread_mutex_lock(&h->lock);
    while (h->ids.len < n)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

void heard_free(struct heard *h) {
    lf_ids_free(&h->ids);
}

void heard_expect(const struct heard *h, const uint32_t *prompt, uint32_t n, size_t len) {
    uint32_t *history = malloc((n + len) * sizeof *history);
    assert_non_null(history);
    memcpy(history, prompt, n * sizeof *prompt);
    assert_int_equal(h->ids.len, len);
    for (size_t i = 0; i < len; i++) {
        history[n + i] = lf_fake_next(history, n + i, 42, KIT_VOCAB);
        assert_int_equal(h->ids.id[i], history[n + i]);
    }
    assert_false(h->logprobs_wrong);
    free(history);
}

static void launched(void *ctx, const struct lf_fake_launch *l) {
    struct kit *kit = ctx;
    pthread_mutex_lock(&kit->lock);
    while (kit->closed && kit->engine) // not for the launches that are timed at the start
        pthread_cond_wait(&kit->opened, &kit->lock);
    pthread_mutex_unlock(&kit->lock);
    if (kit->n_log < KIT_LOG) {
        struct kit_launch *to = &kit->log[kit->n_log++];
        uint32_t n = l->n < KIT_SLOTS ? l->n : KIT_SLOTS;
        *to = (struct kit_launch){.kind = l->kind, .n = l->n, .rows = l->rows,
                                  .at = lf_fake_clock(kit->target)};
        memcpy(to->slot, l->slot, n * sizeof *l->slot);
        memcpy(to->slot_rows, l->slot_rows, n * sizeof *l->slot_rows);
    }
    if (kit->each)
        kit->each(kit, l);
}

void kit_open(struct kit *kit, struct lf_fake_options fake, struct lf_engine_options options,
              bool simulated) {
    struct lf_error err = LF_ERROR_INIT;
    void (*each)(struct kit *, const struct lf_fake_launch *) = kit->each;
    void *ctx = kit->ctx;
    *kit = (struct kit){.each = each, .ctx = ctx, .closed = kit->closed,
                        .free_bytes = kit->free_bytes, .free_ctx = kit->free_ctx};
    pthread_mutex_init(&kit->lock, NULL);
    pthread_cond_init(&kit->opened, NULL);
    kit->log = calloc(KIT_LOG, sizeof *kit->log);
    assert_non_null(kit->log);
    fake.vocab = KIT_VOCAB;
    fake.context = fake.context ? fake.context : KIT_CONTEXT;
    fake.chunk_rows = fake.chunk_rows ? fake.chunk_rows : 16;
    fake.slots = fake.slots ? fake.slots : 1;
    fake.launched = launched;
    fake.launched_ctx = kit;
    kit->target = lf_fake_target_open(&fake);
    struct lf_machine machine = {.now = simulated ? lf_fake_clock : NULL, .now_ctx = kit->target,
                                 .free_bytes = kit->free_bytes, .free_ctx = kit->free_ctx};
    assert_int_equal(lf_engine_start(&kit->engine, kit->target, &options, &machine, &err), LF_OK);
}

void kit_gate_open(struct kit *kit) {
    pthread_mutex_lock(&kit->lock);
    kit->closed = false;
    pthread_cond_broadcast(&kit->opened);
    pthread_mutex_unlock(&kit->lock);
}

void kit_close(struct kit *kit) {
    lf_engine_close(kit->engine, 0);
    free(kit->log);
}

struct lf_request kit_request(const uint32_t *prompt, uint32_t len, uint32_t max_tokens) {
    static const uint32_t end_id[1] = {KIT_EOS};
    return (struct lf_request){.prompt = prompt, .prompt_len = len, .max_tokens = max_tokens,
                               .sampling = {.temperature = 1, .seed = 42}, .eos = end_id};
}

void kit_prompt(uint32_t *prompt, uint32_t n, uint32_t salt) {
    for (uint32_t i = 0; i < n; i++)
        prompt[i] = (uint32_t)((i * 31ull + salt + (uint64_t)i * i % 97) % KIT_VOCAB);
}

struct lf_request kit_crowd(uint32_t *prompt, uint32_t i) {
    uint32_t rows = 300 + i * 37 % 600, own = rows - i * 53 % 300;
    kit_prompt(prompt, rows, i % 4);
    kit_prompt(prompt + own, rows - own, 100 + i % 7);
    struct lf_request r = kit_request(prompt, rows, 1 + i * 7 % 40);
    r.rewind_len = own;
    r.background = i % 5 == 0;
    r.no_cache = i % 9 == 0;
    return r;
}

void kit_submit(struct kit *kit, uint64_t id, const struct lf_request *r, struct heard *h) {
    struct lf_error err = LF_ERROR_INIT;
    heard_init(h);
    h->kit = kit;
    h->prompt_len = r->prompt_len;
    assert_int_equal(lf_engine_submit(kit->engine, id, r, &kit_sink, h, &err), LF_OK);
}
