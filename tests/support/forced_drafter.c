#include "forced_drafter.h"

#include <string.h>
#include "model/v41.h"

// Calls of a target carry no context of their own.
static struct lf_forced *forced;

static enum lf_status ingest(struct lf_target *t, const uint32_t *slot, uint32_t n,
                             struct lf_error *err) {
    return forced->real_drafter->ingest(t, slot, n, err);
}

static const struct lf_forced_reply *reply_of(const struct lf_sampling *rule) {
    for (uint32_t i = 0; i < forced->n_replies; i++) {
        const struct lf_forced_reply *r = &forced->reply[i];
        if (r->rule->temperature == rule->temperature && r->rule->seed == rule->seed)
            return r;
    }
    LF_ASSERT(!"a reply is known for every rule");
    return NULL;
}

static enum lf_status propose(struct lf_target *t, const struct lf_draft_ask *ask, uint32_t n,
                              struct lf_draft *out, struct lf_error *err) {
    const struct lf_v41 *m = (const struct lf_v41 *)t;
    (void)err;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = ask[i].slot;
        const struct lf_forced_reply *r = reply_of(ask[i].rule);
        uint32_t at = (uint32_t)(m->state[slot].length - forced->prompt_len);
        LF_ASSERT(slot < LF_FORCED_SLOTS);
        // A reply that went another way has no next tokens to be right about.
        out[i].n = at < r->n && r->id[at] == ask[i].pending ? LF_FORCED_DRAFTS : 0;
        for (uint32_t j = 0; j < out[i].n; j++) {
            uint32_t next = at + 1 + j < r->n ? r->id[at + 1 + j] : 0;
            out[i].tok[j] = j < forced->right ? next : (next + 1) % m->info.vocab;
            out[i].confidence[j] = 30;
        }
        forced->last[slot] = out[i];
        forced->at[slot] = at;
        forced->of[slot] = r;
    }
    return LF_OK;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void judge(const struct lf_window *w, uint32_t kept) {
    const struct lf_draft *d = &forced->last[w->slot];
    uint32_t drafts = w->rows - 1, at = forced->at[w->slot];
    bool of_pass = drafts && drafts <= d->n && w->pos0 == forced->prompt_len + at &&
                   !memcmp(w->tok + 1, d->tok, drafts * sizeof *d->tok);
    if (!of_pass) {
        forced->others++;
        return;
    }
    // The reply's end cuts what is kept (L-5).
    uint32_t left = forced->of[w->slot]->n - at - 1;
    uint32_t accepted = least(least(forced->right, drafts), left);
    forced->windows++;
    forced->accepted += accepted;
    forced->surprises += kept != least(accepted + 1, left);
}

static enum lf_status keep(struct lf_target *t, const struct lf_window *w, const uint32_t *kept,
                           uint32_t n, struct lf_error *err) {
    for (uint32_t i = 0; i < n; i++)
        judge(&w[i], kept[i]);
    return forced->real->keep(t, w, kept, n, err);
}

void lf_forced_install(struct lf_forced *f, struct lf_target *target) {
    f->real = target->ops;
    f->real_drafter = target->drafter;
    f->ops = *target->ops;
    f->ops.keep = keep;
    f->drafter = (struct lf_drafter_ops){.ingest = ingest, .propose = propose};
    target->ops = &f->ops;
    target->drafter = &f->drafter;
    forced = f;
}
