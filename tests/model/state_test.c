#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "golden.h"
#include "model/v41.h"

enum { CONTEXT = 512, VOCAB = 2304, AFTER = 20 };

static struct lf_demo demo;
static struct lf_target *target;
static struct lf_v41 *m;
static struct lf_state *slot;
static uint32_t ids[CONTEXT];

static int open_all(void **state) {
    (void)state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_model_options options = {.slots = 1, .context = CONTEXT};
    lf_demo_open(&demo);
    target = lf_demo_target(&demo, &options);
    m = (struct lf_v41 *)target;
    slot = &m->state[0];
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = 5 + i * 37 % 2000;
    assert_int_equal(target->ops->grow(target, 0, CONTEXT, &err), LF_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    lf_demo_close(&demo);
    return 0;
}

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

static void prefill(uint32_t rows) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end = {.at = rows, .logits = true};
    struct lf_chunk chunk = {.rows = rows, .tok = ids, .plan = &end, .n_plan = 1};
    must(target->ops->reset(target, 0, &err), &err);
    must(target->ops->grow(target, 0, CONTEXT, &err), &err);
    must(target->ops->prefill(target, &chunk, 1, &err), &err);
}

static void read_digest(uint8_t out[32]) {
    struct lf_error err = LF_ERROR_INIT;
    must(target->ops->digest(target, 0, out, &err), &err);
}

// What later rows give: their logits, and the drafts asked for after each.
struct later {
    float logits[AFTER][VOCAB];
    struct lf_draft draft[AFTER];
};

// In windows of one row: all that the state feeds.
static void go_on(uint32_t from, struct later *later) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    uint32_t drawn, kept = 1;
    for (uint32_t i = 0; i < AFTER; i++) {
        struct lf_window w = {.rows = 1, .pos0 = from + i, .tok = ids + from + i, .rule = &greedy};
        must(target->ops->verify(target, &w, 1, &drawn, &err), &err);
        memcpy(later->logits[i], lf_model_logits(target, 0, 0), sizeof later->logits[i]);
        must(target->ops->keep(target, &w, &kept, 1, &err), &err);
        struct lf_draft_ask ask = {.pending = ids[from + i + 1], .rule = &greedy};
        must(target->drafter->propose(target, &ask, 1, &later->draft[i], &err), &err);
    }
}

static uint8_t *ring_row(uint32_t layer, uint64_t position) {
    return slot->ring[layer] + position % m->shape.ring_rows * m->shape.window_bytes;
}

static float *open_row(uint32_t source, uint64_t position) {
    return slot->open[source] + position % m->shape.open_rows * 2 * m->t->head_dim;
}

static uint32_t ratio_of(uint32_t source) {
    return m->t->ratio[m->t->kv_sources[source]];
}

// 0xFF are NaN codes and scales: whatever reads them shows.
static void poison_open(uint64_t n) {
    size_t bytes = 2 * (size_t)m->t->head_dim * sizeof(float);
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
        for (uint64_t p = n; slot->open[s] && p < n + m->shape.open_rows; p++)
            if (p + 1 != n + m->shape.open_rows || n % 2 == 0)
                memset(open_row(s, p), 0xFF, bytes);
}

// Every byte of the slot that rows from n on must not read.
static void poison_rest(uint64_t n) {
    uint64_t window = m->t->window - 1, older = m->shape.ring_rows - (n < window ? n : window);
    for (uint32_t l = 0; l < m->shape.rings; l++)
        for (uint64_t p = n; p < n + older; p++)
            memset(ring_row(l, p), 0xFF, m->shape.window_bytes);
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
        for (uint64_t j = n / ratio_of(s); j < CONTEXT / ratio_of(s); j++) {
            memset(lf_paged_row(&slot->entry[s], j, m->shape.entry_bytes), 0xFF,
                   m->shape.entry_bytes);
            memset(lf_paged_row(&slot->key[s], j, m->shape.key_bytes), 0xFF, m->shape.key_bytes);
        }
    poison_open(n);
    uint64_t back = m->t->engram_ngram - 1;
    for (uint64_t p = 0; p < CONTEXT; p++)
        if (p >= n || p + back < n)
            slot->history[p] = VOCAB - 1;
    for (uint32_t i = 0; i < VOCAB; i++)
        slot->last[i] = 0.0f;
    // The digest took the taps into the draft rings.
    memset(slot->taps, 0xFF, sizeof(uint16_t) * m->shape.ring_rows * (size_t)m->shape.tap_size);
}

// engine.md 9.3: the digest holds only what later rows can read
static void what_the_digest_leaves_out_no_later_row_reads(void **state) {
    static const uint32_t lengths[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 130, 131, 259};
    static struct later want, got;
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t before[32], after[32];
        prefill(lengths[i]);
        go_on(lengths[i], &want);
        prefill(lengths[i]);
        read_digest(before);
        poison_rest(lengths[i]);
        read_digest(after);
        assert_memory_equal(before, after, sizeof before);
        go_on(lengths[i], &got);
        if (memcmp(&got, &want, sizeof got))
            fail_msg("%u rows: a later row read what the digest leaves out", lengths[i]);
    }
}

