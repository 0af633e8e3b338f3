#include "kernel/draft_join/draft_join.h"

#include "kernel/reference.h"

// out [rows][vocab], of the logits before the kernel changes them
void lf_draft_join_f64(const struct lf_draft_join_args *args, double *out) {
    for (size_t row = 0; row < args->rows; row++)
        for (size_t i = 0; i < args->vocab; i++)
            out[row * args->vocab + i] =
                lf_ref_f32(args->logits, row * args->logits_stride + i) +
                lf_ref_f32(args->bias, row * args->vocab + i);
}
