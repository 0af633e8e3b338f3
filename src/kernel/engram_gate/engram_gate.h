// engram_gate: its arguments and its contract (model.md 6.4).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_ENGRAM_GATE_CONTRACT                                                                    \
    "the four gates and the join of model.md 6.4 steps 3-5, in place on the streams. Sums "        \
    "over dim: 16 partials by element mod 16, fused, tree as rms_norm. The dot adds fma(x*w, "     \
    "key, acc) with w = q_weight*k_weight and x*w each one rounded product; dot * (1/rms(x) * "    \
    "1/rms(key)) * dot_scale in this order. gate = sigmoid(copysign(sqrt(max(|dot|, 1e-6)), "      \
    "dot)), 0 where dead. X_i = bf(fma(gate, val, X_i)). Errors: dot within e = g(dim/16 + 6) "    \
    "sum|x w key| / rms(x) / rms(key) * dot_scale + g(dim/16 + 17)|dot|; gate (e / (2 "            \
    "sqrt(max(|dot| - e, 1e-6))) + g(2) sqrt|dot|) / 4 + g(5), plus 5e-4 where |dot| <= e "        \
    "leaves the sign open; X_i |val| times that + g(1) (|X_i| + |val|) before bf. NaN has one "    \
    "pattern."

struct lf_engram_gate_args {
    uint32_t rows, streams, dim;
    uint16_t *x;              // bf16 [rows][streams][dim], in place
    const uint16_t *kv;       // bf16 [rows][(streams+1)*dim]: keys, then the shared value
    const uint16_t *q_weight; // bf16 [streams][dim]; any alignment
    const uint16_t *k_weight; // bf16 [streams][dim]; any alignment
    const uint8_t *dead;      // [rows] 1: inside an image span, gate 0; NULL: none
    float dot_scale;          // dim^-0.5 rounded once
    float eps;                // norm eps
    float *gate;              // [rows][streams] or NULL; the gates, for tests
};

LF_DECLARE_KERNEL(engram_gate);
