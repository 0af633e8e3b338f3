#include "kernel/expert_join/expert_join.h"

#include "kernel/reference.h"

void lf_expert_join_f64(const struct lf_expert_join_args *args, double *out) {
    for (size_t row = 0; row < args->rows; row++)
        for (size_t d = 0; d < args->dim; d++) {
            double sum = args->shared ? lf_ref_bf16(args->shared, row * args->dim + d) : 0;
            for (size_t k = 0; k < args->top; k++) {
                size_t pair = args->pair[row * args->top + k];
                sum += lf_ref_bf16(args->expert, pair * args->dim + d);
            }
            out[row * args->dim + d] = sum;
        }
}
