// What every kernel header ends with: LF_DECLARE_KERNEL(rms_norm) declares that kernel's functions.
#pragma once

struct lf_pool;

// NAME_cpu.c defines LF_KERNEL_NAME(lf_NAME), once an instruction set; NAME_f64.c the reference.
#define LF_DECLARE_KERNEL(name)                                                                    \
    void lf_##name##_portable(struct lf_pool *pool, const struct lf_##name##_args *args);          \
    void lf_##name##_avx2(struct lf_pool *pool, const struct lf_##name##_args *args);              \
    void lf_##name##_avx512(struct lf_pool *pool, const struct lf_##name##_args *args);            \
    void lf_##name##_neon(struct lf_pool *pool, const struct lf_##name##_args *args);              \
    void lf_##name##_f64(const struct lf_##name##_args *args, double *out)
