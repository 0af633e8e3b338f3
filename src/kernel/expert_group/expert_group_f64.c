#include "kernel/expert_group/expert_group.h"

// out: first, then pair_row, pair_weight and pair_of, each found by a search for the next pair.
void lf_expert_group_f64(const struct lf_expert_group_args *args, double *out) {
    uint32_t choices = args->rows * args->top, pair = 0;
    double *row = out + args->experts + 1, *weight = row + choices, *of = weight + choices;
    for (uint32_t e = 0; e < args->experts; e++) {
        *out++ = pair;
        for (uint32_t i = 0; i < choices; i++)
            if (args->id[i] == e) {
                row[pair] = i / args->top;
                weight[pair] = (double)args->weight[i];
                of[i] = pair++;
            }
    }
    *out = pair;
}
