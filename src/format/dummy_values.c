// The values of made-up weights: eight bytes from one mixed counter, so any part can be filled.
#include <math.h>
#include <string.h>
#include "base/number.h"
#include "format/dummy.h"

enum { TILE = 32, SCALE_BIAS = 127 };

// Deviations of the codes below, as powers of two: what a scale has to bring back to 1.
enum { FP8_EXPONENT = 4, FP4_EXPONENT = 1 };

// How the words of one tensor become values.
struct rule {
    enum { CODES, NIBBLES, SCALES, HALVES, FLOATS } form;
    float mean, spread;  // halves and floats: uniform in mean +- spread
    int exponent;        // scales: that of the middle
    uint8_t code[256];   // codes: e4m3 of a bell-like curve
};

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t key_of(const char *name, uint64_t seed) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 0x100000001B3u;
    return mixed(seed + 0x9E3779B97F4A7C15u * mixed(hash));
}

static bool ends_with(const char *text, const char *tail) {
    size_t len = strlen(text), tail_len = strlen(tail);
    return len >= tail_len && strcmp(text + len - tail_len, tail) == 0;
}

// A deviation of 16 with tails to 36, by multiplications alone: the same codes on every machine.
static void fill_codes(uint8_t code[256]) {
    for (int i = 0; i < 256; i++) {
        float x = ((float)i - 127.5f) / 127.5f;
        code[i] = lf_e4m3_from_f32(24.0f * x * (0.5f + x * x));
    }
}

// Maps have a deviation of 1 / sqrt(inputs), so that what they give is as large as what they get.
static int map_exponent(uint64_t inputs) {
    return -(ilogb((double)inputs) / 2);
}

static struct rule rule_of(const struct lf_tensor *t) {
    struct rule r = {.mean = 0, .spread = 0.1f};
    bool table = strstr(t->name, ".engram.embed.") != NULL;
    bool embed = strcmp(t->name, "embed.weight") == 0;
    uint64_t inputs = t->rank == 2 ? t->shape[1] : 1;
    if (t->dtype == LF_DTYPE_F8_E4M3) {
        r.form = CODES;
        fill_codes(r.code);
    } else if (t->dtype == LF_DTYPE_I8) {
        r.form = NIBBLES;
    } else if (t->dtype == LF_DTYPE_F8_E8M0) {
        bool expert = strstr(t->name, ".ffn.experts.") != NULL;
        r.form = SCALES;
        r.exponent = (table ? 0 : map_exponent(inputs * TILE)) -
                     (expert ? FP4_EXPONENT : FP8_EXPONENT);
    } else {
        r.form = t->dtype == LF_DTYPE_BF16 ? HALVES : FLOATS;
        if (t->rank == 2)
            r.spread = embed ? 1.75f : (float)ldexp(1.75, map_exponent(inputs));
        // Norms, gates of the Engram and the factors of the mixes lie about 1.
        if (ends_with(t->name, "norm.weight") || ends_with(t->name, "_scale") ||
            ends_with(t->name, ".q_weight") || ends_with(t->name, ".k_weight"))
            r.mean = 1, r.spread = 0.1f;
    }
    return r;
}

static uint64_t code_word(const struct rule *r, uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 8)
        out |= (uint64_t)r->code[word >> i & 255] << i;
    return out;
}

// Half of the scales are the middle, a quarter each twice and half of it.
static uint64_t scale_word(const struct rule *r, uint64_t word) {
    static const int step[4] = {0, 1, -1, 0};
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 8)
        out |= (uint64_t)(uint8_t)(SCALE_BIAS + r->exponent + step[word >> i & 3]) << i;
    return out;
}

static uint64_t half_word(const struct rule *r, uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 16) {
        float u = (float)(int16_t)(uint16_t)(word >> i) * 0x1p-15f;
        out |= (uint64_t)lf_bf16_from_f32(r->mean + r->spread * u) << i;
    }
    return out;
}

static uint64_t float_word(const struct rule *r, uint64_t word) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 32) {
        float u = (float)((int32_t)(uint32_t)(word >> i) >> 8) * 0x1p-23f;
        out |= (uint64_t)lf_f32_bits(r->mean + r->spread * u) << i;
    }
    return out;
}

static uint64_t value_word(const struct rule *r, uint64_t word) {
    switch (r->form) {
    case CODES:
        return code_word(r, word);
    case SCALES:
        return scale_word(r, word);
    case HALVES:
        return half_word(r, word);
    case FLOATS:
        return float_word(r, word);
    case NIBBLES:
        break;
    }
    return word;
}

void lf_dummy_write(const struct lf_tensor *tensor, uint64_t seed, uint64_t offset, uint64_t bytes,
                    uint8_t *out) {
    struct rule rule = rule_of(tensor);
    uint64_t key = key_of(tensor->name, seed);
    LF_ASSERT(offset % 8 == 0 && offset <= tensor->bytes && bytes <= tensor->bytes - offset);
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t index = (offset + at) / 8 + 1, left = bytes - at;
        uint64_t word = value_word(&rule, mixed(key + index * 0x9E3779B97F4A7C15u));
        memcpy(out + at, &word, left < 8 ? left : 8);
    }
}
