// What every kernel header ends with: LF_DECLARE_KERNEL(rms_norm) declares that kernel's functions.
#pragma once
#include "device/device.h"

#ifdef __cplusplus
#define LF_KERNEL_C extern "C"
#else
#define LF_KERNEL_C
#endif

// NAME_cpu.c: LF_KERNEL_NAME(lf_NAME), once an instruction set; NAME_cuda.cu; NAME_f64.c.
#define LF_DECLARE_KERNEL(name)                                                                    \
    void lf_##name##_portable(struct lf_device *device, const struct lf_##name##_args *args);      \
    void lf_##name##_avx2(struct lf_device *device, const struct lf_##name##_args *args);          \
    void lf_##name##_avx512(struct lf_device *device, const struct lf_##name##_args *args);        \
    void lf_##name##_neon(struct lf_device *device, const struct lf_##name##_args *args);          \
    LF_KERNEL_C                                                                                    \
    void lf_##name##_cuda(struct lf_device *device, const struct lf_##name##_args *args);          \
    void lf_##name##_f64(const struct lf_##name##_args *args, double *out)
