#include "kernel/hc_collapse/hc_collapse.h"

#include "kernel/reference.h"

// What the norm reads is rounded twice, in the contract's order: without that nothing is near it.
static double collapsed(const struct lf_hc_collapse_args *args, size_t row, size_t d) {
    float sum = 0.0f;
    for (size_t i = 0; i < args->streams; i++) {
        float x = (float)lf_ref_bf16(args->x, (row * args->streams + i) * args->dim + d);
        float pre = args->pre[row * args->streams + i];
        sum = i ? fmaf(pre, x, sum) : pre * x;
    }
    return (double)lf_ref_round_bf16(sum);
}

static double exact(const struct lf_hc_collapse_args *args, size_t row, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < args->streams; i++)
        sum += (double)args->pre[row * args->streams + i] *
               lf_ref_bf16(args->x, (row * args->streams + i) * args->dim + d);
    return sum;
}

static void norm(const struct lf_hc_collapse_args *args, size_t row, double *out) {
    for (size_t d = 0; d < args->dim; d++)
        out[d] = collapsed(args, row, d);
    lf_ref_norm(out, args->dim, args->norm, (double)args->eps);
}

// out [rows][dim]
void lf_hc_collapse_f64(const struct lf_hc_collapse_args *args, double *out) {
    for (size_t row = 0; row < args->rows; row++)
        if (args->norm)
            norm(args, row, out + row * args->dim);
        else
            for (size_t d = 0; d < args->dim; d++)
                out[row * args->dim + d] = exact(args, row, d);
}
