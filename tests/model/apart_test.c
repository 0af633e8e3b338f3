// The model with all numbers in memory that only kernels and device/memory.h may touch.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "golden.h"
#include "model/v41.h"

enum { CONTEXT = 600, PROMPT = 300, ROWS = 4, SPACE = 1 << 30, FILE_BYTES = 8 << 20 };

// Memory that faults outside of kernels and moves. What a kernel is not to see it finds spoilt.
static struct apart {
    struct lf_mem mem;
    char *base;
    size_t used;
    struct lf_kernels plain;
    struct lf_v41 *m;
    char *held; // the host's tables while a kernel runs
} apart;

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

static void open_space(int protection) {
    if (apart.used && mprotect(apart.base, apart.used, protection) != 0)
        abort();
}

static void *apart_alloc(struct lf_mem *mem, size_t bytes) {
    (void)mem;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page) / page * page;
    if (whole > SPACE - apart.used)
        return NULL;
    apart.used += whole;
    return apart.base + apart.used - whole;
}

static void apart_free(struct lf_mem *mem, void *at) {
    (void)mem;
    (void)at;
}

static void apart_move(struct lf_mem *mem, void *to, const void *from, size_t bytes) {
    (void)mem;
    open_space(PROT_READ | PROT_WRITE);
    memcpy(to, from, bytes);
    open_space(PROT_NONE);
}

static enum lf_status apart_wait(struct lf_mem *mem, struct lf_error *err) {
    (void)mem;
    return err->status;
}

static const struct lf_mem_ops ops = {.alloc = apart_alloc, .free = apart_free,
                                      .upload = apart_move, .download = apart_move,
                                      .copy = apart_move, .wait = apart_wait};

static void hide(struct lf_tables *tables, char *held, bool hidden) {
    if (hidden) {
        memcpy(held, tables->host, tables->bytes);
        memset(tables->host, 0xA5, tables->bytes);
    } else
        memcpy(tables->host, held, tables->bytes);
}

static void enter(void) {
    hide(&apart.m->work.tables, apart.held, true);
    hide(&apart.m->lanes, apart.held + apart.m->work.tables.bytes, true);
    open_space(PROT_READ | PROT_WRITE);
}

static void leave(void) {
    open_space(PROT_NONE);
    hide(&apart.m->work.tables, apart.held, false);
    hide(&apart.m->lanes, apart.held + apart.m->work.tables.bytes, false);
}

#define LF_KERNEL(name)                                                                            \
    static void apart_##name(struct lf_device *device, const struct lf_##name##_args *args) {      \
        enter();                                                                                   \
        apart.plain.name(device, args);                                                            \
        leave();                                                                                   \
    }
#include "kernel/registry.def"
#undef LF_KERNEL

static struct lf_demo demo;
static struct lf_target *target[2]; // the host's memory, and apart

static int open_all(void **state) {
    struct lf_model_options options = {.slots = 2, .context = CONTEXT, .chunk_rows = 128,
                                       .threads = 2};
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    lf_demo_open(&demo);
    target[0] = lf_demo_target(&demo, &options);
    apart.base = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(apart.base != MAP_FAILED);
    apart.mem.ops = &ops;
    options.memory = &apart.mem;
    target[1] = lf_demo_target(&demo, &options);
    apart.m = (struct lf_v41 *)target[1];
    apart.held = malloc(apart.m->work.tables.bytes + apart.m->lanes.bytes);
    assert_non_null(apart.held);
    apart.plain = apart.m->k;
#define LF_KERNEL(name) apart.m->k.name = apart_##name;
#include "kernel/registry.def"
#undef LF_KERNEL
    for (int i = 0; i < 2; i++)
        for (uint32_t slot = 0; slot < 2; slot++)
            must(target[i]->ops->grow(target[i], slot, CONTEXT, &err), &err);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target[0]->ops->close(target[0]);
    target[1]->ops->close(target[1]);
    munmap(apart.base, SPACE);
    free(apart.held);
    lf_demo_close(&demo);
    return 0;
}

enum { VOCAB_MAX = 4096 };

// All that a caller gets of a model.
struct told {
    uint32_t drawn[8][ROWS];
    struct lf_logprob_row logprobs[8][ROWS], scored;
    struct lf_draft draft[8];
    uint8_t digest[3][32];
    float logits[2][VOCAB_MAX];
    uint64_t file_bytes;
};

struct file {
    uint8_t bytes[FILE_BYTES];
    uint64_t used, read;
};

static enum lf_status file_out(void *ctx, const void *bytes, uint64_t len, struct lf_error *err) {
    struct file *file = ctx;
    (void)err;
    assert_true(len <= FILE_BYTES - file->used);
    memcpy(file->bytes + file->used, bytes, len);
    file->used += len;
    return LF_OK;
}

static enum lf_status file_in(void *ctx, void *bytes, uint64_t len, struct lf_error *err) {
    struct file *file = ctx;
    (void)err;
    assert_true(len <= file->used - file->read);
    memcpy(bytes, file->bytes + file->read, len);
    file->read += len;
    return LF_OK;
}

