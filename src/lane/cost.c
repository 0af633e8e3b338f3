#include "lane/cost.h"

#include <math.h>
#include <string.h>

enum { RUNS = 7, FIRST_BUCKET_ROWS = 2048, LENGTH_MAX = 512, SAMPLE_ROWS = 8 };
// Requests wait meanwhile, so all sizes share a bound, and slow ones are repeated less.
static const double measure_seconds_max = 1.5, size_seconds_max = 0.06;
// A sample this far from what was kept between starts says that the machine has changed.
static const double sample_tolerance = 0.15;
// A measured time moves its own entry by this part of the difference, the others by less.
static const double own_step = 1.0 / 8, other_step = 1.0 / 32;

void lf_cost_fill(double *table, const uint32_t *size, const double *seconds, uint32_t n) {
    uint32_t at = 0;
    table[0] = 0;
    for (uint32_t r = 1; r <= LF_COST_ROWS; r++) {
        while (at + 1 < n && size[at + 1] <= r)
            at++;
        double value = seconds[at];
        if (r > size[at] && at + 1 < n)
            value += (seconds[at + 1] - value) * (r - size[at]) / (size[at + 1] - size[at]);
        else if (r > size[at])
            value *= (double)r / size[at];
        table[r] = fmax(value, table[r - 1]);
    }
}

uint32_t lf_cost_bucket(uint64_t length) {
    uint32_t bucket = 0;
    while (bucket + 1 < LF_COST_BUCKETS && length >= (uint64_t)FIRST_BUCKET_ROWS << bucket)
        bucket++;
    return bucket;
}

const double *lf_cost_rows(struct lf_cost *c, uint32_t bucket) {
    uint32_t from = bucket;
    while (from && !c->used[from])
        from--;
    if (from != bucket)
        memcpy(c->rows[bucket], c->rows[from], sizeof c->rows[bucket]);
    c->used[bucket] = true;
    return c->rows[bucket];
}

static void correct(double *table, uint32_t at, double seconds) {
    double ratio = table[at] > 0 ? seconds / table[at] : 1;
    ratio = fmin(fmax(ratio, 0.25), 4);
    for (uint32_t r = 1; r <= LF_COST_ROWS; r++)
        table[r] *= 1 + (ratio - 1) * (r == at ? own_step : other_step);
    for (uint32_t r = at + 1; r <= LF_COST_ROWS; r++)
        table[r] = fmax(table[r], table[r - 1]);
    for (uint32_t r = at; r > 1; r--)
        table[r - 1] = fmin(table[r - 1], table[r]);
}

void lf_cost_launch(struct lf_cost *c, uint32_t bucket, uint32_t rows, uint32_t n,
                    double seconds) {
    if (!c->measured || rows == 0 || rows > LF_COST_ROWS || n == 0)
        return;
    lf_cost_rows(c, bucket);
    correct(c->rows[bucket], rows, fmax(seconds - (n - 1) * c->window, 0));
}

void lf_cost_pass(struct lf_cost *c, uint32_t streams, double seconds) {
    if (c->measured && streams && streams <= LF_COST_ROWS)
        correct(c->pass, streams, seconds);
}

double lf_cost_plain(struct lf_cost *c, uint32_t bucket, uint32_t streams) {
    return streams ? lf_cost_rows(c, bucket)[streams] + (streams - 1) * c->window : 0;
}

struct probe {
    struct lf_target *target;
    const struct lf_target_info *info;
    lf_clock_fn *clock;
    void *ctx;
    uint64_t length; // of every slot in use
    double until;
};

