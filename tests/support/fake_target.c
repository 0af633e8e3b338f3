#include "support/fake_target.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "support/fake_state.h"

enum { SLOTS_MAX = 128 };

struct fake {
    struct lf_target target;
    struct lf_target_info info;
    struct lf_fake_options options;
    struct fake_slot *slot;
    atomic_uint launches;
    _Atomic uint64_t clock_ns;
    uint32_t moods;
    uint64_t saved_bytes;
    uint32_t work_rows; // that the workspace holds
};

struct lf_saved {
    struct fake_cell *cell;
    uint64_t at, prompt, bytes;
    uint32_t what;
};

static struct fake *fake_of(struct lf_target *t) {
    return (struct fake *)t;
}

uint32_t lf_fake_next(const uint32_t *history, uint64_t length, uint64_t seed, uint32_t vocab) {
    struct fake_slot none = {0};
    uint64_t h = fake_hash(&none, 0);
    for (uint64_t i = 0; i < length; i++)
        h = fake_step(h, history[i]);
    return fake_token(h, seed, vocab);
}

double lf_fake_clock(void *target) {
    return (double)atomic_load(&((struct fake *)target)->clock_ns) * 1e-9;
}

static const struct lf_target_info *info(struct lf_target *t) {
    return &fake_of(t)->info;
}

static struct fake_slot *slot_of(struct fake *f, uint32_t slot) {
    LF_ASSERT(slot < f->info.slots);
    return &f->slot[slot];
}

static enum lf_status alive(const struct fake *f, struct lf_error *err) {
    uint32_t dead = f->options.dead_from;
    if (dead && atomic_load(&f->launches) >= dead)
        return lf_fail(err, LF_E_DEVICE, "the fake device is gone");
    return LF_OK;
}

static void spend(struct fake *f, double seconds) {
    atomic_fetch_add(&f->clock_ns, (uint64_t)(seconds * 1e9 + 0.5));
}

// Counts a launch, checks that no slot is named twice, tells the test, lets time pass.
static enum lf_status launch(struct fake *f, struct lf_fake_launch *l, struct lf_error *err) {
    const struct lf_fake_options *o = &f->options;
    bool pass = l->kind == LF_FAKE_PASS;
    l->number = pass ? atomic_load(&f->launches) : atomic_fetch_add(&f->launches, 1) + 1;
    for (uint32_t i = 0; i < l->n; i++) {
        l->rows += l->slot_rows[i];
        for (uint32_t j = 0; j < i; j++)
            LF_ASSERT(l->slot[i] != l->slot[j]);
    }
    if (o->launched)
        o->launched(o->launched_ctx, l);
    if (o->launch_us)
        usleep(o->launch_us);
    if (pass)
        spend(f, o->pass_seconds);
    else if (l->kind == LF_FAKE_PREFILL)
        spend(f, o->chunk_seconds + o->row_seconds * l->rows);
    else if (o->launch_seconds)
        spend(f, o->launch_seconds[l->rows] + o->window_seconds * (l->n - 1));
    LF_TRY(alive(f, err));
    if (!pass && l->number == o->fail_launch)
        return lf_fail(err, LF_E_DEVICE, "the fake device failed in launch %u", l->number);
    return LF_OK;
}

// The token drawn after length rows whose hash is h.
static uint32_t token_after(const struct fake *f, const struct fake_slot *s, uint64_t h,
                            uint64_t length, const struct lf_sampling *rule) {
    uint64_t n = length - s->prompt;
    if (f->options.none_at && length == f->options.none_at)
        return LF_SAMPLE_NONE;
    if (f->options.script && n < f->options.n_script)
        return f->options.script[n];
    return fake_token(h, rule->temperature > 0 ? rule->seed : 0, f->info.vocab);
}

static uint32_t draw(struct fake *f, const struct fake_slot *s, uint64_t length,
                     const struct lf_window *w, struct lf_logprob_row *row) {
    uint32_t id = token_after(f, s, fake_hash(s, length), length, w->rule);
    if (f->options.moody_at && length == f->options.moody_at && f->moods++ % 2)
        id = (id + 1) % f->info.vocab;
    if (row) {
        *row = (struct lf_logprob_row){.drawn = -(float)length, .n = w->top_logprobs};
        for (uint32_t i = 0; i < row->n; i++) {
            row->id[i] = (id + i) % f->info.vocab;
            row->value[i] = -(float)i;
        }
    }
    return id;
}

