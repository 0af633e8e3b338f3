// What kernels of a CUDA device are held against: plain reads, plain products; and a pause of it.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads all of it; to: 4 bytes that are written where what is read comes to a certain number.
void lf_limit_read(struct lf_device *device, const void *from, size_t bytes, uint32_t *to);

enum { LF_LIMIT_NUMBERS = 4096 };
// On all warpgroups; numbers: bf16 [LF_LIMIT_NUMBERS]; steps a multiple of 4; to: _bytes, written.
void lf_limit_products(struct lf_device *device, const void *numbers, uint32_t steps, float *to);
size_t lf_limit_products_bytes(struct lf_device *device);
// Multiplications and additions of such a launch.
double lf_limit_operations(struct lf_device *device, uint32_t steps);

// Nothing, for so long: what is queued meanwhile runs back to back.
void lf_limit_hold(struct lf_device *device, uint32_t us);

#ifdef __cplusplus
}
#endif
