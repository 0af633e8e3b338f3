#include "lane/stream.h"

#include <string.h>

static const double replay_chance = 0.995;

static uint32_t mode_of(const struct lf_stream *s) {
    return s->request.sampling.temperature > 0;
}

static bool drafts(const struct lf_engine *e, const struct lf_stream *s) {
    bool steered = e->options.draft_depth || e->cost.measured;
    return e->options.drafts != LF_DRAFTS_OFF && !s->request.no_drafts && steered;
}

// Drafts that the window, the reply's limit and the context leave room for (L-3).
static uint32_t room_of(const struct lf_engine *e, const struct lf_stream *s) {
    uint64_t room = e->info->window_max, reply = s->limit - s->produced;
    uint64_t context = e->info->context - s->length;
    room = room < reply ? room : reply;
    room = room < context ? room : context;
    room = room ? room - 1 : 0;
    return room < LF_DRAFTS_MAX ? (uint32_t)room : LF_DRAFTS_MAX;
}

static void chain_replay(const struct lf_stream *s, uint32_t room, struct lf_chain *c) {
    uint64_t left = s->reply.len - s->produced;
    c->source = LF_SOURCE_REPLAY;
    c->n = left < room ? (uint32_t)left : room;
    for (uint32_t j = 0; j < c->n; j++) {
        c->tok[j] = s->reply.id[s->produced + j];
        c->raw[j] = replay_chance;
    }
}

// A longer match has been right more often.
static void chain_copy(struct lf_stream *s, uint32_t room, struct lf_chain *c) {
    uint32_t match, prompt = s->request.prompt_len;
    size_t have = s->copy.history.len;
    if (have < prompt)
        lf_copy_add(&s->copy, s->request.prompt, prompt);
    have = have < prompt ? 0 : have - prompt;
    lf_copy_add(&s->copy, s->reply.id + have, s->reply.len - have);
    c->source = LF_SOURCE_COPY;
    c->n = lf_copy_find(&s->copy, c->tok, room, &match);
    for (uint32_t j = 0; j < c->n; j++)
        c->raw[j] = match / (match + 2.0);
}

static void chain_draft(const struct lf_draft *d, uint32_t room, struct lf_chain *c) {
    *c = (struct lf_chain){.source = LF_SOURCE_DRAFTER};
    c->n = d->n < room ? d->n : room;
    for (uint32_t j = 0; j < c->n; j++) {
        c->tok[j] = d->tok[j];
        c->raw[j] = lf_policy_sigmoid((double)d->confidence[j]);
    }
}

static double total(const struct lf_chain *c) {
    double sum = 0;
    for (uint32_t j = 0; j < c->n; j++)
        sum += c->gain[j];
    return sum;
}

// How streams of this mode ended, of the same company or the nearest smaller one (D-12).
static const struct lf_loss *ended_before(const struct lf_engine *e, uint32_t mode,
                                          uint32_t company) {
    const struct lf_loss *ended = e->ended[mode];
    for (uint32_t c = company; c; c--)
        if (ended[c].interval)
            return &ended[c];
    return &ended[company];
}

// What a stream knows at its first round: the server's chances, how streams like it ended (D-12).
static void begin(struct lf_engine *e, struct lf_stream *s, uint32_t n) {
    uint32_t company = n < LF_COMPANY ? n : LF_COMPANY;
    if (!s->company) {
        s->calibration = e->calibration[mode_of(s)];
        s->loss = lf_loss_start(ended_before(e, mode_of(s), company));
    }
    s->company = company;
}

// Chains that cost nothing; returns how many streams the drafter is asked for.
static uint32_t gather(struct lf_engine *e, struct lf_round *r, struct lf_draft_ask *ask,
                       uint32_t *asked) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        struct lf_stream *s = r->stream[i];
        uint32_t room = room_of(e, s);
        r->chain[i] = (struct lf_chain){0};
        r->depth[i] = 0;
        r->passed[i] = false;
        if (!drafts(e, s))
            continue;
        begin(e, s, r->n);
        if (s->produced < s->reply.len) {
            chain_replay(s, room, &r->chain[i]);
        } else if (room && (e->options.draft_depth || lf_loss_allows(&s->loss))) {
            chain_copy(s, room, &r->chain[i]);
            if (e->target->drafter && !lf_path_due(s)) {
                r->passed[i] = true;
                asked[n] = i;
                ask[n++] = (struct lf_draft_ask){.slot = s->slot, .pending = s->pending,
                                                 .rule = &s->request.sampling};
            }
        }
        lf_calibration_apply(&s->calibration, &r->chain[i]);
    }
    return n;
}

static void fix_depths(const struct lf_engine *e, struct lf_round *r, uint32_t row_limit) {
    uint32_t left = row_limit - r->n;
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t depth = e->options.draft_depth;
        depth = depth < r->chain[i].n ? depth : r->chain[i].n;
        r->depth[i] = depth < left ? depth : left;
        left -= r->depth[i];
    }
}

static uint32_t bucket_of(const struct lf_round *r) {
    uint64_t longest = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->window[i].pos0 > longest)
            longest = r->window[i].pos0;
    return lf_cost_bucket(longest);
}

