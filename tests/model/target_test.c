#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "base/sha256.h"
#include "golden.h"
#include "model/v41.h"

enum { CONTEXT = 96, GROWN = 80, CHUNK = 48, VOCAB = 2304 };

static struct lf_demo demo;
static struct lf_target *target;
static const struct lf_target_ops *ops;
static const struct lf_sampling greedy = {0};
static uint32_t ids[200];

static int open_all(void **state) {
    (void)state;
    struct lf_model_options options = {.slots = 2, .context = CONTEXT, .chunk_rows = CHUNK};
    lf_demo_open(&demo);
    target = lf_demo_target(&demo, &options);
    ops = target->ops;
    for (uint32_t i = 0; i < 200; i++)
        ids[i] = 5 + i * 11 % 2000;
    return 0;
}

static int close_all(void **state) {
    (void)state;
    ops->close(target);
    lf_demo_close(&demo);
    return 0;
}

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

static void add_pages(struct lf_sha256 *sha, const struct lf_v41 *m, const struct lf_paged *paged,
                      uint32_t bytes) {
    for (uint32_t i = 0; i < m->shape.pages_max; i++) {
        lf_sha256_add(sha, &paged->page[i], sizeof paged->page[i]);
        if (paged->page[i])
            lf_sha256_add(sha, paged->page[i], (size_t)LF_PAGE_ROWS * bytes);
    }
}

// Every byte a slot owns, read by later rows or not.
static void everything(uint8_t out[2][32]) {
    const struct lf_v41 *m = (const struct lf_v41 *)target;
    for (int slot = 0; slot < 2; slot++) {
        const struct lf_state *s = &m->state[slot];
        struct lf_sha256 sha;
        lf_sha256_init(&sha);
        uint64_t fields[] = {s->length, s->grown, s->complete, s->logits_ready, s->n_plan,
                             s->pending_rows, s->taps_from, s->draft_from, s->draft_end};
        lf_sha256_add(&sha, fields, sizeof fields);
        for (uint32_t b = 0; b < s->n_plan; b++) {
            uint64_t bound[] = {s->plan[b].at, s->plan[b].logits};
            lf_sha256_add(&sha, bound, sizeof bound);
        }
        lf_sha256_add(&sha, s->history, CONTEXT * sizeof *s->history);
        lf_sha256_add(&sha, s->last, VOCAB * sizeof *s->last);
        lf_sha256_add(&sha, s->taps,
                      sizeof *s->taps * m->shape.ring_rows * (size_t)m->shape.tap_size);
        for (uint32_t l = 0; l < m->shape.rings; l++)
            lf_sha256_add(&sha, s->ring[l], (size_t)m->shape.ring_rows * m->shape.window_bytes);
        for (uint32_t i = 0; i < m->t->n_kv_sources; i++) {
            add_pages(&sha, m, &s->entry[i], m->shape.entry_bytes);
            add_pages(&sha, m, &s->key[i], m->shape.key_bytes);
            if (s->open[i])
                lf_sha256_add(&sha, s->open[i],
                              (size_t)m->shape.open_rows * 2 * m->t->head_dim * sizeof(float));
        }
        lf_sha256_finish(&sha, out[slot]);
    }
}

enum call { PREFILL, VERIFY, KEEP, DRAW, GROW, RESET, DIGEST };

// What a call is given; only the fields of that call count.
struct request {
    enum call call;
    struct lf_chunk chunk[3];
    struct lf_window window[6];
    uint32_t kept[6];
    uint32_t n, slot;
    uint64_t positions;
};

static enum lf_status run(const struct request *r, struct lf_error *err) {
    uint32_t drawn[128];
    uint8_t digest[32];
    switch (r->call) {
    case PREFILL:
        return ops->prefill(target, r->chunk, r->n, err);
    case VERIFY:
        return ops->verify(target, r->window, r->n, drawn, err);
    case KEEP:
        return ops->keep(target, r->window, r->kept, r->n, err);
    case DRAW:
        return ops->draw_last(target, r->window, drawn, err);
    case GROW:
        return ops->grow(target, r->slot, r->positions, err);
    case RESET:
        return ops->reset(target, r->slot, err);
    case DIGEST:
        return ops->digest(target, r->slot, digest, err);
    }
    return LF_OK;
}

