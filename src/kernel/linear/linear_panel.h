// A panel: a block of TILE_OUTS outputs as float32, [part][vector][output][VEC_LANES].
#pragma once
#include "kernel/linear/linear_decode.h"

// As many outputs and rows as a set's registers hold sums for.
#if defined(__AVX512F__)
enum { TILE_OUTS = 4, TILE_ROWS = 6 };
#else
enum { TILE_OUTS = 3, TILE_ROWS = 4 };
#endif
enum { PANEL_VECTOR = TILE_OUTS * VEC_LANES };

// One step of one output; part_step: floats from a part to the next. Returns the greatest codes.
INLINE vec_u8 panel_fp8(const uint8_t *src, const uint8_t *scale, uint32_t second, float *dst,
                        size_t part_step, vec_u8 seen) {
    const uint32_t bias = E4M3_BIAS;
    for (uint32_t i = 0; i < VEC_PARTS; i++, dst += part_step) {
        vec_u32 words = load_words(src + i * VEC_BYTES);
        vec_f32 part[4], factor = e4m3_factor(i, scale[0] + bias, second);
        split_e4m3(words, part);
        store_scaled(dst, part[0], factor);
        store_scaled(dst + PANEL_VECTOR, part[1], factor);
        store_scaled(dst + 2 * PANEL_VECTOR, part[2], factor);
        store_scaled(dst + 3 * PANEL_VECTOR, part[3], factor);
        seen = vec_max_u8(seen, (vec_u8)words + (vec_u8)words);
    }
    return seen;
}

INLINE void panel_bf16(const uint8_t *src, float *dst, size_t part_step) {
    for (uint32_t i = 0; i < VEC_PARTS; i++, dst += part_step) {
        vec_f32 even, odd;
        split_pairs(load_words(src + i * VEC_BYTES), &even, &odd);
        store_f32(dst, even);
        store_f32(dst + PANEL_VECTOR, odd);
    }
}

// False when a code or a scale needs the definition. What lies ahead bytes on is fetched meanwhile.
static bool decode_fp8(const struct packed p[TILE_OUTS], size_t ahead, float *dst,
                       size_t part_step) {
    const uint32_t bias = E4M3_BIAS, full = p->bytes / STEP_BYTES;
    vec_u8 seen = {0};
    for (uint32_t i = 0; i < TILE_OUTS; i++)
        if (!bytes_within(p[i].scale, p[i].scales, 1, 254 - E4M3_BIAS))
            return false;
    for (uint32_t step = 0; step < full; step++, dst += 4 * PANEL_VECTOR)
        for (uint32_t i = 0; i < TILE_OUTS; i++) {
            const uint8_t *src = p[i].data + step * STEP_BYTES, *scale = p[i].scale + 2 * step;
            __builtin_prefetch(src + ahead);
            seen = panel_fp8(src, scale, scale[1] + bias, dst + i * VEC_LANES, part_step, seen);
        }
    for (uint32_t i = 0; full * STEP_BYTES < p->bytes && i < TILE_OUTS; i++) {
        uint8_t pad[STEP_BYTES];
        seen = panel_fp8(step_bytes(&p[i], full, pad), p[i].scale + 2 * full, 127,
                         dst + i * VEC_LANES, part_step, seen);
    }
    return !twice_has_nan(seen);
}

static void decode_bf16(const struct packed p[TILE_OUTS], size_t ahead, float *dst,
                        size_t part_step) {
    uint32_t full = p->bytes / STEP_BYTES;
    for (uint32_t step = 0; step < full; step++, dst += 2 * PANEL_VECTOR)
        for (uint32_t i = 0; i < TILE_OUTS; i++) {
            const uint8_t *src = p[i].data + step * STEP_BYTES;
            __builtin_prefetch(src + ahead);
            panel_bf16(src, dst + i * VEC_LANES, part_step);
        }
    for (uint32_t i = 0; full * STEP_BYTES < p->bytes && i < TILE_OUTS; i++) {
        uint8_t pad[STEP_BYTES];
        panel_bf16(step_bytes(&p[i], full, pad), dst + i * VEC_LANES, part_step);
    }
}

static void decode_plain(enum lf_weight_format format, const struct packed *p, float *dst,
                         size_t part_step) {
    uint32_t elements = word_elements(format);
    for (uint32_t step = 0; step * STEP_BYTES < p->bytes; step++) {
        float plain[8 * LANES];
        decode_step(format, p, step, plain);
        for (uint32_t e = 0; e < elements; e++, dst += PANEL_VECTOR)
            for (uint32_t i = 0; i < LANES; i++)
                dst[i / VEC_LANES * part_step + i % VEC_LANES] = plain[e * LANES + i];
    }
}

// n elements from k0 on of outputs o .., of which only end - o are the matrix's: the last repeats.
static void decode_panel(const struct lf_matrix *m, uint32_t o, uint32_t end, uint32_t k0,
                         uint32_t n, float *dst) {
    struct packed p[TILE_OUTS];
    size_t part_step = (size_t)word_vectors(m->format, n) * PANEL_VECTOR;
    size_t ahead = o + 2 * TILE_OUTS <= m->out ? TILE_OUTS * lf_matrix_row_bytes(m) : 0;
    for (uint32_t i = 0; i < TILE_OUTS; i++)
        p[i] = packed_at(m, o + i < end ? o + i : end - 1, k0, n);
    if (m->format == LF_WEIGHT_BF16)
        decode_bf16(p, ahead, dst, part_step);
    else if (m->format != LF_WEIGHT_FP8 || !decode_fp8(p, ahead, dst, part_step))
        for (uint32_t i = 0; i < TILE_OUTS; i++)
            decode_plain(m->format, &p[i], dst + i * VEC_LANES, part_step);
}
