#include "kernel/act_quant/act_quant.h"

#include <math.h>
#include <string.h>

static double bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

// The nearest of the ascending magnitudes, ties to the even code; past the last one, the last.
static double nearest(double v, const double *magnitude, int codes) {
    int best = 0;
    for (int c = 1; c < codes; c++) {
        double closer = fabs(fabs(v) - magnitude[c]) - fabs(fabs(v) - magnitude[best]);
        if (closer < 0.0 || (closer == 0.0 && c % 2 == 0))
            best = c;
    }
    return copysign(magnitude[best], v);
}

// out [rows][dim]: value times scale; NaN for a group that is not finite.
void lf_act_quant_f64(const struct lf_act_quant_args *args, double *out) {
    double e4m3[127], e2m1[8];
    for (int c = 0; c < 127; c++)
        e4m3[c] = c < 8 ? ldexp(c, -9) : ldexp(8 + c % 8, c / 8 - 10);
    for (int c = 0; c < 8; c++)
        e2m1[c] = c < 2 ? 0.5 * c : ldexp(2 + c % 2, c / 2 - 2);
    int qa8 = args->format == LF_ACT_QA8;
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t g = 0; g < args->dim; g += 32) {
            const uint16_t *x = args->x + r * args->x_stride + g;
            double most = qa8 ? (double)1e-4f : ldexp(6.0, -126), sum = 0.0;
            for (int i = 0; i < 32; i++) {
                most = fmax(most, fabs(bf16(x[i])));
                sum += bf16(x[i]);
            }
            int k = 0;
            while (isfinite(sum) && ldexp(qa8 ? 448.0 : 6.0, k) < most)
                k++;
            while (isfinite(sum) && ldexp(qa8 ? 448.0 : 6.0, k - 1) >= most)
                k--;
            for (int i = 0; i < 32; i++) {
                double v = ldexp(bf16(x[i]), -k);
                double code = qa8 ? nearest(v, e4m3, 127) : nearest(v, e2m1, 8);
                *out++ = isfinite(sum) ? ldexp(code, k) : (double)NAN;
            }
        }
}