// The status, a sentence, and not one byte of any slot changed.
static void refused(const char *why, enum lf_status status, const struct request *r) {
    struct lf_error err = LF_ERROR_INIT;
    uint8_t before[2][32], after[2][32];
    everything(before);
    enum lf_status got = run(r, &err);
    if (got != status || err.status != status)
        fail_msg("%s: %s (%s), expected %s", why, lf_status_name(got), err.text,
                 lf_status_name(status));
    if (!err.text[0])
        fail_msg("%s: refused without a sentence", why);
    everything(after);
    if (memcmp(before, after, sizeof before))
        fail_msg("%s: the refusal changed a slot", why);
}

static void accepted(const struct request *r) {
    struct lf_error err = LF_ERROR_INIT;
    must(run(r, &err), &err);
}

// Both slots with 20 rows, at a boundary with logits.
static const struct lf_bound end20 = {.at = 20, .logits = true};
static void start(void) {
    struct lf_error err = LF_ERROR_INIT;
    struct request r = {.call = PREFILL, .n = 2};
    for (uint32_t s = 0; s < 2; s++) {
        must(ops->reset(target, s, &err), &err);
        must(ops->grow(target, s, GROWN, &err), &err);
        r.chunk[s] = (struct lf_chunk){.slot = s, .rows = 20, .tok = ids + s, .plan = &end20,
                                       .n_plan = 1};
    }
    accepted(&r);
}

static struct lf_chunk chunk_at(uint32_t slot, uint64_t pos0, uint32_t rows,
                                const struct lf_bound *plan, uint32_t n_plan) {
    return (struct lf_chunk){.slot = slot, .rows = rows, .pos0 = pos0, .tok = ids + pos0,
                             .plan = plan, .n_plan = n_plan};
}

static struct lf_window window_at(uint32_t slot, uint64_t pos0, uint32_t rows) {
    return (struct lf_window){.slot = slot, .rows = rows, .pos0 = pos0, .tok = ids + pos0,
                              .rule = &greedy};
}

// engine.md 1.2, the refusals of rows, for prefill
static void prefill_refuses_rows_that_do_not_fit(void **state) {
    const struct lf_bound end = {.at = 96, .logits = true};
    uint32_t bad[2] = {7, VOCAB};
    struct request r = {.call = PREFILL, .n = 1};
    (void)state;
    start();
    r.chunk[0] = chunk_at(2, 20, 4, &end, 1);
    refused("slot out of range", LF_E_SLOT, &r);
    r.chunk[0] = chunk_at(0, 20, 0, &end, 1);
    refused("no rows", LF_E_ROWS, &r);
    r.chunk[0] = chunk_at(0, 20, CHUNK + 1, &end, 1);
    refused("more rows than a chunk", LF_E_ROWS, &r);
    r.chunk[0] = chunk_at(0, 19, 4, &end, 1);
    refused("rows before the length", LF_E_POS, &r);
    r.chunk[0] = chunk_at(0, 21, 4, &end, 1);
    refused("rows past the length", LF_E_POS, &r);
    r.chunk[0] = chunk_at(0, 20, 4, &end, 1);
    r.chunk[0].tok = bad;
    r.chunk[0].rows = 2;
    refused("a token past the vocabulary", LF_E_TOKEN, &r);
    r.n = 0;
    refused("no chunk at all", LF_E_ROWS, &r);
    r.n = 2;
    r.chunk[0] = chunk_at(0, 20, 4, &end, 1);
    r.chunk[1] = chunk_at(0, 20, 4, &end, 1);
    refused("a slot named twice", LF_E_SLOT, &r);
    r.chunk[1] = chunk_at(1, 19, 4, &end, 1);
    refused("a wrong second chunk", LF_E_POS, &r);
    r.chunk[0] = chunk_at(0, 20, CHUNK, &end, 1);
    r.chunk[1] = chunk_at(1, 20, CHUNK, &end, 1);
    refused("more rows than a call", LF_E_ROWS, &r);
}

