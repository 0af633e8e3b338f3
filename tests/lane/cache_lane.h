// Requests that go through the prompt cache over the fake target, without an engine.
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "kernel_check.h"
#include "lane/cache_store.h"
#include "support/fake_saver.h"
#include "support/fake_target.h"

enum { SLOTS = 4, CONTEXT = 40000, IMAGE_ID = 999, REPLY_MAX = 64 };
static const uint64_t NO_CAP = 1ull << 40;

// A request in a slot, and its text: prompt and reply.
struct lane {
    struct lf_cache_pass pass;
    uint32_t text[CONTEXT];
    struct lf_image_span image;
    uint32_t shared[2];
    uint64_t rows; // of the prompt
    uint64_t at;   // the slot's length
};

static struct lf_target *target;
static struct lf_fake_saves *saves;
static struct lf_cache *cache;
static struct lane lane[SLOTS];

static inline void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

static inline void open_cache(uint64_t cap_bytes) {
    struct lf_error err = LF_ERROR_INIT;
    target = lf_fake_saver_open(SLOTS, CONTEXT);
    saves = lf_fake_saves(target);
    saves->cap_bytes = cap_bytes;
    must(lf_cache_open(&cache, target, cap_bytes, &err), &err);
}

static inline void close_cache(void) {
    for (uint32_t s = 0; s < SLOTS; s++)
        lf_cache_end(cache, &lane[s].pass, NULL);
    lf_cache_close(cache);
    assert_int_equal(saves->total_bytes, 0);
    target->ops->close(target);
    memset(lane, 0, sizeof lane);
}

static inline struct lf_cache_stats stats(void) {
    struct lf_cache_stats s;
    lf_cache_stats_read(cache, &s);
    return s;
}

static inline void write_text(uint32_t slot, uint64_t from, uint64_t to, uint64_t seed) {
    for (uint64_t i = from; i < to; i++) {
        struct lf_check_rng rng = {seed * 1000003 + i};
        lane[slot].text[i] = lf_check_below(&rng, 900);
    }
}

static inline void put_image(uint32_t slot, uint64_t start, uint32_t rows, uint8_t digest) {
    lane[slot].image = (struct lf_image_span){.start = start, .rows = rows, .digest = {digest}};
    for (uint32_t i = 0; i < rows; i++)
        lane[slot].text[start + i] = IMAGE_ID;
}

static inline struct lf_rowkeys keys_of(const struct lane *l, uint64_t n) {
    struct lf_rowkeys keys = {.n = n, .token = l->text, .image = &l->image,
                              .n_images = l->image.rows ? 1 : 0};
    return lf_rowkeys_cut(&keys, n);
}

// Ends what the slot does, empties it and begins; the resumed rows must be those of the text.
static inline uint64_t begin(uint32_t slot, uint64_t rows, uint64_t history, uint64_t rewind,
                      uint32_t n_shared) {
    struct lf_error err = LF_ERROR_INIT;
    struct lane *l = &lane[slot];
    struct lf_cache_prompt prompt = {.keys = keys_of(l, rows), .history_len = history,
                                     .rewind_len = rewind, .shared = l->shared,
                                     .n_shared = n_shared};
    uint8_t digest[32];
    lf_cache_end(cache, &l->pass, NULL);
    must(target->ops->reset(target, slot, &err), &err);
    lf_cache_begin(cache, &l->pass, slot, &prompt);
    l->rows = rows;
    l->at = l->pass.resumed;
    must(target->ops->digest(target, slot, digest, &err), &err);
    uint64_t want = lf_fake_next(l->text, l->at, 0, UINT32_MAX);
    assert_memory_equal(digest, &want, sizeof want);
    return l->pass.resumed;
}

static inline void run_rows(uint32_t slot, uint64_t rows, const struct lf_bound *plan,
                            uint32_t n_plan) {
    struct lf_error err = LF_ERROR_INIT;
    struct lane *l = &lane[slot];
    struct lf_chunk chunk = {.slot = slot, .rows = (uint32_t)rows, .pos0 = l->at,
                             .tok = l->text + l->at, .plan = plan, .n_plan = n_plan};
    must(target->ops->prefill(target, &chunk, 1, &err), &err);
    l->at += rows;
}

// To the next boundary of the plan.
static inline void step(uint32_t slot) {
    struct lane *l = &lane[slot];
    run_rows(slot, lf_cache_next(&l->pass, l->at) - l->at, l->pass.plan, l->pass.n_plan);
    lf_cache_mark(cache, &l->pass, l->at);
}

static inline void read_prompt(uint32_t slot) {
    while (lane[slot].at < lane[slot].rows)
        step(slot);
}

// A reply of some tokens, saved at its end.
static inline void finish(uint32_t slot, uint32_t reply) {
    struct lane *l = &lane[slot];
    struct lf_bound end = {.at = l->at + reply};
    if (reply)
        run_rows(slot, reply, &end, 1);
    struct lf_rowkeys keys = keys_of(l, l->at);
    lf_cache_end(cache, &l->pass, &keys);
}

static inline void cancel(uint32_t slot) {
    lf_cache_end(cache, &lane[slot].pass, NULL);
}

// A whole request with text of a seed; what it resumed.
static inline uint64_t serve(uint32_t slot, uint64_t seed, uint64_t rows) {
    write_text(slot, 0, rows, seed);
    uint64_t resumed = begin(slot, rows, 0, 0, 0);
    read_prompt(slot);
    cancel(slot);
    return resumed;
}

static inline struct lf_entry *entry_of(uint64_t rows) {
    for (struct lf_entry *e = cache->first; e; e = e->next)
        if (e->keys.n == rows)
            return e;
    return NULL;
}

// C-5: what is held is what exists, and it is within the cap.
static inline void check_account(void) {
    uint64_t blocks = 0, entries = 0;
    for (struct lf_entry *e = cache->first; e; e = e->next, entries++) {
        blocks += e->bytes;
        assert_true(!e->next || e->next->keys.n >= e->keys.n);
    }
    for (struct lf_entry *e = cache->reading; e; e = e->next)
        blocks += e->charged_bytes;
    struct lf_cache_stats s = stats();
    assert_int_equal(s.held_bytes, blocks + saves->total_bytes);
    assert_int_equal(s.entries, entries);
    assert_true(s.held_bytes + cache->promised_bytes <= s.cap_bytes);
}
