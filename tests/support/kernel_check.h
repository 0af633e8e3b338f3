// Kernel tests: seeded operands, guarded buffers, bounds against float64, bytes against bytes.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "device/pool.h"
#include "kernel/table.h"

struct lf_check_rng {
    uint64_t state; // the seed
};
uint64_t lf_check_next(struct lf_check_rng *rng);
uint32_t lf_check_below(struct lf_check_rng *rng, uint32_t n); // 0 .. n-1
double lf_check_uniform(struct lf_check_rng *rng);             // [0, 1)
double lf_check_normal(struct lf_check_rng *rng);              // mean 0, deviation 1

// kernel-contract.md 2: the checkpoint's scale, spread exponents, sums near zero, mostly zeros.
enum lf_check_style {
    LF_STYLE_NORMAL,
    LF_STYLE_WIDE,
    LF_STYLE_CANCELLING,
    LF_STYLE_SPARSE,
    LF_STYLES
};
const char *lf_check_style_name(enum lf_check_style style);
// n values of a style times scale, all finite. Cancelling: element i+1 nearly undoes element i.
void lf_check_fill_f32(struct lf_check_rng *rng, enum lf_check_style style, float scale, float *x,
                       size_t n);
void lf_check_fill_bf16(struct lf_check_rng *rng, enum lf_check_style style, float scale,
                        uint16_t *x, size_t n);
// A row no other row may feel: kind 0 NaN, 1 infinities, 2 largest finite, 3 zeros, 4 denormals.
enum { LF_HOSTILE_KINDS = 5 };
void lf_check_fill_hostile(uint32_t kind, uint16_t *x, size_t n);

// Bytes between a guard band and a page that cannot be read, tail guard bytes before that page.
struct lf_check_buffer {
    void *data;
    size_t bytes;
    uint8_t *map;
    size_t map_bytes, tail;
};
struct lf_check_buffer lf_check_open(size_t bytes, size_t tail);
// Fills the data, never the guards.
void lf_check_poison(struct lf_check_buffer *buffer, uint8_t pattern);
// The test fails when a guard byte changed.
void lf_check_guards(const struct lf_check_buffer *buffer, const char *what);
void lf_check_close(struct lf_check_buffer *buffer);

// The test fails, naming the first differing byte, unless the bytes are equal.
void lf_check_same(const char *what, const void *a, const void *b, size_t bytes);

// g(D) = D u / (1 - D u), u = 2^-24 (kernel-contract.md 2).
double lf_check_gamma(double depth);
// |out - ref| <= error + half a bf16 spacing at |ref| + error, NaN refused; the worst ratio.
double lf_check_bound_bf16(const char *what, const uint16_t *out, const double *ref,
                           const double *error, size_t n);
// |out - ref| <= error.
double lf_check_bound_f32(const char *what, const float *out, const double *ref,
                          const double *error, size_t n);

// A pool with a mebibyte of scratch a thread; the test fails when it cannot be opened.
struct lf_pool *lf_check_pool(uint32_t threads);

// The kernels of a set that is present.
const struct lf_kernels *lf_check_kernels(enum lf_isa isa);