// Slots 0 .. n-1 start over with one row each when the next windows would not fit.
static enum lf_status make_room(struct probe *p, uint32_t n, bool start, struct lf_error *err) {
    static const uint32_t first = 0;
    static const struct lf_bound end = {.at = 1};
    uint64_t room = p->info->context < LENGTH_MAX ? p->info->context : LENGTH_MAX;
    if (!start && p->length + p->info->window_max <= room)
        return LF_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct lf_chunk chunk = {.slot = i, .rows = 1, .tok = &first, .plan = &end, .n_plan = 1};
        LF_TRY(p->target->ops->reset(p->target, i, err));
        LF_TRY(p->target->ops->grow(p->target, i, room, err));
        LF_TRY(p->target->ops->prefill(p->target, &chunk, 1, err));
    }
    p->length = 1;
    return LF_OK;
}

// One launch of rows spread over the fewest windows, or over windows of one row.
static enum lf_status run(struct probe *p, uint32_t rows, bool single, bool start_over,
                          double *seconds, struct lf_error *err) {
    static const struct lf_sampling rule = {.top_p = 1};
    uint32_t tok[LF_COST_ROWS] = {0}, drawn[LF_COST_ROWS], kept[LF_COST_ROWS], n = 0;
    struct lf_window w[LF_COST_ROWS];
    for (uint32_t left = rows; left; n++) {
        uint32_t most = single ? 1 : p->info->window_max;
        w[n] = (struct lf_window){.slot = n, .rows = left < most ? left : most, .tok = tok,
                                  .rule = &rule};
        kept[n] = 1;
        left -= w[n].rows;
    }
    LF_TRY(make_room(p, n, start_over, err));
    for (uint32_t i = 0; i < n; i++)
        w[i].pos0 = p->length;
    double start = p->clock(p->ctx);
    LF_TRY(p->target->ops->verify(p->target, w, n, drawn, err));
    LF_TRY(p->target->ops->keep(p->target, w, kept, n, err));
    *seconds = p->clock(p->ctx) - start;
    p->length++;
    return LF_OK;
}

// The fastest of the timed runs after one untimed.
static enum lf_status time_rows(struct probe *p, uint32_t rows, bool single, double *fastest,
                                struct lf_error *err) {
    double seconds, begun = p->clock(p->ctx);
    *fastest = HUGE_VAL;
    for (int i = 0; i < 2 || (i <= RUNS && p->clock(p->ctx) - begun < size_seconds_max); i++) {
        LF_TRY(run(p, rows, single, i == 0, &seconds, err));
        if (i)
            *fastest = fmin(*fastest, seconds);
    }
    return LF_OK;
}

// A pass after one row was kept, which it takes in first.
static enum lf_status time_pass(struct probe *p, uint32_t streams, double *fastest,
                                struct lf_error *err) {
    static const struct lf_sampling rule = {.top_p = 1};
    struct lf_draft_ask ask[LF_COST_ROWS];
    struct lf_draft draft[LF_COST_ROWS];
    uint32_t slot[LF_COST_ROWS];
    double spent = 0, launch;
    for (uint32_t i = 0; i < streams; i++) {
        slot[i] = i;
        ask[i] = (struct lf_draft_ask){.slot = i, .rule = &rule};
    }
    *fastest = HUGE_VAL;
    for (int i = 0; i < 2 || (i <= RUNS && spent < size_seconds_max); i++) {
        LF_TRY(run(p, streams, true, i == 0, &launch, err));
        double start = p->clock(p->ctx);
        LF_TRY(p->target->drafter->ingest(p->target, slot, streams, err));
        LF_TRY(p->target->drafter->propose(p->target, ask, streams, draft, err));
        double seconds = p->clock(p->ctx) - start;
        spent += seconds;
        if (i)
            *fastest = fmin(*fastest, seconds);
    }
    return LF_OK;
}

static uint32_t rows_most(const struct probe *p) {
    uint32_t most = p->info->slots * p->info->window_max;
    return most < p->info->launch_rows_max ? most : p->info->launch_rows_max;
}

