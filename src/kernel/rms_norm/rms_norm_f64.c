#include "kernel/rms_norm/rms_norm.h"

#include <math.h>
#include "kernel/reference.h"

// out [rows][dim]
void lf_rms_norm_f64(const struct lf_rms_norm_args *args, double *out) {
    for (uint32_t row = 0; row < args->rows; row++) {
        const uint16_t *x = args->x + row * args->x_stride;
        double squares = 0.0;
        for (uint32_t i = 0; i < args->dim; i++)
            squares += lf_ref_bf16(x, i) * lf_ref_bf16(x, i);
        double root = sqrt(squares / (double)args->dim + (double)args->eps);
        for (uint32_t i = 0; i < args->dim; i++)
            *out++ = lf_ref_bf16(args->w, i) * lf_ref_bf16(x, i) / root;
    }
}
