// Chunks and admission under a pretended machine's free memory (engine.md 13, M-9, M-10).
#include "kit.h"

#define MIB (INT64_C(1) << 20)
enum { CONTEXT = 40000, CHUNK = 2048, STEPS = 8, PROMPT = 9000 };
static uint32_t text[CONTEXT];

// What others leave of the machine to this engine.
struct machine {
    struct kit *kit;
    int64_t left;
    uint32_t asked;
};

static int64_t free_bytes(void *ctx, uint64_t wanted) {
    struct machine *m = ctx;
    (void)wanted;
    m->asked++;
    return m->left - (int64_t)lf_fake_held(m->kit->target);
}

static void open_kit(struct kit *k, struct machine *m, uint32_t slots, uint32_t chunk_rows) {
    m->kit = k;
    k->free_bytes = free_bytes;
    k->free_ctx = m;
    kit_open(k,
             (struct lf_fake_options){.slots = slots, .chunk_rows = chunk_rows, .context = CONTEXT,
                                      .position_bytes = MIB, .row_bytes = MIB,
                                      .chunk_seconds = 1},
             (struct lf_engine_options){0}, true);
}

// Before each chunk: what is free then, in MiB, and the rows that it may have.
static const struct {
    int64_t free;
    uint32_t rows;
} steps[STEPS] = {
    {0, 2048},     // nothing missing: no step
    {-1, 1024},    // a byte missing: the next step down is enough
    {511, 1024},   // a larger chunk takes 1024 and leaves 512
    {-800, 256},   // 1024 - 800 are there: no step fits, the least runs
    {-5000, 256},  // never below
    {767, 256},    // 256 more would leave less than 512
    {1280, 1024},  // 768 more and 512 to spare, not 1792
    {90000, 2048},
};

// At a chunk, what will be free at the next: beside the workspace of this one and the promise.
static void set_free(struct kit *k, const struct lf_fake_launch *l) {
    struct machine *m = k->ctx;
    if (l->kind == LF_FAKE_PREFILL && l->number < STEPS)
        m->left = (steps[l->number].free + l->rows + PROMPT + 3) * MIB;
}

static void do_chunks_step_with_what_is_free(void **state) {
    (void)state;
    struct machine m = {.left = 40000 * MIB};
    struct kit k = {.each = set_free, .ctx = &m};
    struct heard h;
    open_kit(&k, &m, 1, CHUNK);
    struct lf_request r = kit_request(text, PROMPT, 3);
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < k.n_log && chunks < STEPS; i++)
        if (k.log[i].kind == LF_FAKE_PREFILL)
            assert_int_equal(k.log[i].rows, steps[chunks++].rows);
    assert_int_equal(chunks, STEPS);
    heard_expect(&h, text, PROMPT, 3);
    heard_free(&h);
    kit_close(&k);
}

static void is_a_chunk_that_cannot_be_halved_left_alone(void **state) {
    (void)state;
    struct machine m = {.left = 40000 * MIB};
    struct kit k = {0};
    struct heard h;
    open_kit(&k, &m, 1, 300);
    struct lf_request r = kit_request(text, 1000, 3);
    m.left = 1310 * MIB; // 1003 positions and the workspace of 300 rows, not of more
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(k.log[0].rows, 300);
    heard_expect(&h, text, 1000, 3);
    heard_free(&h);
    kit_close(&k);
}

static void is_a_prompt_too_big_alone_refused_before_it_starts(void **state) {
    (void)state;
    struct machine m = {.left = 40000 * MIB};
    struct kit k = {0};
    struct heard h, small;
    open_kit(&k, &m, 2, CHUNK);
    struct lf_request r = kit_request(text, 4000, 3), s = kit_request(text, 100, 3);
    r.max_explicit = s.max_explicit = true;
    m.left = (256 + 4002) * MIB; // a position less than the prompt and its reply
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.why, LF_DONE_MEMORY);
    assert_int_equal(h.admitted, 0);
    assert_non_null(strstr(h.message, "the prompt's 4000 tokens"));
    assert_non_null(strstr(h.message, "are free"));
    heard_free(&h);
    // One that fits is served all the same.
    kit_submit(&k, 2, &s, &small);
    heard_wait(&small);
    heard_expect(&small, text, 100, 3);
    heard_free(&small);
    // One more position is enough.
    m.left += MIB;
    kit_submit(&k, 3, &r, &h);
    heard_wait(&h);
    heard_expect(&h, text, 4000, 3);
    heard_free(&h);
    kit_close(&k);
}

// Each fits alone; the second waits, because the first will still fill what it was promised.
static void does_admission_count_what_others_still_owe(void **state) {
    (void)state;
    struct machine m = {.left = 40000 * MIB};
    struct kit k = {.closed = true};
    struct heard h[2];
    open_kit(&k, &m, 2, 256);
    struct lf_request r = kit_request(text, 3000, 3);
    r.max_explicit = true;
    m.left = (256 + 5000) * MIB;
    for (uint32_t i = 0; i < 2; i++)
        kit_submit(&k, i + 1, &r, &h[i]);
    kit_gate_open(&k);
    for (uint32_t i = 0; i < 2; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], text, 3000, 3);
        heard_free(&h[i]);
    }
    for (uint32_t i = 0; i < k.n_log; i++)
        assert_int_equal(k.log[i].n, 1);
    kit_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(do_chunks_step_with_what_is_free),
        cmocka_unit_test(is_a_chunk_that_cannot_be_halved_left_alone),
        cmocka_unit_test(is_a_prompt_too_big_alone_refused_before_it_starts),
        cmocka_unit_test(does_admission_count_what_others_still_owe),
    };
    kit_prompt(text, CONTEXT, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
