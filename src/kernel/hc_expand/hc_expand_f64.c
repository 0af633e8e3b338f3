#include "kernel/hc_expand/hc_expand.h"

#include "kernel/reference.h"

// What the streams take of experts is rounded to bf16 once, after float32 adds in their order.
double lf_hc_expand_taken(const struct lf_hc_expand_args *args, size_t row, size_t d) {
    size_t dim = args->dim;
    float sum = 0.0f;
    if (!args->pair)
        return lf_ref_bf16(args->b, row * dim + d);
    for (size_t k = 0; k < args->top; k++)
        sum += (float)lf_ref_bf16(args->expert, args->pair[row * args->top + k] * dim + d);
    if (args->shared)
        sum += (float)lf_ref_bf16(args->shared, row * dim + d);
    return (double)lf_ref_round_bf16(sum);
}

static double exact(const struct lf_hc_expand_args *args, size_t row, size_t j, size_t d) {
    size_t s = args->streams, dim = args->dim;
    double sum = (double)args->post[row * s + j] * lf_hc_expand_taken(args, row, d);
    for (size_t i = 0; i < s; i++)
        sum += (double)args->comb[(row * s + i) * s + j] *
               lf_ref_bf16(args->x, (row * s + i) * dim + d);
    return sum;
}

// What the norm reads is rounded three times, in the contract's order.
static double collapsed(const struct lf_hc_expand_args *args, size_t row, size_t d) {
    size_t s = args->streams, dim = args->dim;
    float all = 0.0f, b = (float)lf_hc_expand_taken(args, row, d);
    for (size_t j = 0; j < s; j++) {
        float sum = args->post[row * s + j] * b;
        for (size_t i = 0; i < s; i++)
            sum = fmaf(args->comb[(row * s + i) * s + j],
                       (float)lf_ref_bf16(args->x, (row * s + i) * dim + d), sum);
        float pre = args->pre[row * s + j];
        float y = lf_ref_round_bf16(sum);
        all = j ? fmaf(pre, y, all) : pre * y;
    }
    return (double)lf_ref_round_bf16(all);
}

static void norm(const struct lf_hc_expand_args *args, size_t row, double *out) {
    for (size_t d = 0; d < args->dim; d++)
        out[d] = collapsed(args, row, d);
    lf_ref_norm(out, args->dim, args->norm, (double)args->eps);
}

// Of a row [streams][dim] from the streams as they are before the kernel runs, then the norm's dim.
void lf_hc_expand_f64(const struct lf_hc_expand_args *args, double *out) {
    size_t s = args->streams, dim = args->dim;
    for (size_t row = 0; row < args->rows; row++, out += s * dim) {
        for (size_t j = 0; j < s; j++)
            for (size_t d = 0; d < dim; d++)
                out[j * dim + d] = exact(args, row, j, d);
        if (args->pre) {
            norm(args, row, out + s * dim);
            out += dim;
        }
    }
}
