// A weight as published: bytes in the mapped file, never copied; its format is its own property.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lf_weight_format {
    LF_WEIGHT_BF16,  // data: u16 [out][in]
    LF_WEIGHT_F16,   // data: u16 [out][in]
    LF_WEIGHT_F32,   // data: f32 [out][in]
    LF_WEIGHT_FP8,   // data: e4m3 [out][in], scale: UE8M0 [ceil(out/32)][in/32] (checkpoint.md 5.2)
    LF_WEIGHT_MXFP4, // data: e2m1 pairs [out][in/2], low first, scale: UE8M0 [out][in/32] (5.3)
};
enum { LF_WEIGHT_FORMATS = LF_WEIGHT_MXFP4 + 1 };

// Pointers may have any alignment: tensors start on multiples of 8 at best, some on odd bytes.
struct lf_matrix {
    enum lf_weight_format format;
    uint32_t out, in;
    const uint8_t *data;
    const uint8_t *scale; // NULL for plain formats
    bool is_regular; // known to have no NaN code and no scale far out (linear_regular.h)
};

// True for formats whose linear maps quantize their input with QA8 (model.md 3.3).
static inline int lf_matrix_quantizes_input(const struct lf_matrix *m) {
    return m->format == LF_WEIGHT_FP8 || m->format == LF_WEIGHT_MXFP4;
}
// Bytes of one packed weight row.
size_t lf_matrix_row_bytes(const struct lf_matrix *m);
// Bytes of its scales; 0 for plain formats.
static inline size_t lf_matrix_scale_bytes(const struct lf_matrix *m) {
    size_t across = m->in / 32;
    if (m->format == LF_WEIGHT_MXFP4)
        return m->out * across;
    return m->format == LF_WEIGHT_FP8 ? ((size_t)m->out + 31) / 32 * across : 0;
}
// Rows first .. first+rows-1 as a matrix of its own; for FP8 first must be a multiple of 32.
struct lf_matrix lf_matrix_rows(const struct lf_matrix *m, uint32_t first, uint32_t rows);
