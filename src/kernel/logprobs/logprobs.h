// logprobs: its arguments and its contract (engine.md S-20).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"
#include "lanefold.h"

#define LF_LOGPROBS_CONTRACT                                                                       \
    "log-probabilities of raw logits at temperature 1, for one id a row and for the best "         \
    "alternatives in the order of S-4: (logit - greatest) - log(sum exp(logit - greatest)), all "  \
    "in float64 with exp and log of S-11, rounded once to float32. The sum: 16 partials by id "    \
    "mod 16, each in ascending order of id, then i+8, i+4, i+2, i+1. Each value is within half "   \
    "a float32 spacing and (vocab/16 + 24 + 4|value|) 2^-53 of float64, past float32 minus "       \
    "infinity. Alternatives are exact. An id at minus infinity has that value and is no "          \
    "alternative; a row with NaN or +infinity, one without a finite logit and an id past the "     \
    "vocabulary give NaN."

struct lf_logprobs_args {
    uint32_t rows, vocab;
    const float *logits; // [rows][logits_stride]
    size_t logits_stride;
    const uint32_t *drawn;      // [rows] the ids whose own value is wanted
    uint32_t top;               // alternatives a row, at most LF_LOGPROBS_MAX
    struct lf_logprob_row *row; // [rows] what lies past n is zero
};

// Columns of the reference's rows: drawn, n, ids, values.
enum { LF_LOGPROBS_F64_COLUMNS = 2 + 2 * LF_LOGPROBS_MAX };

LF_DECLARE_KERNEL(logprobs);