// Forced ids join the chains that were chosen; a stream that rests has one of these alone.
static void force(struct lf_engine *e, struct lf_round *r) {
    for (uint32_t i = 0; i < r->n; i++) {
        struct lf_stream *s = r->stream[i];
        if (!s->request.path || !drafts(e, s))
            continue;
        lf_path_chain(s, room_of(e, s), &r->chain[i]);
        lf_calibration_apply(&s->calibration, &r->chain[i]);
    }
}

static struct lf_choice_input choice_input(struct lf_engine *e, const struct lf_round *r,
                                           const struct lf_chain *chain, uint32_t row_limit) {
    return (struct lf_choice_input){.chain = chain, .streams = r->n, .row_limit = row_limit,
                                    .cost = lf_cost_rows(&e->cost, bucket_of(r)),
                                    .window = e->cost.window};
}

// Whether a round with a pass would be faster than one without, were the drafts good (D-10).
static bool pass_can_pay(struct lf_engine *e, const struct lf_round *r, const uint32_t *asked,
                         uint32_t row_limit) {
    struct lf_chain best[LF_ROUND_ROWS];
    uint32_t depth[LF_ROUND_ROWS];
    if (e->options.draft_depth || !e->cost.measured)
        return true;
    struct lf_choice_input in = choice_input(e, r, r->chain, row_limit);
    double without = lf_policy_choose(&in, depth);
    memcpy(best, r->chain, sizeof *best * r->n);
    for (uint32_t i = 0; i < r->asked; i++) {
        uint32_t room = room_of(e, r->stream[asked[i]]), most = e->info->pass_drafts;
        lf_chain_promise(&best[asked[i]], room < most ? room : most);
    }
    in.chain = best;
    in.pass = e->cost.pass[r->asked];
    return lf_policy_choose(&in, depth) > without;
}

// Kept rows are taken in here alone: a stream that does not draft pays nothing for it (D-12, D-13).
static enum lf_status run_pass(struct lf_engine *e, struct lf_round *r,
                               const struct lf_draft_ask *ask, struct lf_draft *draft,
                               struct lf_error *err) {
    uint32_t slot[LF_ROUND_ROWS];
    double start = lf_engine_now(e);
    for (uint32_t i = 0; i < r->asked; i++)
        slot[i] = ask[i].slot;
    LF_TRY(e->target->drafter->ingest(e->target, slot, r->asked, err));
    LF_TRY(e->target->drafter->propose(e->target, ask, r->asked, draft, err));
    r->pass_seconds = lf_engine_now(e) - start;
    return LF_OK;
}

enum lf_status lf_drafts_choose(struct lf_engine *e, struct lf_round *r, struct lf_error *err) {
    struct lf_draft_ask ask[LF_ROUND_ROWS];
    struct lf_draft draft[LF_ROUND_ROWS];
    uint32_t asked[LF_ROUND_ROWS];
    uint32_t limit = e->info->launch_rows_max < LF_ROUND_ROWS ? e->info->launch_rows_max
                                                              : LF_ROUND_ROWS;
    r->asked = gather(e, r, ask, asked);
    r->pass_seconds = 0;
    if (r->asked && !pass_can_pay(e, r, asked, limit)) {
        for (uint32_t i = 0; i < r->asked; i++)
            r->passed[asked[i]] = false;
        r->asked = 0;
    }
    if (r->asked)
        LF_TRY(run_pass(e, r, ask, draft, err));
    for (uint32_t i = 0; i < r->asked; i++) {
        struct lf_stream *s = r->stream[asked[i]];
        struct lf_chain chain;
        chain_draft(&draft[i], room_of(e, s), &chain);
        lf_calibration_apply(&s->calibration, &chain);
        if (total(&chain) >= total(&r->chain[asked[i]]))
            r->chain[asked[i]] = chain;
    }
    force(e, r);
    if (e->options.draft_depth) {
        fix_depths(e, r, limit);
    } else if (e->cost.measured) {
        struct lf_choice_input in = choice_input(e, r, r->chain, limit);
        in.pass = e->cost.pass[r->asked];
        lf_policy_choose(&in, r->depth);
    }
    return LF_OK;
}

static bool drafted(const struct lf_round *r, uint32_t i) {
    return r->depth[i] || r->passed[i];
}

void lf_drafts_learn(struct lf_engine *e, const struct lf_round *r, double launch_seconds,
                    double seconds) {
    uint32_t bucket = bucket_of(r);
    double plain = e->cost.measured ? lf_cost_plain(&e->cost, bucket, r->n) : 0;
    uint32_t drafting = 0;
    for (uint32_t i = 0; i < r->n; i++)
        drafting += drafted(r, i);
    // Who drafted shares what the round took beyond a plain one: a resting stream owes nothing.
    double extra = drafting ? (seconds - plain) / drafting : 0;
    for (uint32_t i = 0; i < r->n; i++) {
        struct lf_stream *s = r->stream[i];
        const struct lf_chain *c = &r->chain[i];
        if (!drafts(e, s) || (c->n && c->source == LF_SOURCE_REPLAY))
            continue;
        lf_calibration_learn(&s->calibration, c, r->depth[i], r->accepted[i]);
        lf_calibration_learn(&e->calibration[mode_of(s)], c, r->depth[i], r->accepted[i]);
        lf_loss_round(&s->loss, seconds / r->n, extra, r->kept[i], plain / r->n, drafted(r, i));
    }
    lf_cost_launch(&e->cost, bucket, r->rows, r->n, launch_seconds);
    lf_cost_pass(&e->cost, r->asked, r->pass_seconds);
}
