#include "kernel/hc_collapse/hc_collapse.h"

#include "kernel/reference.h"

void lf_hc_collapse_f64(const struct lf_hc_collapse_args *args, double *out) {
    for (size_t row = 0; row < args->rows; row++)
        for (size_t d = 0; d < args->dim; d++) {
            double sum = 0;
            for (size_t i = 0; i < args->streams; i++)
                sum += (double)args->pre[row * args->streams + i] *
                       lf_ref_bf16(args->x, (row * args->streams + i) * args->dim + d);
            out[row * args->dim + d] = sum;
        }
}
