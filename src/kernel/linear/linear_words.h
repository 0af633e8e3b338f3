// Word order: element e of word 16 s + i of a row lies at [(s E + e) 16 + i], E elements a word.
#pragma once
#include <stdbool.h>
#include <string.h>
#include "base/number.h"
#include "format/matrix.h"
#include "kernel/isa.h"

enum {
    LANES = 16,      // partials
    STEP_BYTES = 64, // 16 words of a packed row
    K_BLOCK = 512,   // elements taken together: a multiple of 16 words of every format
};

static inline uint32_t word_elements(enum lf_weight_format format) {
    static const uint8_t elements[] = {2, 2, 1, 4, 8};
    return elements[format];
}

// Vectors of 16 lanes that hold n elements, the padding of the last step included.
static inline uint32_t word_vectors(enum lf_weight_format format, uint32_t n) {
    uint32_t e = word_elements(format), step = LANES * e;
    return (n + step - 1) / step * e;
}

// Bytes that n elements take; n even.
static inline size_t packed_bytes(enum lf_weight_format format, size_t n) {
    return format == LF_WEIGHT_MXFP4 ? n / 2 : n * (4 / word_elements(format));
}

// A part of a weight row in packed form.
struct packed {
    const uint8_t *data;
    uint32_t bytes;       // of data, before padding
    const uint8_t *scale; // UE8M0, one for 32 elements; NULL for plain formats
    uint32_t scales;
};

// n elements of output o from k0 on.
static inline struct packed packed_at(const struct lf_matrix *m, uint32_t o, uint32_t k0,
                                      uint32_t n) {
    size_t blocks = m->in / 32, scale_row = m->format == LF_WEIGHT_FP8 ? o / 32 : o;
    struct packed p = {.scales = n / 32};
    p.data = m->data + packed_bytes(m->format, (size_t)o * m->in + k0);
    p.bytes = (uint32_t)packed_bytes(m->format, n);
    if (m->scale)
        p.scale = m->scale + scale_row * blocks + k0 / 32;
    return p;
}

// 64 bytes of the block: straight from the weights, or a padded copy at the row's end.
static inline const uint8_t *step_bytes(const struct packed *p, uint32_t step,
                                        uint8_t pad[STEP_BYTES]) {
    uint32_t at = step * STEP_BYTES;
    if (at + STEP_BYTES <= p->bytes)
        return p->data + at;
    memset(pad, 0, STEP_BYTES);
    memcpy(pad, p->data + at, p->bytes - at);
    return pad;
}

// The scale of 32 elements; padding has 1.
static inline float scale_at(const struct packed *p, uint32_t block) {
    return block < p->scales ? lf_ue8m0_to_f32(p->scale[block]) : 1.0f;
}

static inline float element_value(enum lf_weight_format format, const uint8_t *src, uint32_t k) {
    uint16_t half;
    float word;
    switch (format) {
    case LF_WEIGHT_BF16:
        memcpy(&half, src + 2 * k, 2);
        return lf_bf16_to_f32(half);
    case LF_WEIGHT_F16:
        memcpy(&half, src + 2 * k, 2);
        return lf_f16_to_f32(half);
    case LF_WEIGHT_F32:
        memcpy(&word, src + 4 * k, 4);
        return word;
    case LF_WEIGHT_FP8:
        return lf_e4m3_to_f32(src[k]);
    case LF_WEIGHT_MXFP4:
        return lf_e2m1_to_f32(src[k / 2] >> k % 2 * 4);
    }
    return 0.0f;
}

// One step by the definition. FP8 weights come scaled, MXFP4 values without their scale.
static inline void decode_step(enum lf_weight_format format, const struct packed *p, uint32_t step,
                               float *dst) {
    uint32_t e_count = word_elements(format);
    uint8_t pad[STEP_BYTES];
    const uint8_t *src = step_bytes(p, step, pad);
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t e = 0; e < e_count; e++) {
            uint32_t k = lane * e_count + e;
            float value = element_value(format, src, k);
            if (format == LF_WEIGHT_FP8)
                value *= scale_at(p, step * 2 + k / 32);
            dst[e * LANES + lane] = value;
        }
}

// n elements of x in the word order of a weight format, padded with +0.
static inline void order_x_plain(enum lf_weight_format format, const uint16_t *x, uint32_t n,
                                 float *dst) {
    uint32_t e_count = word_elements(format);
    uint32_t padded = word_vectors(format, n) * LANES;
#if LF_FAULT == 1 // the last element is not in the sum
    n--;
#endif
    for (uint32_t k = 0; k < padded; k++) {
        uint32_t word = k / e_count, e = k % e_count;
        float value = k < n ? lf_bf16_to_f32(x[k]) : 0.0f;
        dst[(word / LANES * e_count + e) * LANES + word % LANES] = value;
    }
}
