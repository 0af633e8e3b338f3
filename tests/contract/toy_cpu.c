// The toy kernel with a fault of every class; each is a module of its own.
#include "toy.h"
#include <math.h>
#include <stdlib.h>
#include "kernel/settle.h"

#ifndef LF_FAULT
#define LF_FAULT 0
#endif

void lf_toy_portable(struct lf_device *device, const struct lf_toy_args *a) {
    (void)device;
    for (uint32_t row = 0; row < a->rows; row++)
        for (uint32_t i = 0; i < a->pairs; i++) {
            const float *x = a->x + ((size_t)row * a->pairs + i) * 2, *w = a->w + 2 * (size_t)i;
            uint16_t *y = a->y + (size_t)row * a->pairs + i;
            float sum = x[0] * w[0] + x[1] * w[1];
#if LF_FAULT == 1
            sum = x[0] * w[0]; // 1: a term lost
#elif LF_FAULT == 2
            sum = row == 5 ? 2 * sum : sum; // 2: the row at place 5 doubled
#elif LF_FAULT == 3
            a->y[(size_t)a->rows * a->pairs] = 0; // 3: a write past the end
#elif LF_FAULT == 4
            sum = isnan(sum) ? 0.0f : sum; // 4: a NaN becomes 0
#elif LF_FAULT == 5
            sum = sum + 0.0f; // 5: no fault at all
#elif LF_FAULT == 6
            if (i == 1)
                abort(); // 6: a crash
#elif LF_FAULT == 7
            for (volatile int forever = 1; forever;) // 7: a hang
                continue;
#elif LF_FAULT == 8
            if (i + 1 == a->pairs)
                continue; // 8: the last output left
#elif LF_FAULT == 9
            ((float *)(uintptr_t)x)[0] = 0; // 9: an input changed
#elif LF_FAULT == 10
            ((float *)(uintptr_t)w)[0] = 1; // 10: a weight changed
#elif LF_FAULT == 11
            sum = sum * (1.0f + 0x1p-8f); // 11: one spacing too much
#endif
            *y = lf_bf16_settle(sum);
        }
}
