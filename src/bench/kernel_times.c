#include "bench/kernel_times.h"

#include "bench/launch_marks.h"
#include "bench/probe.h"

// Kernels are called without a context: the times that the present calls belong to.
static struct lf_kernel_times *active;

static const char *const names[LF_TIMED_KERNELS] = {
#define LF_KERNEL(name) #name,
#include "kernel/registry.def"
#undef LF_KERNEL
};

const char *lf_timed_name(uint32_t kernel) {
    return names[kernel];
}

static double begin(void) {
    if (active->marks)
        lf_launch_marks_before(active->marks);
    return active->marks ? 0 : lf_probe_seconds(active->wall, active->pool);
}

static void end(uint32_t kernel, double began, const void *args) {
    struct lf_kernel_time *time = &active->kernel[kernel];
    time->calls++;
    if (active->marks) {
        lf_launch_marks_after(active->marks, time);
        return;
    }
    time->seconds += lf_probe_seconds(active->wall, active->pool) - began;
    lf_kernel_cost_add(time, kernel, args, active->memory);
}

#define LF_KERNEL(name)                                                                            \
    static void timed_##name(struct lf_device *device, const struct lf_##name##_args *args) {      \
        double began = begin();                                                                    \
        active->plain.name(device, args);                                                          \
        end(LF_TIMED_##name, began, args);                                                         \
    }
#include "kernel/registry.def"
#undef LF_KERNEL

void lf_kernel_times_begin(struct lf_kernel_times *times, struct lf_kernels *table) {
    times->table = table;
    times->plain = *table;
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++)
        times->kernel[i] = (struct lf_kernel_time){0};
    active = times;
#define LF_KERNEL(name) table->name = timed_##name;
#include "kernel/registry.def"
#undef LF_KERNEL
}

void lf_kernel_times_end(struct lf_kernel_times *times) {
    if (times->marks)
        lf_launch_marks_flush(times->marks);
    *times->table = times->plain;
    active = NULL;
}