static void prefill(struct lf_target *t, uint32_t slot) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound plan[2] = {{.at = 200}, {.at = PROMPT, .logits = true}};
    uint32_t ids[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        ids[i] = 3 + (i * 7 + slot) % 2000;
    for (uint64_t at = 0, n; at < PROMPT; at += n) {
        n = PROMPT - at < 128 ? PROMPT - at : 128;
        struct lf_chunk chunk = {.slot = slot, .rows = (uint32_t)n, .pos0 = at, .tok = ids + at,
                                 .plan = plan, .n_plan = 2};
        must(t->ops->prefill(t, &chunk, 1, &err), &err);
    }
}

static void rounds(struct lf_target *t, struct told *told) {
    static const struct lf_sampling rule = {.temperature = 0.8, .top_p = 0.95, .seed = 7};
    static uint32_t mask[ROWS * VOCAB_MAX / 32];
    struct lf_error err = LF_ERROR_INIT;
    memset(mask, 0x5A, sizeof mask);
    struct lf_window w = {.slot = 0, .pos0 = PROMPT, .rule = &rule, .logprobs = told->logprobs[0]};
    must(t->ops->draw_last(t, &w, told->drawn[0], &err), &err);
    for (uint32_t i = 1; i < 8; i++) {
        uint32_t pending = told->drawn[i - 1][0] % t->ops->info(t)->vocab, kept = 1 + i % 2;
        struct lf_draft_ask ask = {.slot = 0, .pending = pending, .rule = &rule};
        must(t->drafter->propose(t, &ask, 1, &told->draft[i], &err), &err);
        uint32_t tok[ROWS] = {pending, told->draft[i].tok[0], told->draft[i].tok[1], 5};
        w.mask = i % 2 ? mask : NULL;
        w.rows = ROWS, w.tok = tok, w.logprobs = told->logprobs[i], w.top_logprobs = i;
        must(t->ops->verify(t, &w, 1, told->drawn[i], &err), &err);
        must(t->ops->keep(t, &w, &kept, 1, &err), &err);
        w.pos0 += kept;
    }
}

static void save_and_restore(struct lf_target *t, struct told *told) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved, *again;
    struct file *file = calloc(1, sizeof *file);
    uint32_t what = LF_SAVE_STATE | LF_SAVE_LOGITS;
    assert_non_null(file);
    prefill(t, 1);
    must(t->ops->save(t, 1, PROMPT, what, &saved, &err), &err);
    must(t->ops->write(t, saved, file_out, file, &err), &err);
    told->file_bytes = file->used;
    must(t->ops->reset(t, 1, &err), &err);
    must(t->ops->restore(t, 1, saved, &err), &err);
    must(t->ops->digest(t, 1, told->digest[1], &err), &err);
    must(t->ops->read(t, PROMPT, what, file_in, file, &again, &err), &err);
    t->ops->adopt(t, again);
    must(t->ops->restore(t, 1, again, &err), &err);
    must(t->ops->digest(t, 1, told->digest[2], &err), &err);
    memcpy(told->logits[1], lf_model_logits(t, 1, 0), sizeof(float) * t->ops->info(t)->vocab);
    uint32_t id = 17;
    must(lf_model_logprobs(t, told->logits[1], 1, &id, &told->scored, &err), &err);
    t->ops->drop(t, saved);
    t->ops->drop(t, again);
    free(file);
}

static void run(struct lf_target *t, struct told *told) {
    struct lf_error err = LF_ERROR_INIT;
    prefill(t, 0);
    memcpy(told->logits[0], lf_model_logits(t, 0, 0), sizeof(float) * t->ops->info(t)->vocab);
    rounds(t, told);
    must(t->ops->digest(t, 0, told->digest[0], &err), &err);
    save_and_restore(t, told);
}

static void a_model_in_memory_apart_tells_the_same(void **state) {
    static struct told here, there;
    (void)state;
    assert_true(target[0]->ops->info(target[0])->vocab <= VOCAB_MAX);
    run(target[0], &here);
    run(target[1], &there);
    assert_memory_equal(here.logits, there.logits, sizeof here.logits);
    assert_memory_equal(here.drawn, there.drawn, sizeof here.drawn);
    assert_memory_equal(here.draft, there.draft, sizeof here.draft);
    assert_memory_equal(here.logprobs, there.logprobs, sizeof here.logprobs);
    assert_memory_equal(here.digest, there.digest, sizeof here.digest);
    assert_memory_equal(&here.scored, &there.scored, sizeof here.scored);
    assert_int_equal(here.file_bytes, there.file_bytes);
    assert_memory_equal(there.digest[1], there.digest[2], 32);
    assert_true(there.draft[1].n > 0);
}

// Without this the test above would show nothing.
static void the_host_faults_where_it_touches_a_number(void **state) {
    int status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        _exit(apart.m->state[0].last[0] == 0.0f);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_in_memory_apart_tells_the_same),
        cmocka_unit_test(the_host_faults_where_it_touches_a_number),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