static enum lf_status prefill(struct lf_target *t, const struct lf_chunk *c, uint32_t n,
                              struct lf_error *err) {
    struct fake *f = fake_of(t);
    uint32_t slot[SLOTS_MAX], rows[SLOTS_MAX];
    struct lf_fake_launch l = {.kind = LF_FAKE_PREFILL, .n = n, .slot = slot, .slot_rows = rows};
    LF_ASSERT(n && n <= SLOTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = slot_of(f, slot[i] = c[i].slot);
        rows[i] = c[i].rows;
        fake_check_rows(s, &f->info, c[i].pos0, c[i].tok, c[i].rows);
        fake_check_plan(s, &c[i]);
    }
    LF_TRY(launch(f, &l, err));
    LF_ASSERT(l.rows <= f->info.chunk_rows_max);
    f->work_rows = l.rows > f->work_rows ? l.rows : f->work_rows;
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = &f->slot[c[i].slot];
        for (uint32_t r = 0; r < c[i].rows; r++)
            fake_write(s, c[i].pos0 + r, c[i].tok[r]);
        s->length += c[i].rows;
        s->complete = s->logits = false;
        for (uint32_t b = 0; b < c[i].n_plan; b++)
            if (c[i].plan[b].at == s->length) {
                s->complete = true;
                s->logits = c[i].plan[b].logits;
            }
        s->in_pass = s->length < c[i].plan[c[i].n_plan - 1].at;
        s->prompt = s->length;
    }
    return LF_OK;
}

static enum lf_status verify(struct lf_target *t, const struct lf_window *w, uint32_t n,
                             uint32_t *drawn, struct lf_error *err) {
    struct fake *f = fake_of(t);
    uint32_t slot[SLOTS_MAX], rows[SLOTS_MAX], at = 0;
    struct lf_fake_launch l = {.kind = LF_FAKE_VERIFY, .n = n, .slot = slot, .slot_rows = rows};
    LF_ASSERT(n && n <= SLOTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = slot_of(f, slot[i] = w[i].slot);
        rows[i] = w[i].rows;
        at += w[i].rows;
        fake_check_rows(s, &f->info, w[i].pos0, w[i].tok, w[i].rows);
        LF_ASSERT(w[i].rows <= f->info.window_max && s->complete && !s->in_pass);
    }
    LF_ASSERT(at <= f->info.launch_rows_max);
    LF_TRY(launch(f, &l, err));
    at = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = &f->slot[w[i].slot];
        for (uint32_t r = 0; r < w[i].rows; r++, at++) {
            fake_write(s, w[i].pos0 + r, w[i].tok[r]);
            drawn[at] = draw(f, s, w[i].pos0 + r + 1, &w[i],
                             w[i].logprobs ? &w[i].logprobs[r] : NULL);
        }
        s->pending_rows = w[i].rows;
    }
    return LF_OK;
}

static enum lf_status keep(struct lf_target *t, const struct lf_window *w, const uint32_t *kept,
                           uint32_t n, struct lf_error *err) {
    struct fake *f = fake_of(t);
    LF_TRY(alive(f, err));
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = slot_of(f, w[i].slot);
        LF_ASSERT(s->pending_rows && w[i].rows == s->pending_rows && w[i].pos0 == s->length);
        LF_ASSERT(kept[i] && kept[i] <= s->pending_rows);
        fake_keep(s, s->length + kept[i]);
        s->logits = false;
    }
    return LF_OK;
}

static enum lf_status draw_last(struct lf_target *t, const struct lf_window *w, uint32_t *drawn,
                                struct lf_error *err) {
    struct fake *f = fake_of(t);
    struct fake_slot *s = slot_of(f, w->slot);
    LF_TRY(alive(f, err));
    LF_ASSERT(s->logits && w->pos0 == s->length && !w->rows && !s->pending_rows);
    *drawn = draw(f, s, s->length, w, w->logprobs);
    return LF_OK;
}