static enum lf_status measure_rows(struct lf_cost *c, struct probe *p, struct lf_error *err) {
    uint32_t size[LF_COST_ROWS], n = 0, most = rows_most(p);
    double seconds[LF_COST_ROWS];
    for (uint32_t r = 1; r <= most; r += r < 16 ? 1 : r < 32 ? 8 : 16) {
        if (n && p->clock(p->ctx) > p->until)
            break;
        LF_TRY(time_rows(p, r, false, &seconds[n], err));
        // A time far under its predecessor's says that one of the two was disturbed.
        if (n && seconds[n] < 0.97 * seconds[n - 1]) {
            double again;
            LF_TRY(time_rows(p, size[n - 1], false, &again, err));
            seconds[n - 1] = fmin(seconds[n - 1], again);
            LF_TRY(time_rows(p, r, false, &again, err));
            seconds[n] = fmin(seconds[n], again);
        }
        size[n++] = r;
    }
    lf_cost_fill(c->rows[0], size, seconds, n);
    c->used[0] = true;
    return LF_OK;
}

static enum lf_status measure(struct lf_cost *c, struct probe *p, struct lf_error *err) {
    uint32_t streams = p->info->slots < LF_COST_ROWS ? p->info->slots : LF_COST_ROWS;
    LF_TRY(measure_rows(c, p, err));
    if (streams > 1) {
        double apart;
        streams = streams < 4 ? streams : 4;
        LF_TRY(time_rows(p, streams, true, &apart, err));
        c->window = fmax(0, (apart - c->rows[0][streams]) / (streams - 1));
    }
    if (!p->target->drafter)
        return LF_OK;
    uint32_t size[2] = {1, streams};
    double seconds[2];
    LF_TRY(time_pass(p, 1, &seconds[0], err));
    if (streams > 1)
        LF_TRY(time_pass(p, streams, &seconds[1], err));
    lf_cost_fill(c->pass, size, seconds, streams > 1 ? 2 : 1);
    return LF_OK;
}

static bool near(double sample, double kept) {
    return fabs(sample - kept) <= sample_tolerance * kept;
}

static enum lf_status sample(struct lf_cost *c, struct probe *p, struct lf_error *err) {
    uint32_t size[] = {1, rows_most(p) < SAMPLE_ROWS ? rows_most(p) : SAMPLE_ROWS};
    double seconds;
    for (int i = 0; i < 2; i++) {
        LF_TRY(time_rows(p, size[i], false, &seconds, err));
        c->measured = c->measured && near(seconds, c->rows[0][size[i]]);
    }
    if (c->measured && p->target->drafter) {
        LF_TRY(time_pass(p, 1, &seconds, err));
        c->measured = near(seconds, c->pass[1]);
    }
    return LF_OK;
}

static enum lf_status probe(struct lf_cost *c, struct lf_target *target, lf_clock_fn *clock,
                            void *ctx, enum lf_status step(struct lf_cost *, struct probe *,
                                                           struct lf_error *),
                            struct lf_error *err) {
    struct probe p = {.target = target, .info = target->ops->info(target), .clock = clock,
                      .ctx = ctx, .until = clock(ctx) + measure_seconds_max};
    struct lf_error clean = LF_ERROR_INIT;
    // A context too small for a full window is too small for drafts to matter.
    bool apt = p.info->context > p.info->window_max && p.info->launch_rows_max <= LF_COST_ROWS;
    if (!apt || step(c, &p, err) != LF_OK)
        c->measured = false;
    for (uint32_t i = 0; i < p.info->slots; i++)
        if (target->ops->reset(target, i, &clean) != LF_OK)
            lf_fail(err, clean.status, "%s", clean.text);
    return err->status;
}

enum lf_status lf_cost_measure(struct lf_cost *c, struct lf_target *target, lf_clock_fn *clock,
                               void *ctx, struct lf_error *err) {
    *c = (struct lf_cost){.measured = true};
    return probe(c, target, clock, ctx, measure, err);
}

enum lf_status lf_cost_sample(struct lf_cost *c, struct lf_target *target, lf_clock_fn *clock,
                              void *ctx, struct lf_error *err) {
    return probe(c, target, clock, ctx, sample, err);
}
