#include "kernel/draft_join/draft_join.h"

#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/settle.h"

enum { PART = 8192 };

static uint32_t parts_of(const struct lf_draft_join_args *args) {
    return (args->vocab + PART - 1) / PART;
}

static void join_part(void *ctx, uint32_t item, uint32_t worker) {
    const struct lf_draft_join_args *args = ctx;
    uint32_t parts = parts_of(args), row = item / parts, first = item % parts * PART;
    uint32_t n = args->vocab - first < PART ? args->vocab - first : PART;
    float *restrict logits = args->logits + row * args->logits_stride + first;
    const float *restrict bias = args->bias + (size_t)row * args->vocab + first;
    (void)worker;
#if LF_FAULT == 1
    bias -= row ? args->vocab : 0; // 1: the bias of the neighbour row
#elif LF_FAULT == 2
    n -= first + n == args->vocab; // 2: the last id is left out
#elif LF_FAULT == 5
    if (first + n == args->vocab)
        logits[n] = 0; // 5: a write past the row
#elif LF_FAULT == 6
    n = row == 5 && first + n == args->vocab ? 0 : n; // 6: the last part of a row is left
#endif
    for (uint32_t i = 0; i < n; i++) {
#if LF_FAULT == 3
        logits[i] = lf_f32_settle(logits[i] + lf_bf16_to_f32(lf_bf16_settle(bias[i]))); // 3: bf16
        continue;
#elif LF_FAULT == 4
        logits[i] += bias[i]; // 4: a NaN keeps its own pattern
        continue;
#elif LF_FAULT == 7
        logits[i] = (float)(_Float16)(logits[i] + bias[i]); // 7: the sum in fp16
        continue;
#endif
        logits[i] = lf_f32_settle(logits[i] + bias[i]);
    }
}

void LF_KERNEL_NAME(lf_draft_join)(struct lf_device *device,
                                   const struct lf_draft_join_args *args) {
    struct lf_draft_join_args copy = *args;
    lf_pool_run(device->pool, args->rows * parts_of(args), join_part, &copy);
}
