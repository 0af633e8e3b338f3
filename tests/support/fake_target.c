#include "support/fake_target.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_slot {
    uint32_t *token; // what the row of each position was
    uint64_t length, grown;
    uint64_t prompt; // length when the first draw happened
    uint32_t pending_rows;
    bool complete, logits;
};

struct fake {
    struct lf_target target;
    struct lf_target_info info;
    struct lf_fake_options options;
    struct fake_slot *slot;
    atomic_uint launches;
};

static struct fake *fake_of(struct lf_target *t) {
    return (struct fake *)t;
}

uint32_t lf_fake_next(const uint32_t *history, uint64_t length, uint64_t seed, uint32_t vocab) {
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (uint64_t i = 0; i < length; i++)
        h = (h ^ (history[i] + 1)) * 0x100000001b3u;
    h ^= h >> 29;
    return (uint32_t)(h % vocab);
}

static const struct lf_target_info *info(struct lf_target *t) {
    return &fake_of(t)->info;
}

static enum lf_status launch(struct fake *f, struct lf_error *err) {
    unsigned number = atomic_fetch_add(&f->launches, 1) + 1;
    if (f->options.launch_us)
        usleep(f->options.launch_us);
    if (number == f->options.fail_launch)
        return lf_fail(err, LF_E_DEVICE, "the fake device failed in launch %u", number);
    return LF_OK;
}

static uint32_t draw(const struct fake *f, const struct fake_slot *s, uint64_t length,
                     const struct lf_sampling *rule) {
    uint64_t n = length - s->prompt;
    if (f->options.none_at && length == f->options.none_at)
        return LF_SAMPLE_NONE;
    if (f->options.script && n < f->options.n_script)
        return f->options.script[n];
    return lf_fake_next(s->token, length, rule->temperature > 0 ? rule->seed : 0, f->info.vocab);
}

static enum lf_status prefill(struct lf_target *t, const struct lf_chunk *c, uint32_t n,
                              struct lf_error *err) {
    struct fake *f = fake_of(t);
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = &f->slot[c[i].slot];
        LF_ASSERT(c[i].slot < f->info.slots && c[i].pos0 == s->length && !s->pending_rows);
        LF_ASSERT(c[i].rows && c[i].rows <= f->info.chunk_rows_max && c[i].n_plan);
        LF_ASSERT(c[i].pos0 + c[i].rows <= s->grown);
    }
    LF_TRY(launch(f, err));
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = &f->slot[c[i].slot];
        memcpy(s->token + s->length, c[i].tok, sizeof *c[i].tok * c[i].rows);
        s->length += c[i].rows;
        s->complete = s->logits = c[i].plan[c[i].n_plan - 1].at == s->length;
        s->prompt = s->length;
    }
    return LF_OK;
}

static enum lf_status verify(struct lf_target *t, const struct lf_window *w, uint32_t n,
                             uint32_t *drawn, struct lf_error *err) {
    struct fake *f = fake_of(t);
    uint32_t at = 0;
    LF_TRY(launch(f, err));
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = &f->slot[w[i].slot];
        LF_ASSERT(w[i].pos0 == s->length && !s->pending_rows && s->complete);
        LF_ASSERT(w[i].rows && w[i].pos0 + w[i].rows <= s->grown);
        for (uint32_t r = 0; r < w[i].rows; r++) {
            s->token[s->length + r] = w[i].tok[r];
            drawn[at++] = draw(f, s, s->length + r + 1, w[i].rule);
        }
        s->pending_rows = w[i].rows;
    }
    return LF_OK;
}

static enum lf_status keep(struct lf_target *t, const struct lf_window *w, const uint32_t *kept,
                           uint32_t n, struct lf_error *err) {
    struct fake *f = fake_of(t);
    (void)err;
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = &f->slot[w[i].slot];
        LF_ASSERT(kept[i] && kept[i] <= s->pending_rows);
        s->length += kept[i];
        s->pending_rows = 0;
    }
    return LF_OK;
}

static enum lf_status draw_last(struct lf_target *t, const struct lf_window *w, uint32_t *drawn,
                                struct lf_error *err) {
    struct fake *f = fake_of(t);
    struct fake_slot *s = &f->slot[w->slot];
    (void)err;
    LF_ASSERT(s->logits && w->pos0 == s->length);
    *drawn = draw(f, s, s->length, w->rule);
    return LF_OK;
}

static enum lf_status grow(struct lf_target *t, uint32_t slot, uint64_t positions,
                           struct lf_error *err) {
    struct fake *f = fake_of(t);
    (void)err;
    LF_ASSERT(slot < f->info.slots && positions <= f->info.context);
    if (positions > f->slot[slot].grown)
        f->slot[slot].grown = positions;
    return LF_OK;
}

static enum lf_status reset(struct lf_target *t, uint32_t slot, struct lf_error *err) {
    struct fake_slot *s = &fake_of(t)->slot[slot];
    (void)err;
    // Poison: a stale read of the earlier request changes every hash.
    memset(s->token, 0xFF, fake_of(t)->info.context * sizeof *s->token);
    s->length = s->prompt = s->pending_rows = 0;
    s->complete = true;
    s->logits = false;
    return LF_OK;
}

static enum lf_status digest(struct lf_target *t, uint32_t slot, uint8_t out[32],
                             struct lf_error *err) {
    struct fake_slot *s = &fake_of(t)->slot[slot];
    (void)err;
    memset(out, 0, 32);
    uint64_t h = lf_fake_next(s->token, s->length, 0, UINT32_MAX);
    memcpy(out, &h, sizeof h);
    return LF_OK;
}

static void close_fake(struct lf_target *t) {
    struct fake *f = fake_of(t);
    for (uint32_t i = 0; i < f->info.slots; i++)
        free(f->slot[i].token);
    free(f->slot);
    free(f);
}

struct lf_target *lf_fake_target_open(const struct lf_fake_options *options) {
    static const struct lf_target_ops ops = {
        .info = info, .prefill = prefill, .verify = verify, .keep = keep, .draw_last = draw_last,
        .grow = grow, .reset = reset, .digest = digest, .close = close_fake,
    };
    struct fake *f = calloc(1, sizeof *f);
    struct lf_error err = LF_ERROR_INIT;
    LF_ASSERT(f);
    f->target.ops = &ops;
    f->options = *options;
    f->info = (struct lf_target_info){.slots = options->slots, .vocab = options->vocab,
                                      .window_max = 16, .launch_rows_max = 64,
                                      .chunk_rows_max = options->chunk_rows,
                                      .context = options->context};
    f->slot = calloc(options->slots, sizeof *f->slot);
    LF_ASSERT(f->slot);
    for (uint32_t i = 0; i < options->slots; i++) {
        f->slot[i].token = calloc(options->context, sizeof *f->slot[i].token);
        LF_ASSERT(f->slot[i].token && reset(&f->target, i, &err) == LF_OK);
    }
    return &f->target;
}

uint32_t lf_fake_launches(const struct lf_target *target) {
    return atomic_load(&((const struct fake *)target)->launches);
}
