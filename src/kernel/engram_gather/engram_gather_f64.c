#include "kernel/engram_gather/engram_gather.h"

#include "kernel/reference.h"

void lf_engram_gather_f64(const struct lf_engram_gather_args *args, double *out) {
    size_t dim = args->dim;
    for (size_t i = 0; i < (size_t)args->rows * args->columns; i++)
        for (size_t j = 0; j < dim; j++)
            out[i * dim + j] = lf_ref_e4m3(args->value[args->number[i] * dim + j]) *
                               lf_ref_ue8m0(args->scale[(args->number[i] * dim + j) / 32]);
}
