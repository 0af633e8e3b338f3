// Kernel tests: seeded operands, guarded buffers, bounds against float64, bytes against bytes.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "contract/check.h"
#include "device/device.h"
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

// CPU threads with a mebibyte of scratch each; the test fails when they cannot be opened.
struct lf_device *lf_check_device(uint32_t threads);
void lf_check_device_close(struct lf_device *device);

// The kernels of a set that is present.
const struct lf_kernels *lf_check_kernels(enum lf_isa isa);
