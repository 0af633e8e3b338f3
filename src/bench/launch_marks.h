// Times of launches one by one: a mark between each and the next, while the device is behind.
#pragma once
#include "bench/kernel_times.h"
#include "device/cuda.h"

struct lf_launch_marks {
    struct lf_device *device;
    double empty_s;                              // between two marks with nothing between
    struct lf_kernel_time *time[LF_CUDA_MARKS];  // of the call before mark i + 1
    int n;                                       // calls since the device was last held
    struct lf_error failure;                     // the first of a flush
};

// Measures what marks cost; LF_E_DEVICE as a wait.
LF_CHECKED enum lf_status lf_launch_marks_open(struct lf_launch_marks *marks,
                                               struct lf_device *device, struct lf_error *err);
// Around a call; its time is added to *time when as many are queued as there are marks, or flushed.
void lf_launch_marks_before(struct lf_launch_marks *marks);
void lf_launch_marks_after(struct lf_launch_marks *marks, struct lf_kernel_time *time);
// Waits for them.
void lf_launch_marks_flush(struct lf_launch_marks *marks);
