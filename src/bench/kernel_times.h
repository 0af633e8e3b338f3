// Times of a model's kernel calls: a table whose entries time the ones behind them.
#pragma once
#include <stdbool.h>
#include "kernel/table.h"

enum {
#define LF_KERNEL(name) LF_TIMED_##name,
#include "kernel/registry.def"
#undef LF_KERNEL
    LF_TIMED_KERNELS
};

struct lf_kernel_time {
    uint32_t calls;
    double seconds;
    double operations; // multiplications and additions; 0: what a kernel does is not counted
    double bytes;      // read and written at least once: weights, cache rows, activations
};

struct lf_launch_marks;
struct lf_kernel_times {
    struct lf_kernels *table, plain; // the model's table, and what it held
    bool wall;
    const struct lf_pool *pool; // whose processor time counts, if not the wall's
    struct lf_mem *memory; // where arguments name tables; NULL: the host's
    // Calls only queue: marks around them give their times, and their costs stay uncounted.
    struct lf_launch_marks *marks; // NULL: a call's work is over when it returns
    struct lf_kernel_time kernel[LF_TIMED_KERNELS];
};

const char *lf_timed_name(uint32_t kernel);
// From here on calls through the table add up; until lf_kernel_times_end. One at a time.
void lf_kernel_times_begin(struct lf_kernel_times *times, struct lf_kernels *table);
void lf_kernel_times_end(struct lf_kernel_times *times);
// Adds what one call must compute and move (kernel_cost.c); memory as above.
void lf_kernel_cost_add(struct lf_kernel_time *time, uint32_t kernel, const void *args,
                        struct lf_mem *memory);
