// One k16 step of a compute capability 9.0 tensor core in integers: the reference of its sums.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

// A finite number as integer * 2^power; exponent: of its leading place, a subnormal's as the least.
struct lf_mma_term {
    int64_t integer;
    int exponent, power;
};

static inline uint32_t lf_mma_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float lf_mma_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Of a float32, which a bf16 is too with its low half zero.
static inline struct lf_mma_term lf_mma_term_of(uint32_t bits) {
    int biased = bits >> 23 & 255, exponent = (biased ? biased : 1) - 127;
    int64_t integer = (int64_t)(bits & 0x7FFFFFu) | (biased ? 0x800000 : 0);
    struct lf_mma_term term = {bits >> 31 ? -integer : integer, exponent, exponent - 23};
    return term;
}

// Toward zero to a multiple of 2^unit, in units of it.
static inline int64_t lf_mma_cut(struct lf_mma_term term, int unit) {
    int up = term.power - unit;
    int64_t size = term.integer < 0 ? -term.integer : term.integer;
    size = up >= 0 ? size << up : up > -63 ? size >> -up : 0;
    return term.integer < 0 ? -size : size;
}

// sum * 2^unit toward zero to 24 bits, or to 2^-149; an exact zero is +0.
static inline float lf_mma_store(int64_t sum, int unit) {
    uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
    int drop = size >> 24 ? 64 - 24 - __builtin_clzll(size) : 0;
    if (unit + drop < -149)
        drop = -149 - unit;
    size = drop < 64 ? size >> drop << drop : 0;
    float value = (float)ldexp((double)size, unit);
    if (size && ldexp((double)size, unit) >= 0x1p128)
        value = INFINITY;
    return sum < 0 && size ? -value : value;
}

// c + the 16 products of bf16 numbers.
static inline float lf_mma_step(const uint16_t a[16], const uint16_t b[16], float c) {
    struct lf_mma_term term[17];
    double special = 0;
    int top = -1000, n = 0, is_special = (lf_mma_bits(c) >> 23 & 255) == 255;
    if (is_special)
        special = (double)c;
    for (int k = 0; k < 16; k++) {
        uint32_t x = (uint32_t)a[k] << 16, y = (uint32_t)b[k] << 16;
        if ((a[k] & 0x7F80) == 0x7F80 || (b[k] & 0x7F80) == 0x7F80) {
            special += (double)lf_mma_float(x) * (double)lf_mma_float(y);
            is_special = 1;
            continue;
        }
        struct lf_mma_term p = lf_mma_term_of(x), q = lf_mma_term_of(y);
        // The low 16 bits of both are zero: the product fits once they are dropped.
        struct lf_mma_term product = {(p.integer / 65536) * (q.integer / 65536),
                                   p.exponent + q.exponent, p.power + q.power + 32};
        if (product.integer)
            term[n++] = product;
    }
    if (is_special)
        return isnan(special) ? lf_mma_float(0x7FFFFFFFu) : (float)special;
    if (lf_mma_term_of(lf_mma_bits(c)).integer)
        term[n++] = lf_mma_term_of(lf_mma_bits(c));
    for (int i = 0; i < n; i++)
        top = term[i].exponent > top ? term[i].exponent : top;
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += lf_mma_cut(term[i], top - 25);
    return n ? lf_mma_store(sum, top - 25) : 0.0f;
}