static void prefill_refuses_positions_without_room(void **state) {
    const struct lf_bound end = {.at = 200, .logits = true};
    struct request r = {.call = PREFILL, .n = 1};
    (void)state;
    start();
    r.chunk[0] = chunk_at(0, 20, 40, &end, 1);
    accepted(&r);
    r.chunk[0] = chunk_at(0, 60, GROWN - 60 + 1, &end, 1);
    refused("storage not grown", LF_E_MEM, &r);
    r.chunk[0] = chunk_at(0, 60, CONTEXT - 60 + 1, &end, 1);
    refused("rows past the context", LF_E_POS, &r);
}

static void prefill_refuses_plans_that_make_no_sense(void **state) {
    const struct lf_bound falling[] = {{40, false}, {30, true}}, equal[] = {{30, true}, {30, true}};
    const struct lf_bound early = {.at = 23, .logits = true}, end = {.at = 40, .logits = true};
    static struct lf_bound many[LF_PLAN_MAX + 1];
    struct request r = {.call = PREFILL, .n = 1};
    (void)state;
    start();
    for (uint32_t i = 0; i <= LF_PLAN_MAX; i++)
        many[i].at = i + 21;
    r.chunk[0] = chunk_at(0, 20, 4, &end, 0);
    refused("no boundary", LF_E_PLAN, &r);
    r.chunk[0] = chunk_at(0, 20, 4, many, LF_PLAN_MAX + 1);
    refused("too many boundaries", LF_E_PLAN, &r);
    r.chunk[0] = chunk_at(0, 20, 4, falling, 2);
    refused("falling boundaries", LF_E_PLAN, &r);
    r.chunk[0] = chunk_at(0, 20, 4, equal, 2);
    refused("a boundary twice", LF_E_PLAN, &r);
    r.chunk[0] = chunk_at(0, 20, 4, &early, 1);
    refused("rows past the last boundary", LF_E_PLAN, &r);
}

// engine.md 1.2: a chunk's end that is no boundary can only be prefilled on from, by the same plan
static void inside_a_pass_only_the_pass_goes_on(void **state) {
    const struct lf_bound plan[] = {{30, false}, {40, true}};
    const struct lf_bound other[] = {{30, true}, {40, true}}, shorter = {.at = 40, .logits = true};
    struct request r = {.call = PREFILL, .n = 1};
    (void)state;
    start();
    r.chunk[0] = chunk_at(0, 20, 4, plan, 2);
    accepted(&r);
    r.chunk[0] = chunk_at(0, 24, 4, other, 2);
    refused("a boundary with other logits", LF_E_PLAN, &r);
    r.chunk[0] = chunk_at(0, 24, 4, &shorter, 1);
    refused("a boundary less", LF_E_PLAN, &r);
    r = (struct request){.call = VERIFY, .n = 1, .window = {window_at(0, 24, 2)}};
    refused("a verify inside a pass", LF_E_PLAN, &r);
    r = (struct request){.call = DRAW, .window = {window_at(0, 24, 0)}};
    refused("a draw inside a pass", LF_E_PLAN, &r);
    r = (struct request){.call = DIGEST, .slot = 0};
    refused("a digest inside a pass", LF_E_PLAN, &r);
    r = (struct request){.call = PREFILL, .n = 1, .chunk = {chunk_at(0, 24, 6, plan, 2)}};
    accepted(&r);
    r = (struct request){.call = DRAW, .window = {window_at(0, 30, 0)}};
    refused("a draw where no logits were asked for", LF_E_PLAN, &r);
    r = (struct request){.call = VERIFY, .n = 1, .window = {window_at(0, 30, 2)}};
    accepted(&r);
}

static void verify_refuses_rows_that_do_not_fit(void **state) {
    uint32_t bad[2] = {7, VOCAB};
    struct request r = {.call = VERIFY, .n = 1};
    (void)state;
    start();
    r.window[0] = window_at(2, 20, 1);
    refused("slot out of range", LF_E_SLOT, &r);
    r.window[0] = window_at(0, 20, 0);
    refused("no rows", LF_E_ROWS, &r);
    r.window[0] = window_at(0, 20, LF_WINDOW_MAX + 1);
    refused("more rows than a window", LF_E_ROWS, &r);
    r.window[0] = window_at(0, 19, 1);
    refused("rows before the length", LF_E_POS, &r);
    r.window[0] = window_at(0, 20, 2);
    r.window[0].tok = bad;
    refused("a token past the vocabulary", LF_E_TOKEN, &r);
    r.n = 0;
    refused("no window at all", LF_E_ROWS, &r);
    r.n = 2;
    r.window[0] = r.window[1] = window_at(0, 20, 1);
    refused("a slot named twice", LF_E_SLOT, &r);
    r.window[1] = window_at(1, 21, 1);
    refused("a wrong second window", LF_E_POS, &r);
}

