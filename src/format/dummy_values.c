// The values of made-up weights: eight bytes from one mixed counter, so any part can be filled.
#include <math.h>
#include <string.h>
#include "format/dummy_rule.h"

enum { TILE = 32 };

// Deviations of the codes below, as powers of two: what a scale has to bring back to 1.
enum { FP8_EXPONENT = 4, FP4_EXPONENT = 1 };

static uint64_t key_of(const char *name, uint64_t seed) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 0x100000001B3u;
    return lf_dummy_mixed(seed + 0x9E3779B97F4A7C15u * lf_dummy_mixed(hash));
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

struct lf_dummy_rule lf_dummy_rule_of(const struct lf_tensor *t, uint64_t seed) {
    struct lf_dummy_rule r = {.key = key_of(t->name, seed), .mean = 0, .spread = 0.1f};
    bool table = strstr(t->name, ".engram.embed.") != NULL;
    bool embed = strcmp(t->name, "embed.weight") == 0;
    uint64_t inputs = t->rank == 2 ? t->shape[1] : 1;
    if (t->dtype == LF_DTYPE_F8_E4M3) {
        r.form = LF_DUMMY_CODES;
        fill_codes(r.code);
    } else if (t->dtype == LF_DTYPE_I8) {
        r.form = LF_DUMMY_NIBBLES;
    } else if (t->dtype == LF_DTYPE_F8_E8M0) {
        bool expert = strstr(t->name, ".ffn.experts.") != NULL;
        r.form = LF_DUMMY_SCALES;
        r.exponent = (table ? 0 : map_exponent(inputs * TILE)) -
                     (expert ? FP4_EXPONENT : FP8_EXPONENT);
    } else {
        r.form = t->dtype == LF_DTYPE_BF16 ? LF_DUMMY_HALVES : LF_DUMMY_FLOATS;
        if (t->rank == 2)
            r.spread = embed ? 1.75f : (float)ldexp(1.75, map_exponent(inputs));
        // Norms, gates of the Engram and the factors of the mixes lie about 1.
        if (ends_with(t->name, "norm.weight") || ends_with(t->name, "_scale") ||
            ends_with(t->name, ".q_weight") || ends_with(t->name, ".k_weight"))
            r.mean = 1, r.spread = 0.1f;
    }
    return r;
}

void lf_dummy_write(const struct lf_tensor *tensor, uint64_t seed, uint64_t offset, uint64_t bytes,
                    uint8_t *out) {
    struct lf_dummy_rule rule = lf_dummy_rule_of(tensor, seed);
    LF_ASSERT(offset % 8 == 0 && offset <= tensor->bytes && bytes <= tensor->bytes - offset);
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t left = bytes - at, word = lf_dummy_word(&rule, (offset + at) / 8);
        memcpy(out + at, &word, left < 8 ? left : 8);
    }
}
