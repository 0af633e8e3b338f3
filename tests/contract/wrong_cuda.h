// Wrappers of CUDA launches that a device could not make.
#pragma once
#include "kernel/rms_norm/rms_norm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void lf_wrong_wrapper(struct lf_device *device, const struct lf_rms_norm_args *args);
lf_wrong_wrapper lf_wrong_rows_y; // 16 blocks a row in the grid's second dimension
lf_wrong_wrapper lf_wrong_planes, lf_wrong_threads, lf_wrong_shared;
lf_wrong_wrapper lf_wrong_end; // ends the process

#ifdef __cplusplus
}
#endif
