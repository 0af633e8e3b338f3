// The engine with a cache on disk, and prompts that wait for each other's marks (C-11, C-16, C-18).
#include "kit.h"
#include "gate.h"
#include "support/folder.h"

enum { CACHE = 1 << 30, CONTEXT = 4000, STREAMS = 30 };

static struct folder folder;

static int make_folder(void **state) {
    (void)state;
    folder = folder_empty();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    folder_free(&folder);
    return 0;
}

static struct lf_engine_options options(uint64_t cache_bytes, uint64_t disk_bytes) {
    return (struct lf_engine_options){.decode_share = 0.25, .prompt_cache_bytes = cache_bytes,
                                      .spill_dir = disk_bytes ? folder.path : NULL,
                                      .spill_bytes = disk_bytes, .spill_floor_bytes = 1};
}

static struct lf_fake_options fake(uint32_t slots) {
    return (struct lf_fake_options){.slots = slots, .context = CONTEXT, .chunk_rows = 64,
                                    .chunk_seconds = 0.001, .row_seconds = 0.001};
}

static struct lf_cache_stats stats(struct kit *kit) {
    struct lf_engine_status status;
    lf_engine_status_read(kit->engine, &status);
    return status.cache;
}

static uint32_t prompt_rows(const struct kit *kit) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < kit->n_log; i++)
        rows += kit->log[i].kind == LF_FAKE_PREFILL ? kit->log[i].rows : 0;
    return rows;
}

// A reply that must be a serial engine's; the rows its prompt resumed.
static uint32_t answer(struct kit *kit, const uint32_t *prompt, uint32_t rows, uint32_t reply) {
    struct heard h;
    struct lf_request r = kit_request(prompt, rows, reply);
    kit_submit(kit, 1, &r, &h);
    heard_wait(&h);
    heard_expect(&h, prompt, rows, reply);
    uint32_t cached = h.cached;
    heard_free(&h);
    return cached;
}

// C-18, C-20: out of memory, out of the process; every reply is that of a cold server
static void prompts_come_back_from_the_disk_with_equal_replies(void **state) {
    static uint32_t prompt[6][1500];
    struct kit kit = {0};
    (void)state;
    kit_open(&kit, fake(1), options(150000, 1 << 30), true);
    for (uint32_t i = 0; i < 6; i++) {
        kit_prompt(prompt[i], 1500, i);
        assert_int_equal(answer(&kit, prompt[i], 1200, 20), 0);
    }
    assert_true(stats(&kit).evicted > 0);
    kit_close(&kit);
    for (int again = 0; again < 2; again++) {
        kit_open(&kit, fake(1), options(150000, 1 << 30), true);
        assert_true(stats(&kit).disk_files >= 4);
        uint32_t whole = 0;
        for (uint32_t i = 0; i < 6; i++)
            whole += answer(&kit, prompt[i], 1200, 20) == 1200;
        assert_true(whole >= 2); // what was in memory at the end, and what was written before
        assert_true(answer(&kit, prompt[5], 1500, 5) >= 1200);
        assert_true(stats(&kit).returned >= 2);
        assert_int_equal(stats(&kit).damaged, 0);
        kit_close(&kit);
    }
}

// Streams over few texts with a small cache and a small disk, in any order.
static void crowd(uint64_t cache_bytes, uint64_t disk_bytes) {
    static uint32_t prompt[STREAMS][900];
    static struct heard h[STREAMS];
    struct lf_request r[STREAMS];
    struct kit kit = {0};
    struct lf_engine_options o = options(cache_bytes, disk_bytes);
    o.spill_rows = 100;
    o.keep_shared = true;
    kit_open(&kit, fake(4), o, true);
    for (uint32_t i = 0; i < STREAMS; i++) {
        r[i] = kit_crowd(prompt[i], i);
        r[i].shared[0] = 280;
        r[i].n_shared = 1;
        kit_submit(&kit, i + 1, &r[i], &h[i]);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], prompt[i], r[i].prompt_len, r[i].max_tokens);
        heard_free(&h[i]);
        struct lf_cache_stats s = stats(&kit);
        assert_in_range(s.held_bytes, 0, s.cap_bytes);
        assert_in_range(s.disk_held_bytes, 0, s.disk_cap_bytes);
    }
    assert_int_equal(stats(&kit).damaged, 0);
    kit_close(&kit);
}

