#include "kernel/rms_norm/rms_norm.h"

#include "kernel/reference.h"

// out [rows][dim]
void lf_rms_norm_f64(const struct lf_rms_norm_args *args, double *out) {
    for (uint32_t row = 0; row < args->rows; row++, out += args->dim) {
        for (uint32_t i = 0; i < args->dim; i++)
            out[i] = lf_ref_bf16(args->x + row * args->x_stride, i);
        lf_ref_norm(out, args->dim, args->w, (double)args->eps);
    }
}
