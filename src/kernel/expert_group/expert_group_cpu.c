#include "kernel/expert_group/expert_group.h"

#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"

static void count(const struct lf_expert_group_args *a, uint32_t choices) {
    memset(a->first, 0, sizeof *a->first * (a->experts + 1));
    for (uint32_t i = 0; i < choices; i++) {
        LF_ASSERT(a->id[i] < a->experts);
        a->first[a->id[i] + 1]++;
    }
    for (uint32_t e = 0; e < a->experts; e++)
        a->first[e + 1] += a->first[e];
}

static void place(const struct lf_expert_group_args *a, uint32_t i) {
    uint32_t pair = a->first[a->id[i]]++;
#if LF_FAULT == 2
    a->pair_weight[i] = a->weight[i]; // 2: weights not sorted with their pairs
#else
    a->pair_weight[pair] = a->weight[i];
#endif
    a->pair_row[pair] = i / a->top;
    a->pair_of[i] = pair;
#if LF_FAULT == 3
    a->pair_row[pair] = i % a->top; // 3: the place among a row's choices for the row
#endif
}

static void group(void *ctx, uint32_t task, uint32_t worker) {
    const struct lf_expert_group_args *a = ctx;
    uint32_t choices = a->rows * a->top;
    (void)task;
    (void)worker;
    count(a, choices);
#if LF_FAULT == 1
    for (uint32_t i = choices; i-- > 0;) // 1: an expert's rows in descending order
#else
    for (uint32_t i = 0; i < choices; i++)
#endif
        place(a, i);
    // Filling moved every start to the next expert's: shift them back.
    memmove(a->first + 1, a->first, sizeof *a->first * a->experts);
#if LF_FAULT != 4
    a->first[0] = 0; // 4: the first expert starts where it ends
#endif
#if LF_FAULT == 5
    a->first[a->experts + 1] = 0; // 5: a write past the starts
#elif LF_FAULT == 6
    a->pair_of[choices - 1] = choices > 900 ? 0 : a->pair_of[choices - 1]; // 6: in long launches
#endif
}

// One task: a scan over ids costs less than what it would take to join parts of one.
void LF_KERNEL_NAME(lf_expert_group)(struct lf_device *device,
                                     const struct lf_expert_group_args *args) {
    lf_pool_run(device->pool, args->rows > 0, group, (void *)args);
}