static void verify_refuses_positions_without_room(void **state) {
    const struct lf_bound end = {.at = 68, .logits = true};
    struct request r = {.call = PREFILL, .n = 1, .chunk = {chunk_at(0, 20, 48, &end, 1)}};
    (void)state;
    start();
    accepted(&r);
    r = (struct request){.call = VERIFY, .n = 1, .window = {window_at(0, 68, 13)}};
    refused("storage not grown", LF_E_MEM, &r);
    struct request grow = {.call = GROW, .slot = 0, .positions = CONTEXT};
    accepted(&grow);
    accepted(&r);
    struct request keep = {.call = KEEP, .n = 1, .window = {r.window[0]}, .kept = {13}};
    accepted(&keep);
    r.window[0] = window_at(0, 81, 16);
    refused("rows past the context", LF_E_POS, &r);
}

// engine.md 1.2, L-7: every verify has its keep
static void a_verify_waits_for_its_keep(void **state) {
    const struct lf_bound end = {.at = 40, .logits = true};
    struct request r = {.call = VERIFY, .n = 1, .window = {window_at(0, 20, 4)}};
    (void)state;
    start();
    accepted(&r);
    refused("two verifies without a keep", LF_E_KEEP, &r);
    struct request other = {.call = VERIFY, .n = 2,
                            .window = {window_at(1, 20, 1), window_at(0, 20, 4)}};
    refused("a verify with a slot that waits", LF_E_KEEP, &other);
    struct request prefill = {.call = PREFILL, .n = 1, .chunk = {chunk_at(0, 20, 4, &end, 1)}};
    refused("a prefill before the keep", LF_E_KEEP, &prefill);
    struct request draw = {.call = DRAW, .window = {window_at(0, 20, 0)}};
    refused("a draw before the keep", LF_E_PLAN, &draw);
}

static void keep_refuses_all_but_a_prefix_of_the_last_window(void **state) {
    struct request r = {.call = KEEP, .n = 1, .window = {window_at(0, 20, 4)}, .kept = {1}};
    struct request verify = {.call = VERIFY, .n = 2,
                             .window = {window_at(0, 20, 4), window_at(1, 20, 2)}};
    (void)state;
    start();
    refused("a keep without a verify", LF_E_KEEP, &r);
    accepted(&verify);
    r.window[0].slot = 2;
    refused("slot out of range", LF_E_SLOT, &r);
    r.window[0] = window_at(0, 20, 4);
    r.kept[0] = 0;
    refused("a keep of no row", LF_E_KEEP, &r);
    r.kept[0] = 5;
    refused("a keep of more rows than the window", LF_E_KEEP, &r);
    r.kept[0] = 1;
    r.window[0].rows = 3;
    refused("a window of other rows", LF_E_KEEP, &r);
    r.window[0] = window_at(0, 19, 4);
    refused("a window at another position", LF_E_KEEP, &r);
    struct request twice = {.call = KEEP, .n = 2, .kept = {1, 1},
                            .window = {window_at(0, 20, 4), window_at(0, 20, 4)}};
    refused("a slot named twice", LF_E_SLOT, &twice);
    struct request half = {.call = KEEP, .n = 2, .kept = {4, 3},
                           .window = {window_at(0, 20, 4), window_at(1, 20, 2)}};
    refused("a wrong second keep", LF_E_KEEP, &half);
    half.kept[1] = 2;
    accepted(&half);
    refused("a keep twice", LF_E_KEEP, &half);
}