// cache hits == fresh, whatever went through the disk
static void a_crowd_with_a_disk_answers_like_serial_fresh_requests(void **state) {
    (void)state;
    for (int again = 0; again < 3; again++) {
        crowd(60000, 1 << 20);
        crowd(30000, 40000);
        crowd(CACHE, 1 << 20);
    }
}

// A reads first; B shares its first rows and is asked for at the same time.
struct pair {
    uint32_t a[3000], b[2000];
    struct heard heard_a, heard_b;
};

static struct pair pair;

static void submit_pair(struct kit *kit, uint32_t shared, uint32_t b_rows) {
    kit_prompt(pair.a, 3000, 1);
    kit_prompt(pair.b, b_rows, 2);
    memcpy(pair.b, pair.a, shared * sizeof *pair.a);
    struct lf_request a = kit_request(pair.a, 3000, 5), b = kit_request(pair.b, b_rows, 5);
    a.rewind_len = 700;
    a.shared[0] = 1500;
    a.n_shared = 1;
    kit_submit(kit, 1, &a, &pair.heard_a);
    kit_submit(kit, 2, &b, &pair.heard_b);
}

static void end_pair(struct kit *kit, uint32_t b_rows) {
    heard_wait(&pair.heard_a);
    heard_wait(&pair.heard_b);
    heard_expect(&pair.heard_b, pair.b, b_rows, 5);
    heard_free(&pair.heard_a);
    heard_free(&pair.heard_b);
    kit_close(kit);
}

// C-16
static void a_prompt_waits_for_the_mark_of_a_pass_that_runs_its_rows(void **state) {
    struct kit kit = {0};
    (void)state;
    kit_open(&kit, fake(4), options(CACHE, 0), true);
    submit_pair(&kit, 1500, 1900);
    heard_wait(&pair.heard_a);
    heard_wait(&pair.heard_b);
    assert_int_equal(pair.heard_b.cached, 1500);
    assert_int_equal(prompt_rows(&kit), 3000 + 400);
    heard_expect(&pair.heard_a, pair.a, 3000, 5);
    end_pair(&kit, 1900);
}

// C-16: it goes on by itself from the best mark
static void cancel_a(struct kit *kit, const struct lf_fake_launch *l) {
    if (l->number == 16)
        lf_engine_cancel(kit->engine, 1);
}

static void a_prompt_goes_on_from_the_best_mark_when_the_other_is_cancelled(void **state) {
    struct kit kit = {.each = cancel_a};
    (void)state;
    kit_open(&kit, fake(4), options(CACHE, 0), true);
    submit_pair(&kit, 1500, 1900);
    heard_wait(&pair.heard_a);
    heard_wait(&pair.heard_b);
    assert_int_equal(pair.heard_a.why, LF_DONE_CANCELLED);
    assert_int_equal(pair.heard_b.cached, 700);
    end_pair(&kit, 1900);
}

// C-16: marks past the common rows, or too close to be worth a wait, are none to wait for
static void a_prompt_does_not_wait_for_what_it_cannot_use(void **state) {
    static const uint32_t shared[] = {650, 200};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kit kit = {0};
        kit_open(&kit, fake(4), options(CACHE, 0), true);
        submit_pair(&kit, shared[i], 900);
        heard_wait(&pair.heard_b);
        assert_int_equal(pair.heard_b.cached, 0);
        end_pair(&kit, 900);
    }
}

// L-37: who was passed eight times waits for nothing but a slot
static void a_prompt_that_was_passed_often_waits_no_longer(void **state) {
    static struct heard h[20];
    static uint32_t small[20][40];
    struct kit kit = {.closed = true};
    (void)state;
    kit_open(&kit, fake(4), options(CACHE, 0), true);
    submit_pair(&kit, 1500, 1900);
    for (uint32_t i = 0; i < 20; i++) {
        kit_prompt(small[i], 40, 10 + i);
        struct lf_request r = kit_request(small[i], 40, 1);
        kit_submit(&kit, 10 + i, &r, &h[i]);
    }
    kit_gate_open(&kit);
    heard_wait(&pair.heard_b);
    assert_true(pair.heard_b.cached < 1500);
    for (uint32_t i = 0; i < 20; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], small[i], 40, 1);
        heard_free(&h[i]);
    }
    end_pair(&kit, 1900);
}

