// When a stream drafts: what drafts lost against plain rounds, probes, what new streams learn.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// Rules D-11 and D-12; seconds are a stream's share of its rounds.
struct lf_loss {
    double lost, decoded, plain; // plain: the newest estimate of a plain round's share
    bool resting;                // no drafts until the wait is over
    uint32_t wait, interval;     // rounds: left to the next probe, between probes
    uint32_t probe;              // drafted rounds left of a probe
    double probe_start;          // lost at its start
};

// A stream's start from how the last one of its mode and company ended; zeros are a fresh server.
struct lf_loss lf_loss_start(const struct lf_loss *ended);
// Whether the stream may draft in the next round.
bool lf_loss_allows(const struct lf_loss *loss);
// A round: the stream's share of its time and of what drafts added to it, tokens, a plain share.
void lf_loss_round(struct lf_loss *loss, double share, double extra, uint32_t gained, double plain,
                   bool drafted);
