// Dot products of QF4e queries and keys as sums of small integers, where float32 rounds nothing.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/number.h"
#include "kernel/linear/linear_vec.h"

// Keys of a block; the elements a power of two is shared by; bytes of a step: 4 of each key.
enum { CODES_BLOCK = 64, CODES_GROUP = 32, CODES_STEP = 4 * CODES_BLOCK };

// Keys are counted in halves from -12 to 12 and kept as 0 to 24; queries reach 15 of their unit.
enum { CODES_MIDDLE = 12, CODES_QUERY_MAX = 15 };

// Exponents this far from the ends of float32 meet no subnormal and no overflow.
enum { CODES_EXPONENT_MIN = 77, CODES_EXPONENT_MAX = 177, CODES_NEVER = 255 };

// Four elements of a dword are every second one of eight, as packed rows hold them.
struct code_keys {
    uint8_t *step; // [dim/4][CODES_BLOCK][4]
    float *unit;   // [dim/32][CODES_BLOCK]: of half a code; 0 where a group is all zeros
    uint32_t spread; // most steps of two between the units of one key; CODES_NEVER: not usable
};

struct code_query {
    int8_t *step;    // [dim]
    float *unit;     // [dim/32]
    uint32_t *start; // [dim/32]: what takes CODES_MIDDLE out again
    uint32_t spread;
};

// The most that spreads of key and query may add up to for all sums to fit 24 bits.
static uint32_t codes_spread_max(uint32_t dim) {
    uint64_t most = (uint64_t)dim * CODES_QUERY_MAX * CODES_MIDDLE;
    uint32_t spread = 0;
    while (most << (spread + 1) <= 1u << 24)
        spread++;
    return spread;
}

struct code_range {
    uint32_t low, high;
};

static void codes_widen(struct code_range *range, uint32_t exponent) {
    range->low = exponent < range->low ? exponent : range->low;
    range->high = exponent > range->high ? exponent : range->high;
}

static uint32_t codes_spread(const struct code_range *range) {
    if (range->low > range->high)
        return 0; // zeros alone
    bool inside = range->low >= CODES_EXPONENT_MIN && range->high <= CODES_EXPONENT_MAX;
    return inside ? range->high - range->low : CODES_NEVER;
}

// A group of a query in units of a sixteenth of its greatest power of two; false if it is none.
static bool codes_group(const uint16_t *x, int8_t *out, float *unit, struct code_range *range) {
    uint32_t most = 0, odd = 0;
    int8_t code[CODES_GROUP];
    for (uint32_t i = 0; i < CODES_GROUP; i++) {
        uint32_t magnitude = x[i] & 0x7FFFu;
        most = magnitude > most ? magnitude : most;
    }
    uint32_t exponent = most >> 7;
    *unit = 0.0f;
    memset(out, 0, CODES_GROUP);
    if (!most)
        return true;
    codes_widen(range, exponent);
    if (exponent < CODES_EXPONENT_MIN || exponent > CODES_EXPONENT_MAX)
        return false;
    float inverse = lf_f32_from_bits((257 - exponent) << 23);
    for (uint32_t i = 0; i < CODES_GROUP; i++) {
        float value = lf_bf16_to_f32(x[i]) * inverse;
        int32_t whole = (int32_t)value;
        odd |= (float)whole != value;
        code[i] = (int8_t)whole;
    }
    for (uint32_t at = 0; at < CODES_GROUP; at += 8)
        for (uint32_t i = 0; i < 4; i++) {
            out[at + i] = code[at + 2 * i];
            out[at + 4 + i] = code[at + 2 * i + 1];
        }
    *unit = lf_f32_from_bits((exponent - 3) << 23);
#if LF_FAULT == 11
    odd = 0; // 11: a query of other values cut to codes
#endif
    return !odd;
}

// One head's query; spread CODES_NEVER where it is not what QF4e gives.
static void codes_query(struct code_query *q, const uint16_t *x, uint32_t dim) {
    struct code_range range = {CODES_NEVER, 0};
    bool whole = true;
    for (uint32_t g = 0; g < dim / CODES_GROUP; g++) {
        int8_t *step = q->step + g * CODES_GROUP;
        int32_t sum = 0;
        whole &= codes_group(x + g * CODES_GROUP, step, &q->unit[g], &range);
        for (uint32_t i = 0; i < CODES_GROUP; i++)
            sum += step[i];
        q->start[g] = (uint32_t)(-CODES_MIDDLE * sum) & 0xFFFFu;
#if LF_FAULT == 12
        q->start[g] = 0; // 12: the middle of the keys' codes stays in
#endif
    }
    q->spread = whole ? codes_spread(&range) : CODES_NEVER;
}

static bool codes_all_zero(const uint8_t *codes) {
    uint64_t low, high;
    memcpy(&low, codes, 8);
    memcpy(&high, codes + 8, 8);
    return !((low | high) & 0x7777777777777777u);
}

// The units of one key; returns their spread.
static uint32_t codes_units(const struct code_keys *k, const uint8_t *row, uint32_t t,
                            uint32_t dim) {
    struct code_range range = {CODES_NEVER, 0};
    for (uint32_t g = 0; g < dim / CODES_GROUP; g++) {
        uint32_t exponent = row[dim / 2 + g];
        bool inside = exponent >= CODES_EXPONENT_MIN && exponent <= CODES_EXPONENT_MAX;
        bool zero = !inside && exponent < 255 && codes_all_zero(row + 16 * g);
        k->unit[g * CODES_BLOCK + t] = inside ? lf_f32_from_bits((exponent - 1) << 23) : 0.0f;
        if (!zero)
            codes_widen(&range, exponent);
    }
    return codes_spread(&range);
}

