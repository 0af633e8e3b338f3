// The engine with a prompt cache, on the fake target: hits answer as a fresh server does.
#include "kit.h"

enum { GIB = 1 << 30, LONG = 2000, STREAMS = 40 };

static struct lf_engine_options cached(uint64_t bytes) {
    return (struct lf_engine_options){.decode_share = 0.25, .prompt_cache_bytes = bytes};
}

static struct lf_cache_stats cache_stats(struct kit *kit) {
    struct lf_engine_status status;
    lf_engine_status_read(kit->engine, &status);
    assert_true(status.cache.held_bytes <= status.cache.cap_bytes);
    return status.cache;
}

static uint32_t prompt_rows(const struct kit *kit) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < kit->n_log; i++)
        rows += kit->log[i].kind == LF_FAKE_PREFILL ? kit->log[i].rows : 0;
    return rows;
}

// One request alone; checks the reply against a serial engine's and gives its cached tokens.
static uint32_t serve(struct kit *kit, const struct lf_request *r, struct heard *h) {
    kit_submit(kit, 1, r, h);
    heard_wait(h);
    heard_expect(h, r->prompt, r->prompt_len, r->max_tokens);
    return h->cached;
}

static void open_one(struct kit *kit, uint64_t bytes) {
    *kit = (struct kit){0};
    kit_open(kit, (struct lf_fake_options){.context = LONG, .chunk_rows = 64}, cached(bytes),
             false);
}

// C-13, C-17
static void the_same_prompt_again_runs_no_prompt_rows(void **state) {
    struct kit kit;
    struct heard first, again;
    uint32_t prompt[500];
    (void)state;
    open_one(&kit, GIB);
    kit_prompt(prompt, 500, 1);
    struct lf_request r = kit_request(prompt, 500, 20);
    assert_int_equal(serve(&kit, &r, &first), 0);
    assert_int_equal(prompt_rows(&kit), 500);
    assert_int_equal(serve(&kit, &r, &again), 500);
    assert_int_equal(again.stats.cached_tokens, 500);
    assert_int_equal(prompt_rows(&kit), 500);
    assert_int_equal(cache_stats(&kit).hits, 1);
    assert_int_equal(cache_stats(&kit).restored_tokens, 500);
    // Another seed draws its own first token from the stored logits.
    r.sampling.seed = 43;
    heard_free(&again);
    kit_submit(&kit, 1, &r, &again);
    heard_wait(&again);
    assert_int_equal(again.cached, 500);
    assert_int_equal(again.ids.id[0], lf_fake_next(prompt, 500, 43, KIT_VOCAB));
    heard_free(&first);
    heard_free(&again);
    kit_close(&kit);
}

// C-4, C-8: the reply's last token is not in the state
static void the_next_turn_goes_on_after_the_reply(void **state) {
    struct kit kit;
    struct heard first, second;
    uint32_t prompt[700];
    (void)state;
    open_one(&kit, GIB);
    kit_prompt(prompt, 700, 2);
    struct lf_request r = kit_request(prompt, 500, 60);
    serve(&kit, &r, &first);
    memcpy(prompt + 500, first.ids.id, 60 * sizeof *prompt);
    r = kit_request(prompt, 700, 10);
    assert_int_equal(serve(&kit, &r, &second), 559);
    assert_int_equal(prompt_rows(&kit), 500 + 141);
    heard_free(&first);
    heard_free(&second);
    kit_close(&kit);
}

// C-8: history, rewind point and shared text serve prompts that part there
static void prompts_that_part_at_a_mark_resume_there(void **state) {
    static const uint32_t parts[] = {300, 600, 990};
    struct kit kit;
    struct heard h;
    uint32_t prompt[1000];
    (void)state;
    open_one(&kit, GIB);
    kit_prompt(prompt, 1000, 3);
    struct lf_request r = kit_request(prompt, 1000, 5);
    r.history_len = 990;
    r.rewind_len = 600;
    r.shared[0] = 300;
    r.n_shared = 1;
    assert_int_equal(serve(&kit, &r, &h), 0);
    heard_free(&h);
    for (uint32_t i = 0; i < 3; i++) {
        kit_prompt(prompt, 1000, 3);
        prompt[parts[i]] ^= 1;
        struct lf_request other = kit_request(prompt, 1000, 5);
        assert_int_equal(serve(&kit, &other, &h), parts[i]);
        heard_free(&h);
    }
    kit_close(&kit);
}