static enum lf_status grow(struct lf_target *t, uint32_t slot, uint64_t positions,
                           struct lf_error *err) {
    struct fake *f = fake_of(t);
    struct fake_slot *s = slot_of(f, slot);
    uint64_t used = positions;
    LF_TRY(alive(f, err));
    LF_ASSERT(positions <= f->info.context);
    for (uint32_t i = 0; i < f->info.slots; i++)
        used += i == slot ? 0 : f->slot[i].grown;
    if (f->options.storage && positions > s->grown && used > f->options.storage)
        return lf_fail(err, LF_E_MEM, "the fake storage has %llu positions, %llu wanted",
                       (unsigned long long)f->options.storage, (unsigned long long)used);
    if (positions > s->grown)
        s->grown = positions;
    return LF_OK;
}

static enum lf_status reset(struct lf_target *t, uint32_t slot, struct lf_error *err) {
    struct fake *f = fake_of(t);
    LF_TRY(alive(f, err));
    fake_clear(slot_of(f, slot), f->info.context);
    return LF_OK;
}

static uint64_t grow_bytes(struct lf_target *t, uint64_t positions) {
    return positions * fake_of(t)->options.position_bytes;
}

static uint64_t chunk_bytes(struct lf_target *t, uint32_t rows) {
    return rows * fake_of(t)->options.row_bytes;
}

static void chunk_trim(struct lf_target *t, uint32_t rows) {
    LF_ASSERT(rows && rows <= fake_of(t)->info.chunk_rows_max);
    fake_of(t)->work_rows = rows;
}

uint64_t lf_fake_held(const struct lf_target *target) {
    const struct fake *f = (const struct fake *)target;
    uint64_t positions = 0;
    for (uint32_t i = 0; i < f->info.slots; i++)
        positions += f->slot[i].length;
    return f->work_rows * f->options.row_bytes + positions * f->options.position_bytes;
}

static enum lf_status digest(struct lf_target *t, uint32_t slot, uint8_t out[32],
                             struct lf_error *err) {
    struct fake *f = fake_of(t);
    struct fake_slot *s = slot_of(f, slot);
    LF_TRY(alive(f, err));
    LF_ASSERT(s->complete);
    uint64_t h = fake_hash(s, s->length);
    memset(out, 0, 32);
    memcpy(out, &h, sizeof h);
    return LF_OK;
}

static uint64_t save_bytes(struct lf_target *t, uint64_t at, uint32_t what) {
    uint64_t head = what & LF_SAVE_LOGITS ? fake_of(t)->info.vocab * sizeof(float) : 0;
    uint64_t cells = what & LF_SAVE_STATE ? at * sizeof(struct fake_cell) : 0;
    // Nothing is shared: LF_SAVE_PAGES are none.
    return what == LF_SAVE_PAGES ? 0 : sizeof(struct lf_saved) + cells + head;
}

static uint64_t save_need(struct lf_target *t, uint32_t slot, uint64_t at, uint32_t what) {
    LF_ASSERT(at <= slot_of(fake_of(t), slot)->length);
    return save_bytes(t, at, what);
}

static uint64_t saved_total(struct lf_target *t) {
    return fake_of(t)->saved_bytes;
}

static enum lf_status save(struct lf_target *t, uint32_t slot, uint64_t at, uint32_t what,
                           struct lf_saved **out, struct lf_error *err) {
    struct fake *f = fake_of(t);
    const struct fake_slot *s = slot_of(f, slot);
    LF_TRY(alive(f, err));
    LF_ASSERT(at == s->length && s->complete && !s->pending_rows);
    LF_ASSERT(!(what & LF_SAVE_LOGITS) || s->logits);
    struct lf_saved *saved = calloc(1, sizeof *saved);
    struct fake_cell *cell = calloc(at + 1, sizeof *cell);
    if (!saved || !cell) {
        free(saved);
        free(cell);
        return lf_fail(err, LF_E_MEM, "out of memory for a saved state");
    }
    memcpy(cell, s->cell, at * sizeof *cell);
    *saved = (struct lf_saved){.cell = cell, .at = at, .prompt = s->prompt,
                               .bytes = save_bytes(t, at, what), .what = what};
    f->saved_bytes += saved->bytes;
    *out = saved;
    return LF_OK;
}

