#include "kernel/rms_norm/rms_norm.h"

#include <math.h>
#include <string.h>

static double widen(uint16_t bf16) {
    uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

// out [rows][dim]
void lf_rms_norm_f64(const struct lf_rms_norm_args *args, double *out) {
    for (uint32_t row = 0; row < args->rows; row++) {
        const uint16_t *x = args->x + row * args->x_stride;
        double squares = 0.0;
        for (uint32_t i = 0; i < args->dim; i++)
            squares += widen(x[i]) * widen(x[i]);
        double root = sqrt(squares / (double)args->dim + (double)args->eps);
        for (uint32_t i = 0; i < args->dim; i++)
            *out++ = widen(args->w[i]) * widen(x[i]) / root;
    }
}
