#include "lane/policy.h"

#include <math.h>
#include <string.h>

static const double prior_weight = 2, decay = 0.97, chance_max = 0.995;
// 3.7 tokens a round with five drafts: what the drafter keeps on code (bench.md 11).
static const double promised_chance = 0.8;

double lf_policy_sigmoid(double logit) {
    return 1 / (1 + exp(-logit));
}

void lf_calibration_apply(const struct lf_calibration *c, struct lf_chain *chain) {
    double gain = 1;
    for (uint32_t j = 0; j < chain->n; j++) {
        double kept = c->kept[chain->source][j] + prior_weight;
        double expected = c->expected[chain->source][j] + prior_weight;
        double factor = fmin(fmax(kept / expected, 0.2), 3);
        gain *= chain->forced[j] ? 1 : fmin(chain->raw[j] * factor, chance_max);
        chain->gain[j] = gain;
    }
}

void lf_calibration_learn(struct lf_calibration *c, const struct lf_chain *chain,
                          uint32_t verified, uint32_t accepted) {
    // A draft after the first wrong one says nothing about its own chance.
    for (uint32_t j = 0; j < verified && j <= accepted; j++) {
        if (chain->forced[j])
            continue;
        double *kept = &c->kept[chain->source][j], *expected = &c->expected[chain->source][j];
        *kept = *kept * decay + (j < accepted);
        *expected = *expected * decay + chain->raw[j];
    }
}

void lf_chain_promise(struct lf_chain *chain, uint32_t n) {
    double gain = 1;
    chain->n = n;
    for (uint32_t j = 0; j < n; j++)
        chain->gain[j] = gain *= promised_chance;
}

// The stream whose next draft has the greatest gain, the first of equals; streams: none is left.
static uint32_t best_next(const struct lf_choice_input *in, const uint32_t *depth) {
    uint32_t best = in->streams;
    for (uint32_t i = 0; i < in->streams; i++) {
        const struct lf_chain *c = &in->chain[i];
        if (depth[i] < c->n &&
            (best == in->streams || c->gain[depth[i]] > in->chain[best].gain[depth[best]]))
            best = i;
    }
    return best;
}

double lf_policy_choose(const struct lf_choice_input *in, uint32_t *depth) {
    uint32_t taken[LF_CHOICE_ROWS] = {0};
    double gains = 0, best = -1;
    LF_ASSERT(in->streams <= LF_CHOICE_ROWS && in->row_limit <= LF_CHOICE_ROWS);
    memset(depth, 0, sizeof *depth * in->streams);
    for (uint32_t m = 0; in->streams + m <= in->row_limit; m++) {
        double seconds = in->cost[in->streams + m] + (in->streams - 1) * in->window + in->pass;
        double rate = (in->streams + gains) / seconds;
        if (rate > best) {
            best = rate;
            memcpy(depth, taken, sizeof *depth * in->streams);
        }
        uint32_t next = best_next(in, taken);
        if (next == in->streams)
            break;
        gains += in->chain[next].gain[taken[next]++];
    }
    return best;
}
