// A kernel for the contract tool's own tests: y = bf(x0 * w0 + x1 * w1), pair by pair.
#pragma once
#include <stdint.h>

struct lf_device;
struct lf_toy_args {
    uint32_t rows, pairs;
    const float *x; // [rows][2*pairs]
    const float *w; // [2*pairs]
    uint16_t *y;    // bf16 [rows][pairs]
};
void lf_toy_portable(struct lf_device *device, const struct lf_toy_args *args);
