#include "kernel/row_gather/row_gather.h"

// out: the rows of the jobs' y one after the other, a byte a double.
void lf_row_gather_f64(const struct lf_row_gather_args *args, double *out) {
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_row_gather_job *job = &args->job[j];
        const uint8_t *x = job->x;
        for (uint32_t r = 0; r < job->rows; r++) {
            uint32_t row = job->index ? job->index[r] : r;
            for (size_t i = 0; i < job->row_bytes; i++)
                *out++ = x[row * job->x_pitch + i];
        }
    }
}
