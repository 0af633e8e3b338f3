// sample: its arguments and its contract (engine.md 10).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"
#include "lanefold.h"

#define LF_SAMPLE_CONTRACT                                                                         \
    "one token a row by the rule of engine.md 10 (S-1 .. S-11): Philox noise by (seed, "           \
    "position, id), top_k, temperature, integer top_p, min_p, Gumbel race. float64 +,-,*,/ "       \
    "only; no library transcendental. Every filter keeps a prefix of S-4's order, found by "       \
    "radix selection on the logit's bits. Drawn and kept are exact. x - x_first of two equal "     \
    "infinities (a temperature too small for float64) counts as 0."

struct lf_sample_row {
    const struct lf_sampling *rule; // of the host, whatever the device
    uint64_t position;    // of the token being drawn
    const uint32_t *mask; // allowed ids, bit id%32 of word id/32; NULL: all
};

// Drawn where a logit is NaN or +infinity, or no candidate is left (engine.md F-5).
#define LF_SAMPLE_NONE UINT32_MAX

struct lf_sample_args {
    uint32_t rows, vocab;
    const float *logits; // [rows][logits_stride]
    size_t logits_stride;
    const struct lf_sample_row *row; // [rows] of the host, whatever the device
    uint32_t *drawn;                 // [rows]
    uint32_t *kept;                  // [rows] candidates left for the race, 0 when greedy; or NULL
};

// The pieces, tested by vectors/sampling.json.
void lf_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
double lf_sample_uniform(uint64_t seed, uint64_t position, uint32_t id);
double lf_sample_gumbel(uint64_t seed, uint64_t position, uint32_t id);
double lf_sample_log(double x); // x > 0, finite
double lf_sample_exp(double x); // x <= 0

LF_DECLARE_KERNEL(sample);
