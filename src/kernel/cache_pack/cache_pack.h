// cache_pack: its arguments and its contract (model.md).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"
#include "kernel/rms_norm/rms_norm.h"

#define LF_CACHE_PACK_CONTRACT                                                                     \
    "quantize a bf16 row and store it packed (kernel/row.h layouts; model.md 8.2, 8.5, 8.6, "      \
    "12.1). Codes and scales bit-equal to base/quant for every bf16 input, NaN and infinity "      \
    "included. With norm: first x = rms_norm of x, and with rope_dim then its rotation as "        \
    "rope's, both in place and with the bits of calls one by one."

enum lf_cache_format { LF_CACHE_QA8, LF_CACHE_QF4S, LF_CACHE_QF4E };

struct lf_cache_pack_args {
    enum lf_cache_format format;
    uint32_t rows, dim;  // dim a multiple of 32
    uint16_t *x;         // bf16 [rows][dim]: afterwards what is packed
    uint8_t *const *dst; // [rows]: where each packed row goes, any alignment
    const uint16_t *norm; // bf16 [dim], any alignment; NULL: no norm
    float eps;
    uint32_t rope_dim;       // 0: no rotation
    const float *cos, *sin;  // [rows][rope_dim/2]
};

// Of the reference: the bytes of one row that is packed as it is.
void lf_cache_pack_bytes(const struct lf_cache_pack_args *args, const uint16_t *x, uint8_t *out);

// The norm as a call of its own.
static inline struct lf_rms_norm_args lf_cache_pack_norm(const struct lf_cache_pack_args *a) {
    struct lf_rms_norm_args norm = {a->rows, a->dim, a->x, a->dim, a->norm, a->eps, a->x, a->dim,
                                    NULL};
    return norm;
}

LF_DECLARE_KERNEL(cache_pack);
