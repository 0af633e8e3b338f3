#include "wrong_cuda.h"

#include <stdlib.h>
#include "kernel/launch.cuh"

enum { THREADS = 64 };

__global__ static void do_nothing(struct lf_rms_norm_args) {}

void lf_wrong_rows_y(struct lf_device *device, const struct lf_rms_norm_args *args) {
    lf_cuda_launch(device, "wrong", do_nothing, dim3(1, 16 * args->rows), THREADS, *args);
}

void lf_wrong_planes(struct lf_device *device, const struct lf_rms_norm_args *args) {
    lf_cuda_launch(device, "wrong", do_nothing, dim3(1, 1, 65536), THREADS, *args);
}

void lf_wrong_threads(struct lf_device *device, const struct lf_rms_norm_args *args) {
    lf_cuda_launch(device, "wrong", do_nothing, dim3(1), 2048, *args);
}

void lf_wrong_shared(struct lf_device *device, const struct lf_rms_norm_args *args) {
    lf_cuda_launch(device, "wrong", do_nothing, dim3(1), THREADS, *args, (227 << 10) + 1);
}

void lf_wrong_end(struct lf_device *, const struct lf_rms_norm_args *) {
    abort();
}
