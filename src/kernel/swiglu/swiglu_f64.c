#include "kernel/swiglu/swiglu.h"

#include "kernel/reference.h"

void lf_swiglu_f64(const struct lf_swiglu_args *args, double *out) {
    double limit = (double)args->limit;
    for (size_t row = 0; row < args->rows; row++)
        for (size_t d = 0; d < args->dim; d++) {
            double g = lf_ref_bf16(args->gate, row * args->dim + d);
            double u = lf_ref_bf16(args->up, row * args->dim + d);
            if (g > limit)
                g = limit;
            if (fabs(u) > limit)
                u = copysign(limit, u);
            double h = g / (1.0 + exp(-g)) * u;
            out[row * args->dim + d] = row < args->weighted ? h * (double)args->weight[row] : h;
        }
}
