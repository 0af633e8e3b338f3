// How many drafts a window carries, from calibrated chances and measured times (D-5, D-7).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "model/target.h"

enum { LF_CHOICE_ROWS = 64 };
// Replay: the stream's own tokens from before it yielded its slot (L-40).
enum lf_source { LF_SOURCE_DRAFTER, LF_SOURCE_COPY, LF_SOURCE_REPLAY, LF_SOURCES };

// Kept drafts over summed confidences, by source and place in the window; one for each mode (D-7).
struct lf_calibration {
    double kept[LF_SOURCES][LF_DRAFTS_MAX], expected[LF_SOURCES][LF_DRAFTS_MAX];
};

// The drafts one stream could verify in a round.
struct lf_chain {
    enum lf_source source;
    uint32_t n;
    uint32_t tok[LF_DRAFTS_MAX];
    double raw[LF_DRAFTS_MAX];  // chances as the source says
    double gain[LF_DRAFTS_MAX]; // g_j: calibrated chances multiplied up
    bool forced[LF_DRAFTS_MAX]; // no draft: a token that the request's path asks for (L-6)
};

struct lf_choice_input {
    const struct lf_chain *chain; // [streams]; n = 0 where nothing was drafted
    uint32_t streams, row_limit;
    const double *cost; // [row_limit + 1] c(R), any unit
    double pass;        // d: a pass that ran already, 0: none did
    double window;      // o
};

// Depths of the best total by an exact scan; returns tokens a unit of time. row_limit <= 64.
double lf_policy_choose(const struct lf_choice_input *in, uint32_t *depth);
// Fills chain->gain from its raw chances.
void lf_calibration_apply(const struct lf_calibration *calibration, struct lf_chain *chain);
// A chain of n drafts as good as the drafter gives where it is at its best.
void lf_chain_promise(struct lf_chain *chain, uint32_t n);
// Of verified drafts the first accepted were kept.
void lf_calibration_learn(struct lf_calibration *calibration, const struct lf_chain *chain,
                          uint32_t verified, uint32_t accepted);
double lf_policy_sigmoid(double logit);
