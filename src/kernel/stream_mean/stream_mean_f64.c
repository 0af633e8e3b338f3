#include "kernel/stream_mean/stream_mean.h"

#include "kernel/reference.h"

void lf_stream_mean_f64(const struct lf_stream_mean_args *args, double *out) {
    for (size_t row = 0; row < args->rows; row++)
        for (size_t d = 0; d < args->dim; d++) {
            double sum = 0;
            for (size_t i = 0; i < args->streams; i++)
                sum += lf_ref_bf16(args->x, (row * args->streams + i) * args->dim + d);
            out[row * args->dim + d] = sum / args->streams;
        }
}
