// What an instruction set must offer linear_cpu.c, here in plain C.
#pragma once
#include "kernel/linear/linear_tile.h"

// Folding the scale into MXFP4 weights is a matter of speed.
static inline bool can_fold_weights(const struct packed *p) {
    (void)p;
    return false;
}

static inline uint32_t fold_exponent(const uint16_t *x, uint32_t n) {
    (void)x;
    (void)n;
    return 0;
}

static inline void decode(const struct lf_matrix *m, uint32_t o, uint32_t k0, bool fold,
                          float *dst) {
    (void)fold;
    decode_block(m, o, k0, dst);
}

static inline void order_x(enum lf_weight_format format, const uint16_t *x, uint32_t n,
                           float *dst) {
    order_x_plain(format, x, n, dst);
}

static inline void tile_products(const struct tile *t) {
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t o = 0; o < TILE_OUTS; o++)
            add_products(t->w + o * K_BLOCK, t->x + r * K_BLOCK, t->vectors,
                         t->acc + r * t->acc_row + o * LANES);
}

// Never called: nothing is folded here.
static inline void tile_folded(const struct tile *t) {
    (void)t;
}

// Few rows and one row have no forms of their own here.
static inline bool few_rows(const struct few *f) {
    (void)f;
    return false;
}

static inline bool one_row(const struct lf_matrix *m, const uint16_t *x, uint32_t o0,
                           uint32_t outs, struct scratch *s, float *sums) {
    (void)m;
    (void)x;
    (void)o0;
    (void)outs;
    (void)s;
    (void)sums;
    return false;
}
