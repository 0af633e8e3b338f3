#include "kernel/linear/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
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

// What each code and each scale byte stands for.
struct codes {
    double value[256], scale[256];
};

static void codes_fill(struct codes *codes, enum lf_weight_format format) {
    for (int i = 0; i < 256; i++) {
        codes->value[i] = format == LF_WEIGHT_FP8 ? lf_ref_e4m3((uint8_t)i)
                                                  : lf_ref_e2m1((uint8_t)(i & 15));
        codes->scale[i] = lf_ref_ue8m0((uint8_t)i);
    }
}

static double weight(const struct lf_matrix *m, const struct codes *codes, size_t o, size_t k) {
    size_t at = o * m->in + k, blocks = m->in / 32;
    switch (m->format) {
    case LF_WEIGHT_BF16:
        return lf_ref_bf16(m->data, at);
    case LF_WEIGHT_F16:
        return f16(m->data, at);
    case LF_WEIGHT_F32:
        return lf_ref_f32(m->data, at);
    case LF_WEIGHT_FP8:
        return codes->value[m->data[at]] * codes->scale[m->scale[o / 32 * blocks + k / 32]];
    case LF_WEIGHT_MXFP4:
        return codes->value[m->data[at / 2] >> (at % 2 * 4) & 15] *
               codes->scale[m->scale[o * blocks + k / 32]];
    }
    return (double)NAN;
}

void lf_linear_f64_job(const struct lf_linear_job *job, uint32_t first, uint32_t end, double *out,
                       double *magnitude) {
    size_t outputs = job->w->out;
    struct codes codes;
    codes_fill(&codes, job->w->format);
    for (uint32_t o = first; o < end; o++) {
        for (uint32_t r = 0; r < job->rows; r++)
            out[r * outputs + o] = magnitude[r * outputs + o] = 0.0;
        // A weight is read once for all rows; each row's sum ascends.
        for (uint32_t k = 0; k < job->w->in; k++) {
            double value = weight(job->w, &codes, o, k);
            for (uint32_t r = 0; r < job->rows; r++) {
                size_t row = job->x_index ? job->x_index[r] : r;
                double product = value * lf_ref_bf16(job->x + row * job->x_stride, k);
                out[r * outputs + o] += product;
                magnitude[r * outputs + o] += fabs(product);
            }
        }
    }
}

void lf_linear_f64_sums(const struct lf_linear_args *args, double *out, double *magnitude) {
    struct lf_linear_args known = lf_linear_known(args);
    for (uint32_t j = 0; j < known.n_jobs; j++) {
        size_t n = (size_t)known.job[j].rows * known.job[j].w->out;
        lf_linear_f64_job(&known.job[j], 0, known.job[j].w->out, out, magnitude);
        out += n;
        magnitude += n;
    }
}

void lf_linear_f64(const struct lf_linear_args *args, double *out) {
    struct lf_linear_args known = lf_linear_known(args);
    size_t n = 1;
    for (uint32_t j = 0; j < known.n_jobs; j++)
        n += (size_t)known.job[j].rows * known.job[j].w->out;
    double *magnitude = malloc(n * sizeof *magnitude);
    LF_ASSERT(magnitude);
    lf_linear_f64_sums(args, out, magnitude);
    free(magnitude);
}

double lf_linear_f64_depth(const struct lf_matrix *w) {
    static const double elements[LF_WEIGHT_FORMATS] = {2, 2, 1, 4, 8};
    double words = ceil(w->in / elements[w->format] / 16);
    return w->format == LF_WEIGHT_MXFP4 ? words + 1 + 4 : words * elements[w->format] + 4;
}