// A machine whose memory is the prompt cache's: what an entry gives back is free.
static struct kit *machine_kit;
static int64_t machine_bytes;
static int64_t machine_free(void *ctx, uint64_t wanted) {
    (void)ctx;
    (void)wanted;
    return machine_bytes - (int64_t)machine_kit->target->ops->saved_total(machine_kit->target);
}

// C-11
static void a_prompt_that_fits_nowhere_evicts_nothing(void **state) {
    struct kit kit = {.free_bytes = machine_free};
    struct heard h;
    uint32_t prompt[3000];
    struct lf_fake_options f = fake(2);
    (void)state;
    machine_kit = &kit;
    machine_bytes = 1ll << 40;
    f.position_bytes = 100;
    kit_open(&kit, f, options(CACHE, 0), true);
    kit_prompt(prompt, 3000, 1);
    assert_int_equal(answer(&kit, prompt, 1500, 1), 0);
    uint64_t entries = stats(&kit).entries;
    machine_bytes = (int64_t)stats(&kit).held_bytes + 1000;
    kit_prompt(prompt, 3000, 2);
    struct lf_request r = kit_request(prompt, 3000, 1);
    r.max_explicit = true;
    kit_submit(&kit, 2, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.why, LF_DONE_MEMORY);
    assert_int_equal(stats(&kit).evicted, 0);
    assert_int_equal(stats(&kit).entries, entries);
    heard_free(&h);
    // One that an empty store would admit takes what it needs.
    r.prompt_len = 300;
    kit_submit(&kit, 3, &r, &h);
    heard_wait(&h);
    heard_expect(&h, prompt, 300, 1);
    assert_true(stats(&kit).evicted > 0);
    heard_free(&h);
    kit_close(&kit);
}

static struct gate gate;

static enum lf_status write_behind_gate(struct lf_target *t, const struct lf_saved *saved,
                                        lf_bytes_out *out, void *ctx, struct lf_error *err) {
    gate_wait(&gate);
    return gate.passed.write(t, saved, out, ctx, err);
}

// On the engine thread, before the disk thread has anything to write.
static void hang_writes(struct kit *kit, const struct lf_fake_launch *l) {
    if (l->number == 1) {
        gate_shut(&gate, kit->target);
        gate.ops.write = write_behind_gate;
    }
}

// F-4: nothing is freed meanwhile; once the disk answers, a close ends and the file is there
static void does_close_give_up_on_a_disk_that_hangs(void **state) {
    static uint32_t prompt[1500];
    struct lf_engine_options o = options(CACHE, 1 << 30);
    struct kit kit = {.each = hang_writes};
    (void)state;
    o.device_wait_s = 0.1;
    kit_open(&kit, fake(1), o, true);
    kit_prompt(prompt, 1500, 1);
    assert_int_equal(answer(&kit, prompt, 1500, 2), 0);
    assert_false(lf_engine_close(kit.engine, 0));
    assert_false(lf_engine_close(kit.engine, 0));
    gate_open(&gate);
    bool closed = false;
    for (int tries = 0; !closed && tries < 600; tries++)
        closed = lf_engine_close(kit.engine, 0);
    assert_true(closed);
    free(kit.log);
    kit_open(&kit, fake(1), options(CACHE, 1 << 30), true);
    assert_int_equal(stats(&kit).disk_files, 1);
    kit_close(&kit);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(prompts_come_back_from_the_disk_with_equal_replies),
        TEST(a_crowd_with_a_disk_answers_like_serial_fresh_requests),
        TEST(a_prompt_waits_for_the_mark_of_a_pass_that_runs_its_rows),
        TEST(a_prompt_goes_on_from_the_best_mark_when_the_other_is_cancelled),
        TEST(a_prompt_does_not_wait_for_what_it_cannot_use),
        TEST(a_prompt_that_was_passed_often_waits_no_longer),
        TEST(a_prompt_that_fits_nowhere_evicts_nothing),
        TEST(does_close_give_up_on_a_disk_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
