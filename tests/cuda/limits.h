// What linear maps are held against: memory read and nothing else, products and nothing else.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads all of it; to: [4] words that are written where what is read is a certain number.
void check_limit_read(struct lf_device *device, const void *from, size_t bytes, uint32_t *to);

// Products of as many warpgroups as the device runs at once; numbers: bf16, at least 16 KiB.
void check_limit_products(struct lf_device *device, const void *numbers, uint32_t steps, float *to);
// Multiplications and additions of such a launch.
double check_limit_operations(struct lf_device *device, uint32_t steps);

#ifdef __cplusplus
}
#endif
