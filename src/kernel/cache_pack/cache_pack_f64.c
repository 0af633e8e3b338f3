#include "kernel/cache_pack/cache_pack.h"

#include <math.h>
#include <string.h>

static double bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double e4m3_magnitude(int code) {
    return code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
}

static double e2m1_magnitude(int code) {
    return code < 2 ? 0.5 * code : ldexp(2 + code % 2, code / 2 - 2);
}

// The nearest of the first codes magnitudes, ties to the even code.
static double nearest(double v, double (*magnitude)(int), int codes) {
    int best = 0;
    for (int c = 1; c < codes; c++) {
        double closer = fabs(fabs(v) - magnitude(c)) - fabs(fabs(v) - magnitude(best));
        if (closer < 0.0 || (closer == 0.0 && c % 2 == 0))
            best = c;
    }
    return copysign(magnitude(best), v);
}

static double power_above(double most, double limit) {
    int k = 0;
    while (ldexp(limit, k) < most)
        k++;
    while (ldexp(limit, k - 1) >= most)
        k--;
    return ldexp(1.0, k);
}

// out [rows][dim]: what the packed row means, for finite x.
void lf_cache_pack_f64(const struct lf_cache_pack_args *args, double *out) {
    enum lf_cache_format format = args->format;
    uint32_t group = format == LF_CACHE_QF4S ? 16 : 32;
    double least = format == LF_CACHE_QA8    ? (double)1e-4f
                   : format == LF_CACHE_QF4S ? ldexp(6.0, -9)
                                             : ldexp(6.0, -126);
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t g = 0; g < args->dim; g += group) {
            const uint16_t *x = args->x + (size_t)r * args->dim + g;
            double most = least, scale;
            for (uint32_t i = 0; i < group; i++)
                most = fmax(most, fabs(bf16(x[i])));
            if (format == LF_CACHE_QF4S)
                scale = nearest((double)((float)most / 6.0f), e4m3_magnitude, 127);
            else
                scale = power_above(most, format == LF_CACHE_QA8 ? 448.0 : 6.0);
            for (uint32_t i = 0; i < group; i++) {
                double v = (double)(float)(bf16(x[i]) / scale);
                *out++ = scale * (format == LF_CACHE_QA8 ? nearest(v, e4m3_magnitude, 127)
                                                         : nearest(v, e2m1_magnitude, 8));
            }
        }
}
