#include "kernel/act_quant/act_quant.h"

#include "kernel/reference.h"

enum { GROUP = 32 };

// out [rows][dim]: value times scale; NaN for a group that is not finite.
void lf_act_quant_f64(const struct lf_act_quant_args *args, double *out) {
    int qa8 = args->format == LF_ACT_QA8;
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t g = 0; g < args->dim; g += GROUP) {
            const uint16_t *x = args->x + r * args->x_stride + g;
            double most = qa8 ? (double)1e-4f : ldexp(6.0, -126), sum = 0.0;
            for (size_t i = 0; i < GROUP; i++) {
                most = fmax(most, fabs(lf_ref_bf16(x, i)));
                sum += lf_ref_bf16(x, i);
            }
            int k = isfinite(sum) ? lf_ref_scale_power(most, qa8 ? 448.0 : 6.0) : 0;
            for (size_t i = 0; i < GROUP; i++) {
                double v = ldexp(lf_ref_bf16(x, i), -k);
                double code = qa8 ? lf_ref_e4m3(lf_ref_nearest(v, lf_ref_e4m3, 127))
                                  : lf_ref_e2m1(lf_ref_nearest(v, lf_ref_e2m1, 8));
                *out++ = isfinite(sum) ? ldexp(copysign(code, v), k) : (double)NAN;
            }
        }
}
