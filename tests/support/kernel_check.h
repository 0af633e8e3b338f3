// Kernel tests: seeded operands, guarded buffers, bounds against float64, bytes against bytes.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "contract/check.h"
#include "device/pool.h"
#include "kernel/table.h"

// The test fails when a guard byte changed.
void lf_check_guards(const struct lf_check_buffer *buffer, const char *what);
// The test fails, naming the first differing byte, unless the bytes are equal.
void lf_check_same(const char *what, const void *a, const void *b, size_t bytes);

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
