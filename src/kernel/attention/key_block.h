// A block of keys as float32: columns of 32 elements, one after the other, a key every 32 floats.
#pragma once
#include <stdint.h>
#include "kernel/cache_row.h"

// A column is padded by KEY_NEAR rows: so all columns of KEY_NEAR keys share cache sets evenly.
enum {
    KEY_BLOCK = 64,
    KEY_NEAR = 8,
    KEY_COLUMN = 32,
    KEY_STEP = (KEY_BLOCK + KEY_NEAR) * KEY_COLUMN, // floats from a column to the next
};

static inline void key_widen_qa8(float *out, const uint8_t *row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / KEY_COLUMN; g++, out += KEY_STEP)
        lf_qa8_widen_group(out, row + g * KEY_COLUMN, row[dim + g]);
}

// Up to 32 scales of the n that are left.
static inline void key_scales(float scale[32], const uint8_t *code, uint32_t n) {
    if (n >= 32)
        for (uint32_t i = 0; i < 32; i++)
            scale[i] = lf_cache_e4m3(code[i]);
    else
        for (uint32_t i = 0; i < n; i++)
            scale[i] = lf_cache_e4m3(code[i]);
}

static inline void key_widen_qf4s(float *out, const uint8_t *row, uint32_t dim) {
    float scale[32];
    for (uint32_t g = 0; g < dim / KEY_COLUMN; g++, out += KEY_STEP) {
        if (g % 16 == 0)
            key_scales(scale, row + dim / 2 + 2 * g, dim / 16 - 2 * g);
        for (uint32_t i = 0; i < 2; i++)
            lf_cache_e2m1x16(out + 16 * i, row + 16 * g + 8 * i, scale[2 * (g % 16) + i]);
    }
}
