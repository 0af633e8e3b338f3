#include "kernel/hc_expand/hc_expand.h"

#include "kernel/reference.h"

// out [rows][streams][dim] from the streams as they are before the kernel runs.
void lf_hc_expand_f64(const struct lf_hc_expand_args *args, double *out) {
    size_t s = args->streams, dim = args->dim;
    for (size_t row = 0; row < args->rows; row++)
        for (size_t j = 0; j < s; j++)
            for (size_t d = 0; d < dim; d++) {
                double sum = (double)args->post[row * s + j] * lf_ref_bf16(args->b, row * dim + d);
                for (size_t i = 0; i < s; i++)
                    sum += (double)args->comb[(row * s + i) * s + j] *
                           lf_ref_bf16(args->x, (row * s + i) * dim + d);
                out[(row * s + j) * dim + d] = sum;
            }
}
