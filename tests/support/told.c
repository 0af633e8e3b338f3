#include "told.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "model/model.h"
#include "model/saved.h"

enum { CHUNK_ROWS = 128, FILE_BYTES = 8 << 20 };

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

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

static void prefill(struct lf_target *t, uint32_t slot, uint32_t rows) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound plan[2] = {{.at = rows / 3 * 2}, {.at = rows, .logits = true}};
    uint32_t ids[LF_TOLD_CONTEXT];
    for (uint32_t i = 0; i < rows; i++)
        ids[i] = 3 + (i * 7 + slot) % 2000;
    for (uint64_t at = 0, n; at < rows; at += n) {
        n = rows - at < CHUNK_ROWS ? rows - at : CHUNK_ROWS;
        struct lf_chunk chunk = {.slot = slot, .rows = (uint32_t)n, .pos0 = at, .tok = ids + at,
                                 .plan = plan, .n_plan = 2};
        must(t->ops->prefill(t, &chunk, 1, &err), &err);
    }
}

static void rounds(struct lf_target *t, uint32_t prompt, struct lf_told *told) {
    static const struct lf_sampling rule = {.temperature = 0.8, .top_p = 0.95, .seed = 7};
    static uint32_t mask[LF_TOLD_ROWS * LF_TOLD_VOCAB / 32];
    struct lf_error err = LF_ERROR_INIT;
    memset(mask, 0x5A, sizeof mask);
    struct lf_window w = {.slot = 0, .pos0 = prompt, .rule = &rule, .logprobs = told->logprobs[0]};
    must(t->ops->draw_last(t, &w, told->drawn[0], &err), &err);
    for (uint32_t i = 1; i < LF_TOLD_ROUNDS; i++) {
        uint32_t pending = told->drawn[i - 1][0] % t->ops->info(t)->vocab, kept = 1 + i % 2;
        struct lf_draft_ask ask = {.slot = 0, .pending = pending, .rule = &rule};
        must(t->drafter->propose(t, &ask, 1, &told->draft[i], &err), &err);
        uint32_t tok[LF_TOLD_ROWS] = {pending, told->draft[i].tok[0], told->draft[i].tok[1], 5};
        w.mask = i % 2 ? mask : NULL;
        w.rows = LF_TOLD_ROWS, w.tok = tok, w.logprobs = told->logprobs[i], w.top_logprobs = i;
        must(t->ops->verify(t, &w, 1, told->drawn[i], &err), &err);
        must(t->ops->keep(t, &w, &kept, 1, &err), &err);
        w.pos0 += kept;
    }
}

static void save_and_restore(struct lf_target *t, uint32_t prompt, struct lf_told *told) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved, *again;
    struct file *file = calloc(1, sizeof *file);
    uint32_t what = LF_SAVE_STATE | LF_SAVE_LOGITS;
    assert_non_null(file);
    prefill(t, 1, prompt);
    must(t->ops->save(t, 1, prompt, what, &saved, &err), &err);
    must(t->ops->write(t, saved, file_out, file, &err), &err);
    told->file_bytes = file->used;
    must(t->ops->reset(t, 1, &err), &err);
    must(t->ops->restore(t, 1, saved, &err), &err);
    must(t->ops->digest(t, 1, told->digest[1], &err), &err);
    must(t->ops->read(t, prompt, what, file_in, file, &again, &err), &err);
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

void lf_tell(struct lf_target *t, uint32_t prompt, struct lf_told *told) {
    struct lf_error err = LF_ERROR_INIT;
    assert_true(t->ops->info(t)->vocab <= LF_TOLD_VOCAB);
    for (uint32_t slot = 0; slot < 2; slot++)
        must(t->ops->grow(t, slot, LF_TOLD_CONTEXT, &err), &err);
    prefill(t, 0, prompt);
    memcpy(told->logits[0], lf_model_logits(t, 0, 0), sizeof(float) * t->ops->info(t)->vocab);
    rounds(t, prompt, told);
    must(t->ops->digest(t, 0, told->digest[0], &err), &err);
    save_and_restore(t, prompt, told);
    assert_memory_equal(told->digest[1], told->digest[2], 32);
    assert_true(told->draft[1].n > 0);
}

void lf_told_same(const struct lf_told *a, const struct lf_told *b) {
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_memory_equal(a->drawn, b->drawn, sizeof a->drawn);
    assert_memory_equal(a->draft, b->draft, sizeof a->draft);
    assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
    assert_memory_equal(a->digest, b->digest, sizeof a->digest);
    assert_memory_equal(&a->scored, &b->scored, sizeof a->scored);
    assert_int_equal(a->file_bytes, b->file_bytes);
}
