#include "kernel/linear/linear.h"

#include <math.h>
#include <string.h>
#include "kernel/linear/linear_groups.h"
#include "kernel/reference.h"

static double f16(const uint8_t *data, size_t i) {
    uint16_t x;
    memcpy(&x, data + 2 * i, sizeof x);
    int exponent = x >> 10 & 31, mantissa = x & 1023;
    double magnitude = ldexp(exponent ? 1024 + mantissa : mantissa, (exponent ? exponent : 1) - 25);
    if (exponent == 31)
        magnitude = mantissa ? (double)NAN : (double)INFINITY;
    return x >> 15 ? -magnitude : magnitude;
}

static double weight(const struct lf_matrix *m, size_t o, size_t k) {
    size_t at = o * m->in + k, blocks = m->in / 32;
    switch (m->format) {
    case LF_WEIGHT_BF16:
        return lf_ref_bf16(m->data, at);
    case LF_WEIGHT_F16:
        return f16(m->data, at);
    case LF_WEIGHT_F32:
        return lf_ref_f32(m->data, at);
    case LF_WEIGHT_FP8:
        return lf_ref_e4m3(m->data[at]) * lf_ref_ue8m0(m->scale[o / 32 * blocks + k / 32]);
    case LF_WEIGHT_MXFP4:
        return lf_ref_e2m1(m->data[at / 2] >> (at % 2 * 4) & 15) *
               lf_ref_ue8m0(m->scale[o * blocks + k / 32]);
    }
    return (double)NAN;
}

void lf_linear_f64_sums(const struct lf_linear_args *args, double *out, double *magnitude) {
    struct lf_linear_args known = lf_linear_known(args);
    for (uint32_t j = 0; j < known.n_jobs; j++) {
        const struct lf_linear_job *job = &known.job[j];
        for (uint32_t r = 0; r < job->rows; r++) {
            const uint16_t *x = job->x + (job->x_index ? job->x_index[r] : r) * job->x_stride;
            for (uint32_t o = 0; o < job->w->out; o++) {
                double sum = 0.0, absolute = 0.0;
                for (uint32_t k = 0; k < job->w->in; k++) {
                    double product = weight(job->w, o, k) * lf_ref_bf16(x, k);
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

double lf_linear_f64_depth(const struct lf_matrix *w) {
    static const double elements[LF_WEIGHT_FORMATS] = {2, 2, 1, 4, 8};
    double words = ceil(w->in / elements[w->format] / 16);
    return w->format == LF_WEIGHT_MXFP4 ? words + 1 + 4 : words * elements[w->format] + 4;
}