static void changes_digest(void *byte, const char *what, uint64_t at) {
    uint8_t before[32], after[32], *b = byte;
    read_digest(before);
    *b ^= 1;
    read_digest(after);
    *b ^= 1;
    if (!memcmp(before, after, sizeof before))
        fail_msg("the digest does not hold %s %u", what, (uint32_t)at);
}

// And all of that: first and last byte of each piece.
static void what_later_rows_read_is_in_the_digest(void **state) {
    static const uint32_t lengths[] = {1, 2, 33, 64, 131};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t n = lengths[i], first = n > m->t->window - 1 ? n - (m->t->window - 1) : 0;
        prefill(lengths[i]);
        for (uint32_t l = 0; l < m->shape.rings; l++)
            for (uint64_t p = first; p < n; p++) {
                changes_digest(ring_row(l, p), "a window row at", p);
                changes_digest(ring_row(l, p) + m->shape.window_bytes - 1, "a window row at", p);
            }
        for (uint32_t s = 0; s < m->t->n_kv_sources; s++) {
            for (uint64_t j = 0; j < n / ratio_of(s); j++) {
                uint8_t *entry = lf_paged_row(&slot->entry[s], j, m->shape.entry_bytes);
                uint8_t *key = lf_paged_row(&slot->key[s], j, m->shape.key_bytes);
                changes_digest(entry, "entry", j);
                changes_digest(entry + m->shape.entry_bytes - 1, "entry", j);
                changes_digest(key, "index key", j);
                changes_digest(key + m->shape.key_bytes - 1, "index key", j);
            }
            if (ratio_of(s) == 2 && n % 2) {
                changes_digest(open_row(s, n - 1), "the open row at", n - 1);
                changes_digest(open_row(s, n - 1) + 2 * m->t->head_dim - 1, "the open row at",
                               n - 1);
            }
        }
        for (uint64_t p = n < 3 ? 0 : n - 3; p < n; p++)
            changes_digest(&slot->history[p], "the token at", p);
        changes_digest(&slot->length, "the length", n);
    }
}

// engine.md L-15 and section 3: ring sizes for windows of up to 16 rows
static void rings_hold_a_window_of_drafts_beside_the_window(void **state) {
    struct lf_topology t = *m->t;
    struct lf_state_shape shape;
    (void)state;
    lf_state_shape_init(&shape, &t, CONTEXT);
    assert_int_equal(shape.ring_rows, 64);
    assert_int_equal(shape.window_bytes, 66);
    assert_int_equal(shape.entry_bytes, 36);
    assert_int_equal(shape.key_bytes, 17);
    assert_true(shape.open_rows >= LF_WINDOW_MAX + 2);
    t.window = 128;
    t.head_dim = 512;
    t.index_dim = 128;
    lf_state_shape_init(&shape, &t, 1 << 20);
    assert_int_equal(shape.ring_rows, 256);
    assert_int_equal(shape.window_bytes, 528);
    assert_int_equal(shape.entry_bytes, 288);
    assert_int_equal(shape.key_bytes, 68);
}

// engine.md M-8, L-42: pages come as positions are promised and go back at the end
static void storage_grows_in_pages_and_stays_until_a_reset(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_state fresh;
    (void)state;
    must(lf_state_open(&fresh, &m->shape, &err), &err);
    assert_int_equal(fresh.grown, 0);
    assert_null(fresh.entry[0].page[0]);
    must(lf_state_grow(&fresh, &m->shape, 1, &err), &err);
    assert_non_null(fresh.entry[1].page[0]);
    assert_null(fresh.entry[1].page[1]);
    must(lf_state_grow(&fresh, &m->shape, 129, &err), &err);
    uint8_t *page = fresh.key[1].page[1];
    assert_non_null(page);
    assert_null(fresh.key[0].page[1]);
    must(lf_state_grow(&fresh, &m->shape, 60, &err), &err);
    assert_int_equal(fresh.grown, 129);
    must(lf_state_grow(&fresh, &m->shape, CONTEXT, &err), &err);
    assert_ptr_equal(fresh.key[1].page[1], page);
    assert_int_equal(lf_state_grow(&fresh, &m->shape, CONTEXT + 1, &err), LF_E_POS);
    lf_state_reset(&fresh, &m->shape);
    assert_int_equal(fresh.grown, 0);
    for (uint32_t i = 0; i < m->shape.pages_max; i++)
        for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
            assert_true(!fresh.entry[s].page[i] && !fresh.key[s].page[i]);
    lf_state_close(&fresh, &m->shape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_digest_leaves_out_no_later_row_reads),
        cmocka_unit_test(what_later_rows_read_is_in_the_digest),
        cmocka_unit_test(rings_hold_a_window_of_drafts_beside_the_window),
        cmocka_unit_test(storage_grows_in_pages_and_stays_until_a_reset),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