// A block of packed rows; dword: [dim/8][CODES_BLOCK] of room.
static void codes_block(struct code_keys *k, const uint8_t *const row[CODES_BLOCK], uint32_t dim,
                        uint32_t *dword) {
    static const uint8_t halves[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    vec_u8 table = all_16(halves);
    vec_u32 nibble = all_words(0x0F0F0F0Fu);
    k->spread = 0;
    for (uint32_t t = 0; t < CODES_BLOCK; t++) {
        uint32_t spread = codes_units(k, row[t], t, dim);
        k->spread = spread > k->spread ? spread : k->spread;
        for (uint32_t j = 0; j < dim / 8; j++)
            memcpy(&dword[j * CODES_BLOCK + t], row[t] + 4 * j, 4);
    }
    for (uint32_t j = 0; j < dim / 8; j++)
        for (uint32_t t = 0; t < CODES_BLOCK; t += VEC_LANES) {
            vec_u32 words = load_words(dword + j * CODES_BLOCK + t);
            uint8_t *out = k->step + 2 * j * CODES_STEP + 4 * t;
            store_words(out, (vec_i32)vec_pick(table, (vec_u8)(words & nibble)));
            store_words(out + CODES_STEP, (vec_i32)vec_pick(table, (vec_u8)(words >> 4 & nibble)));
        }
}

// Sums of products of neighbouring bytes, a from 0 to 24, b from -15 to 15.
#if defined(__AVX512VNNI__)
typedef vec_i32 codes_sum; // of four products each

INLINE codes_sum codes_add(codes_sum sum, vec_u8 a, vec_u8 b) {
    return (vec_i32)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}

INLINE codes_sum codes_begin(uint32_t start) {
    return (vec_i32)all_words((uint32_t)(int16_t)start);
}

INLINE vec_i32 codes_total(codes_sum sum) {
    return sum;
}
#else
typedef vec_i16 codes_sum; // of two

INLINE codes_sum codes_add(codes_sum sum, vec_u8 a, vec_u8 b) {
#if defined(__AVX2__)
    return sum + (vec_i16)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
#else
    int8x16_t x = (int8x16_t)a, y = (int8x16_t)b;
    int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    return sum + (vec_i16)vpaddq_s16(low, vmull_high_s8(x, y));
#endif
}

INLINE codes_sum codes_begin(uint32_t start) {
    return (vec_i16)all_words(start);
}

INLINE vec_i32 codes_total(codes_sum sum) {
    return vec_pair_products(sum, (vec_i16)all_words(0x00010001u));
}
#endif

// Named sums: compilers keep arrays of them in memory.
#define CODES_EACH(act, q) act(q, 0) act(q, 1) act(q, 2) act(q, 3)
#define CODES_START(q, v) codes_sum a##q##v = start##q;
#define CODES_ADD(q, v) a##q##v = codes_add(a##q##v, k##v, b##q);
#define CODES_OUT(q, v)                                                                            \
    {                                                                                              \
        vec_f32 sum = __builtin_convertvector(codes_total(a##q##v), vec_f32);                      \
        float *to = z + q * CODES_BLOCK + v * VEC_LANES;                                           \
        vec_f32 before = g ? load_f32(to) : (vec_f32){0};                                          \
        store_f32(to, vec_fma(sum * load_f32(unit + v * VEC_LANES), unit##q, before));             \
    }
#define CODES_LOAD(unused, v) vec_u8 k##v = (vec_u8)load_words(at + 4 * v * VEC_LANES);

// Four vectors of keys from t on against one or two queries; z [queries][CODES_BLOCK].
INLINE void codes_tile(const int queries, float *z, const struct code_query *q,
                       const struct code_keys *k, uint32_t t, uint32_t dim) {
    const struct code_query *p = q + queries - 1;
    z += t;
    for (uint32_t g = 0; g < dim / CODES_GROUP; g++) {
        const uint8_t *at = k->step + g * 8 * CODES_STEP + 4 * t;
        const float *unit = k->unit + g * CODES_BLOCK + t;
        codes_sum start0 = codes_begin(q->start[g]), start1 = codes_begin(p->start[g]);
        vec_f32 unit0 = all_f32(q->unit[g]), unit1 = all_f32(p->unit[g]);
        CODES_EACH(CODES_START, 0)
        CODES_EACH(CODES_START, 1)
        for (uint32_t s = 0; s < 8; s++, at += CODES_STEP) {
            uint32_t four0, four1;
            memcpy(&four0, q->step + g * CODES_GROUP + 4 * s, 4);
            memcpy(&four1, p->step + g * CODES_GROUP + 4 * s, 4);
            vec_u8 b0 = (vec_u8)all_words(four0), b1 = (vec_u8)all_words(four1);
            CODES_EACH(CODES_LOAD, 0)
            CODES_EACH(CODES_ADD, 0)
            if (queries > 1) {
                CODES_EACH(CODES_ADD, 1)
            }
        }
        CODES_EACH(CODES_OUT, 0)
        if (queries > 1) {
            CODES_EACH(CODES_OUT, 1)
        }
    }
}

// All dot products of a block with one query, or with two that follow each other.
static __attribute__((noinline)) void codes_dots(uint32_t queries, float *z,
                                                 const struct code_query *q,
                                                 const struct code_keys *k, uint32_t dim) {
    for (uint32_t t = 0; t < CODES_BLOCK; t += 4 * VEC_LANES) {
        if (queries == 2)
            codes_tile(2, z, q, k, t, dim);
        else
            codes_tile(1, z, q, k, t, dim);
    }
}
