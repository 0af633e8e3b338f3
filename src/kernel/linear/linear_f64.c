#include "kernel/linear/linear.h"

#include <math.h>
#include <string.h>

static double bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double f16(uint16_t x) {
    int exponent = x >> 10 & 31, mantissa = x & 1023;
    double magnitude = ldexp(exponent ? 1024 + mantissa : mantissa, (exponent ? exponent : 1) - 25);
    if (exponent == 31)
        magnitude = mantissa ? (double)NAN : (double)INFINITY;
    return x >> 15 ? -magnitude : magnitude;
}

static double e4m3(uint8_t x) {
    int exponent = x >> 3 & 15, mantissa = x & 7;
    double magnitude = ldexp(exponent ? 8 + mantissa : mantissa, (exponent ? exponent : 1) - 10);
    if ((x & 0x7F) == 0x7F)
        magnitude = (double)NAN;
    return x >> 7 ? -magnitude : magnitude;
}

static double e2m1(uint8_t x) {
    int exponent = x >> 1 & 3, mantissa = x & 1;
    double magnitude = ldexp(exponent ? 2 + mantissa : mantissa, (exponent ? exponent : 1) - 2);
    return x >> 3 & 1 ? -magnitude : magnitude;
}

static double ue8m0(uint8_t x) {
    return x == 255 ? (double)NAN : ldexp(1.0, (int)x - 127);
}

static double weight(const struct lf_matrix *m, size_t o, size_t k) {
    size_t at = o * m->in + k, blocks = m->in / 32;
    uint16_t half;
    float word;
    switch (m->format) {
    case LF_WEIGHT_BF16:
        memcpy(&half, m->data + 2 * at, 2);
        return bf16(half);
    case LF_WEIGHT_F16:
        memcpy(&half, m->data + 2 * at, 2);
        return f16(half);
    case LF_WEIGHT_F32:
        memcpy(&word, m->data + 4 * at, 4);
        return (double)word;
    case LF_WEIGHT_FP8:
        return e4m3(m->data[at]) * ue8m0(m->scale[o / 32 * blocks + k / 32]);
    case LF_WEIGHT_MXFP4:
        return e2m1(m->data[at / 2] >> (at % 2 * 4) & 15) * ue8m0(m->scale[o * blocks + k / 32]);
    }
    return (double)NAN;
}

void lf_linear_f64_sums(const struct lf_linear_args *args, double *out, double *magnitude) {
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_linear_job *job = &args->job[j];
        for (uint32_t r = 0; r < job->rows; r++) {
            const uint16_t *x = job->x + (job->x_index ? job->x_index[r] : r) * job->x_stride;
            for (uint32_t o = 0; o < job->w->out; o++) {
                double sum = 0.0, absolute = 0.0;
                for (uint32_t k = 0; k < job->w->in; k++) {
                    double product = weight(job->w, o, k) * bf16(x[k]);
                    sum += product;
                    absolute += fabs(product);
                }
                *out++ = sum;
                if (magnitude)
                    *magnitude++ = absolute;
            }
        }
    }
}

void lf_linear_f64(const struct lf_linear_args *args, double *out) {
    lf_linear_f64_sums(args, out, NULL);
}