static void no_cache_neither_reads_nor_keeps(void **state) {
    struct kit kit;
    struct heard h;
    uint32_t prompt[400];
    (void)state;
    open_one(&kit, GIB);
    kit_prompt(prompt, 400, 4);
    struct lf_request r = kit_request(prompt, 400, 5);
    r.no_cache = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(serve(&kit, &r, &h), 0);
        heard_free(&h);
    }
    assert_int_equal(cache_stats(&kit).kept + cache_stats(&kit).misses, 0);
    r.no_cache = false;
    assert_int_equal(serve(&kit, &r, &h), 0);
    heard_free(&h);
    uint64_t kept = cache_stats(&kit).kept;
    r.no_cache = true;
    assert_int_equal(serve(&kit, &r, &h), 0);
    heard_free(&h);
    assert_int_equal(cache_stats(&kit).kept, kept);
    kit_close(&kit);
    open_one(&kit, 0);
    r.no_cache = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(serve(&kit, &r, &h), 0);
        heard_free(&h);
    }
    kit_close(&kit);
}

// L-31, C-8: a cancelled pass leaves the marks it passed, and the next request is as fresh
static void stop_at_third_chunk(struct kit *kit, const struct lf_fake_launch *l) {
    if (l->number == 6)
        lf_engine_cancel(kit->engine, 1);
}

static void a_cancelled_prompt_leaves_its_marks(void **state) {
    struct kit kit = {.each = stop_at_third_chunk};
    struct heard h;
    uint32_t prompt[1000];
    (void)state;
    kit_open(&kit, (struct lf_fake_options){.context = LONG, .chunk_rows = 64}, cached(GIB),
             false);
    kit_prompt(prompt, 1000, 5);
    struct lf_request r = kit_request(prompt, 1000, 5);
    r.rewind_len = 300;
    kit_submit(&kit, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.why, LF_DONE_CANCELLED);
    heard_free(&h);
    kit.each = NULL;
    assert_int_equal(serve(&kit, &r, &h), 300);
    heard_free(&h);
    kit_close(&kit);
}

// Many streams over few texts, drafts that are often wrong, background yields, a tight cap.
static void crowd(uint64_t bytes, bool expect_hits) {
    static uint32_t prompt[STREAMS][900];
    static struct heard h[STREAMS];
    struct lf_request r[STREAMS];
    struct kit kit = {0};
    struct lf_engine_options options = cached(bytes);
    options.drafts = LF_DRAFTS_AUTO;
    options.draft_depth = 5;
    kit_open(&kit,
             (struct lf_fake_options){.slots = 4, .context = LONG, .chunk_rows = 100,
                                      .drafter = {.present = true, .right = 0.7}},
             options, true);
    for (uint32_t i = 0; i < STREAMS; i++) {
        r[i] = kit_crowd(prompt[i], i);
        r[i].history_len = r[i].prompt_len - 3;
        kit_submit(&kit, i + 1, &r[i], &h[i]);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], prompt[i], r[i].prompt_len, r[i].max_tokens);
        heard_free(&h[i]);
        cache_stats(&kit);
    }
    if (expect_hits)
        assert_true(cache_stats(&kit).hits > 3);
    kit_close(&kit);
}

// cache hits == fresh
static void a_crowd_with_a_cache_answers_like_serial_fresh_requests(void **state) {
    (void)state;
    crowd(GIB, true);
    crowd(100000, false);
    crowd(20000, false);
    crowd(1, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_prompt_again_runs_no_prompt_rows),
        cmocka_unit_test(the_next_turn_goes_on_after_the_reply),
        cmocka_unit_test(prompts_that_part_at_a_mark_resume_there),
        cmocka_unit_test(no_cache_neither_reads_nor_keeps),
        cmocka_unit_test(a_cancelled_prompt_leaves_its_marks),
        cmocka_unit_test(a_crowd_with_a_cache_answers_like_serial_fresh_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
