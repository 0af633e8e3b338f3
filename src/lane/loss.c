#include "lane/loss.h"

#include <math.h>

enum { FIRST_WAIT = 64, LONGEST_WAIT = 1024, PROBE_ROUNDS = 4 };
static const double budget = 0.01, plain_rounds = 2, credit_rounds = 16;

struct lf_loss lf_loss_start(const struct lf_loss *ended) {
    struct lf_loss loss = *ended;
    // What the earlier stream lost and could not pay stays owed, so short replies add up.
    double owed = fmax(0, ended->lost - budget * ended->decoded);
    loss.probe_start = owed + ended->probe_start - ended->lost;
    loss.lost = owed;
    loss.decoded = 0;
    if (!loss.interval)
        loss.interval = FIRST_WAIT;
    return loss;
}

static bool within(const struct lf_loss *l) {
    return l->lost <= budget * l->decoded + plain_rounds * l->plain;
}

bool lf_loss_allows(const struct lf_loss *l) {
    return l->resting ? !l->wait && within(l) : within(l);
}

static void rest(struct lf_loss *l) {
    l->resting = true;
    l->probe = 0;
    l->wait = l->interval;
}

static void lose_probe(struct lf_loss *l) {
    l->interval = l->interval * 2 < LONGEST_WAIT ? l->interval * 2 : LONGEST_WAIT;
    rest(l);
}

void lf_loss_round(struct lf_loss *l, double share, double extra, uint32_t gained, double plain,
                   bool drafted) {
    double before = l->lost;
    l->decoded += share;
    l->plain = plain;
    // An undrafted round differs from the estimate by the estimate's own error only.
    if (!drafted) {
        if (l->resting && l->wait)
            l->wait--;
        return;
    }
    l->lost = fmax(l->lost + extra - (gained - 1.0) * plain, -credit_rounds * plain);
    if (l->resting) {
        l->resting = false;
        l->probe = PROBE_ROUNDS;
        l->probe_start = before;
    }
    if (l->probe && !within(l)) {
        lose_probe(l);
    } else if (l->probe && !--l->probe) {
        if (l->lost > l->probe_start)
            lose_probe(l);
        else
            l->interval = FIRST_WAIT;
    } else if (!l->probe && !within(l)) {
        l->interval = FIRST_WAIT;
        rest(l);
    }
}