static enum lf_status restore(struct lf_target *t, uint32_t slot, const struct lf_saved *saved,
                              struct lf_error *err) {
    struct fake *f = fake_of(t);
    struct fake_slot *s = slot_of(f, slot);
    LF_TRY(alive(f, err));
    if (!(saved->what & LF_SAVE_STATE)) {
        LF_ASSERT(s->length == saved->at && s->complete);
        LF_ASSERT(fake_hash(s, s->length) == fake_hash(&(struct fake_slot){.cell = saved->cell},
                                                       saved->at));
        s->logits = true;
        return LF_OK;
    }
    LF_ASSERT(s->length == 0);
    if (saved->at > s->grown)
        return lf_fail(err, LF_E_MEM, "storage for %llu positions, %llu wanted",
                       (unsigned long long)s->grown, (unsigned long long)saved->at);
    memcpy(s->cell, saved->cell, saved->at * sizeof *s->cell);
    s->length = s->tapped = saved->at;
    s->prompt = saved->prompt;
    s->complete = true;
    s->logits = saved->what & LF_SAVE_LOGITS;
    return LF_OK;
}

static void drop(struct lf_target *t, struct lf_saved *saved) {
    if (!saved)
        return;
    fake_of(t)->saved_bytes -= saved->bytes;
    free(saved->cell);
    free(saved);
}

// The file form: the prompt's length, then the cells; of logits alone too, as restore checks them.
static uint64_t file_bytes(struct lf_target *t, uint64_t at, uint32_t what) {
    (void)t;
    (void)what;
    return sizeof(uint64_t) + at * sizeof(struct fake_cell);
}

static enum lf_status write_saved(struct lf_target *t, const struct lf_saved *saved,
                                  lf_bytes_out *out, void *ctx, struct lf_error *err) {
    (void)t;
    LF_TRY(out(ctx, &saved->prompt, sizeof saved->prompt, err));
    return out(ctx, saved->cell, saved->at * sizeof *saved->cell, err);
}

static enum lf_status read_saved(struct lf_target *t, uint64_t at, uint32_t what, lf_bytes_in *in,
                                 void *ctx, struct lf_saved **out, struct lf_error *err) {
    *out = NULL;
    if (!at || at > fake_of(t)->info.context)
        return lf_fail(err, LF_E_POS, "a saved state of %llu rows", (unsigned long long)at);
    struct lf_saved *saved = calloc(1, sizeof *saved);
    LF_ASSERT(saved);
    *saved = (struct lf_saved){.cell = calloc(at, sizeof *saved->cell), .at = at, .what = what,
                               .bytes = save_bytes(t, at, what)};
    LF_ASSERT(saved->cell);
    if (in(ctx, &saved->prompt, sizeof saved->prompt, err) == LF_OK &&
        in(ctx, saved->cell, at * sizeof *saved->cell, err) == LF_OK) {
        *out = saved;
        return LF_OK;
    }
    free(saved->cell);
    free(saved);
    return err->status;
}

static void adopt(struct lf_target *t, struct lf_saved *saved) {
    fake_of(t)->saved_bytes += saved->bytes;
}

static enum lf_status ingest(struct lf_target *t, const uint32_t *slot, uint32_t n,
                             struct lf_error *err) {
    struct fake *f = fake_of(t);
    LF_TRY(alive(f, err));
    for (uint32_t i = 0; i < n; i++) {
        struct fake_slot *s = slot_of(f, slot[i]);
        LF_ASSERT(!s->pending_rows);
        s->tapped = s->length;
    }
    return LF_OK;
}

