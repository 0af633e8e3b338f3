#include "kernel/rope/rope.h"

#include "kernel/reference.h"

// out [rows][heads][head_dim]
void lf_rope_f64(const struct lf_rope_args *args, double *out) {
    uint32_t still = args->head_dim - args->rope_dim, pairs = args->rope_dim / 2;
    for (uint32_t row = 0; row < args->rows; row++)
        for (uint32_t head = 0; head < args->heads; head++, out += args->head_dim) {
            const uint16_t *x = args->x + row * args->x_stride + (size_t)head * args->head_dim;
            for (uint32_t i = 0; i < still; i++)
                out[i] = lf_ref_bf16(x, i);
            for (uint32_t i = 0; i < pairs; i++) {
                double e = lf_ref_bf16(x, still + 2 * i), o = lf_ref_bf16(x, still + 2 * i + 1);
                double c = (double)args->cos[(size_t)row * pairs + i];
                double s = (double)args->sin[(size_t)row * pairs + i];
                if (args->inverse)
                    s = -s;
                out[still + 2 * i] = e * c - o * s;
                out[still + 2 * i + 1] = e * s + o * c;
            }
        }
}