static void draws_growth_resets_and_digests_refuse_wrong_slots_and_places(void **state) {
    struct request r = {.call = DRAW, .window = {window_at(2, 20, 0)}};
    (void)state;
    start();
    refused("a draw of a slot out of range", LF_E_SLOT, &r);
    r.window[0] = window_at(0, 19, 0);
    refused("a draw before the length", LF_E_POS, &r);
    r.window[0] = window_at(0, 20, 1);
    refused("a draw with rows", LF_E_POS, &r);
    r.window[0] = window_at(0, 20, 0);
    accepted(&r);
    r = (struct request){.call = GROW, .slot = 2, .positions = 10};
    refused("growth of a slot out of range", LF_E_SLOT, &r);
    r = (struct request){.call = GROW, .slot = 0, .positions = CONTEXT + 1};
    refused("growth past the context", LF_E_POS, &r);
    r = (struct request){.call = RESET, .slot = 2};
    refused("a reset of a slot out of range", LF_E_SLOT, &r);
    r = (struct request){.call = DIGEST, .slot = 2};
    refused("a digest of a slot out of range", LF_E_SLOT, &r);
}

// After rounds the logits belong to no position any more: the next draw is a verify's.
static void a_keep_ends_the_last_draw(void **state) {
    struct request verify = {.call = VERIFY, .n = 1, .window = {window_at(0, 20, 2)}};
    struct request keep = {.call = KEEP, .n = 1, .window = {window_at(0, 20, 2)}, .kept = {2}};
    struct request draw = {.call = DRAW, .window = {window_at(0, 22, 0)}};
    (void)state;
    start();
    accepted(&verify);
    accepted(&keep);
    refused("a draw after a round", LF_E_PLAN, &draw);
}

static float value_of(uint32_t slot, uint32_t row, uint32_t id) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_logprob_row out;
    assert_int_equal(lf_model_logprobs(target, lf_model_logits(target, slot, row), 1, &id, &out,
                                       &err), LF_OK);
    return out.drawn;
}

// engine.md S-20, S-21: the row of the launch row that drew the token, raw logits, as asked.
static void draws_come_with_their_log_probabilities_where_asked(void **state) {
    const struct lf_sampling hot = {.temperature = 2, .top_p = 0.5, .top_k = 40, .seed = 3};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_logprob_row row[3], last;
    struct lf_window w[2] = {window_at(0, 20, 2), window_at(1, 20, 3)};
    struct lf_window draw = window_at(0, 20, 0);
    uint32_t drawn[5];
    (void)state;
    start();
    draw.logprobs = &last, draw.top_logprobs = 7;
    must(ops->draw_last(target, &draw, drawn, &err), &err);
    assert_true(last.n == 7 && last.id[0] == drawn[0] && last.value[0] == last.drawn);
    assert_true(last.drawn == value_of(0, 0, drawn[0]) && last.drawn < 0);
    w[1].rule = &hot, w[1].logprobs = row, w[1].top_logprobs = 20;
    must(ops->verify(target, w, 2, drawn, &err), &err);
    for (uint32_t r = 0; r < 3; r++) {
        assert_true(row[r].n == 20 && row[r].drawn == value_of(1, r, drawn[2 + r]));
        for (uint32_t i = 0; i < 20; i++) {
            assert_true(row[r].id[i] != drawn[2 + r] || row[r].value[i] == row[r].drawn);
            assert_true(!i || row[r].value[i] <= row[r].value[i - 1]);
        }
    }
    uint32_t kept[2] = {2, 3};
    must(ops->keep(target, w, kept, 2, &err), &err);
    struct request wrong = {.call = VERIFY, .n = 1, .window = {window_at(0, 22, 2)}};
    wrong.window[0].logprobs = row, wrong.window[0].top_logprobs = LF_LOGPROBS_MAX + 1;
    refused("more alternatives than a row has", LF_E_VALUE, &wrong);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_refuses_rows_that_do_not_fit),
        cmocka_unit_test(prefill_refuses_positions_without_room),
        cmocka_unit_test(prefill_refuses_plans_that_make_no_sense),
        cmocka_unit_test(inside_a_pass_only_the_pass_goes_on),
        cmocka_unit_test(verify_refuses_rows_that_do_not_fit),
        cmocka_unit_test(verify_refuses_positions_without_room),
        cmocka_unit_test(a_verify_waits_for_its_keep),
        cmocka_unit_test(keep_refuses_all_but_a_prefix_of_the_last_window),
        cmocka_unit_test(draws_growth_resets_and_digests_refuse_wrong_slots_and_places),
        cmocka_unit_test(a_keep_ends_the_last_draw),
        cmocka_unit_test(draws_come_with_their_log_probabilities_where_asked),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