// The true continuation, each draft spoiled by a chance that depends on its place alone.
static void propose_one(const struct fake *f, const struct lf_draft_ask *a, struct lf_draft *out) {
    const struct fake_slot *s = &f->slot[a->slot];
    const struct lf_fake_drafter *d = &f->options.drafter;
    uint64_t h = fake_step(fake_hash(s, s->length), a->pending);
    double claimed = d->claimed > 0 ? d->claimed : d->right;
    claimed = fmin(fmax(claimed, 1e-4), 1 - 1e-4);
    out->n = f->info.pass_drafts;
    for (uint32_t j = 0; j < out->n; j++) {
        uint64_t length = s->length + 1 + j;
        uint32_t id = token_after(f, s, h, length, a->rule);
        double chance = (double)fake_token(h, 77, 1u << 20) / (1u << 20);
        if (id == LF_SAMPLE_NONE || chance >= d->right)
            id = id == LF_SAMPLE_NONE ? 0 : (id + 1) % f->info.vocab;
        out->tok[j] = id;
        out->confidence[j] = (float)log(claimed / (1 - claimed));
        h = fake_step(h, id);
    }
}

static enum lf_status propose(struct lf_target *t, const struct lf_draft_ask *ask, uint32_t n,
                              struct lf_draft *out, struct lf_error *err) {
    struct fake *f = fake_of(t);
    uint32_t slot[SLOTS_MAX], rows[SLOTS_MAX] = {0};
    struct lf_fake_launch l = {.kind = LF_FAKE_PASS, .n = n, .slot = slot, .slot_rows = rows};
    LF_ASSERT(n && n <= SLOTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const struct fake_slot *s = slot_of(f, slot[i] = ask[i].slot);
        LF_ASSERT(!s->pending_rows && s->tapped == s->length && s->complete);
        LF_ASSERT(ask[i].pending < f->info.vocab);
    }
    LF_TRY(launch(f, &l, err));
    for (uint32_t i = 0; i < n; i++)
        propose_one(f, &ask[i], &out[i]);
    return LF_OK;
}

static void close_fake(struct lf_target *t) {
    struct fake *f = fake_of(t);
    for (uint32_t i = 0; i < f->info.slots; i++)
        free(f->slot[i].cell);
    free(f->slot);
    free(f);
}

struct lf_target *lf_fake_target_open(const struct lf_fake_options *options) {
    static const struct lf_target_ops ops = {
        .info = info, .prefill = prefill, .verify = verify, .keep = keep, .draw_last = draw_last,
        .grow = grow, .reset = reset, .grow_bytes = grow_bytes, .chunk_bytes = chunk_bytes,
        .chunk_trim = chunk_trim, .digest = digest, .save_bytes = save_bytes,
        .save_need = save_need, .saved_total = saved_total, .save = save,
        .restore = restore, .drop = drop, .file_bytes = file_bytes, .write = write_saved,
        .read = read_saved, .adopt = adopt, .close = close_fake,
    };
    static const struct lf_drafter_ops drafter = {.ingest = ingest, .propose = propose};
    struct fake *f = calloc(1, sizeof *f);
    LF_ASSERT(f && options->slots <= SLOTS_MAX);
    f->target = (struct lf_target){.ops = &ops, .fingerprint = "lf_fake"};
    f->target.drafter = options->drafter.present ? &drafter : NULL;
    f->options = *options;
    f->work_rows = options->chunk_rows;
    f->info = (struct lf_target_info){
        .slots = options->slots, .vocab = options->vocab,
        .window_max = options->window_max ? options->window_max : 16,
        .launch_rows_max = options->launch_rows ? options->launch_rows : 64,
        .chunk_rows_max = options->chunk_rows, .context = options->context,
        .pass_drafts = options->drafter.depth ? options->drafter.depth : 5};
    snprintf(f->info.name, sizeof f->info.name, "%s", options->name ? options->name : "");
    f->slot = calloc(options->slots, sizeof *f->slot);
    LF_ASSERT(f->slot);
    for (uint32_t i = 0; i < options->slots; i++) {
        f->slot[i].cell = calloc(options->context, sizeof *f->slot[i].cell);
        LF_ASSERT(f->slot[i].cell);
        fake_clear(&f->slot[i], options->context);
    }
    return &f->target;
}

uint32_t lf_fake_launches(const struct lf_target *target) {
    return atomic_load(&((const struct fake *)target)->launches);
}
