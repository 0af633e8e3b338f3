// How eight bytes of a made-up tensor follow from a counter: one source for the host and a device.
#pragma once
#include <string.h>
#include "base/number.h"
#include "format/dummy.h"

enum lf_dummy_form { LF_DUMMY_CODES, LF_DUMMY_NIBBLES, LF_DUMMY_SCALES, LF_DUMMY_HALVES,
                     LF_DUMMY_FLOATS };

struct lf_dummy_rule {
    uint64_t key; // of the tensor's name and the seed
    enum lf_dummy_form form;
    float mean, spread; // halves and floats: uniform in mean +- spread
    int exponent;       // scales: that of the middle
    uint8_t code[256];  // codes: e4m3 of a bell-like curve
};

struct lf_dummy_rule lf_dummy_rule_of(const struct lf_tensor *tensor, uint64_t seed);

enum { LF_DUMMY_SCALE_BIAS = 127 };

LF_HOST_DEVICE static inline uint64_t lf_dummy_mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

LF_HOST_DEVICE static inline uint64_t lf_dummy_codes(const struct lf_dummy_rule *r, uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 8)
        out |= (uint64_t)r->code[word >> i & 255] << i;
    return out;
}

// Half of the scales are the middle, a quarter each twice and half of it.
LF_HOST_DEVICE static inline uint64_t lf_dummy_scales(const struct lf_dummy_rule *r,
                                                      uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 8) {
        int which = (int)(word >> i & 3), step = which == 1 ? 1 : which == 2 ? -1 : 0;
        out |= (uint64_t)(uint8_t)(LF_DUMMY_SCALE_BIAS + r->exponent + step) << i;
    }
    return out;
}

LF_HOST_DEVICE static inline uint64_t lf_dummy_halves(const struct lf_dummy_rule *r,
                                                      uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 16) {
        float u = (float)(int16_t)(uint16_t)(word >> i) * 0x1p-15f;
        out |= (uint64_t)lf_bf16_from_f32(r->mean + r->spread * u) << i;
    }
    return out;
}

LF_HOST_DEVICE static inline uint64_t lf_dummy_floats(const struct lf_dummy_rule *r,
                                                      uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 32) {
        float u = (float)((int32_t)(uint32_t)(word >> i) >> 8) * 0x1p-23f;
        out |= (uint64_t)lf_f32_bits(r->mean + r->spread * u) << i;
    }
    return out;
}

// The tensor's bytes 8 * index to 8 * index + 7, the first lowest.
LF_HOST_DEVICE static inline uint64_t lf_dummy_word(const struct lf_dummy_rule *r, uint64_t index) {
    uint64_t word = lf_dummy_mixed(r->key + (index + 1) * 0x9E3779B97F4A7C15u);
    switch (r->form) {
    case LF_DUMMY_CODES:
        return lf_dummy_codes(r, word);
    case LF_DUMMY_SCALES:
        return lf_dummy_scales(r, word);
    case LF_DUMMY_HALVES:
        return lf_dummy_halves(r, word);
    case LF_DUMMY_FLOATS:
        return lf_dummy_floats(r, word);
    case LF_DUMMY_NIBBLES:
        break;
    }
    return word;
}
