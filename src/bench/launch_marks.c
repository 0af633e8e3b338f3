#include "bench/launch_marks.h"

#include "bench/stats.h"
#include "kernel/limits.h"

// How long the device is held: enough to queue all that lies between two flushes.
enum { HOLD_US = 2500, LAST = LF_CUDA_MARKS - 1 };

enum lf_status lf_launch_marks_open(struct lf_launch_marks *marks, struct lf_device *device,
                                    struct lf_error *err) {
    double between[LAST];
    *marks = (struct lf_launch_marks){.device = device, .failure = LF_ERROR_INIT};
    lf_limit_hold(device, HOLD_US);
    for (int i = 0; i < LF_CUDA_MARKS; i++)
        lf_cuda_mark(device->cuda, i);
    LF_TRY(lf_cuda_wait(device->cuda, err));
    for (int i = 0; i < LAST; i++)
        between[i] = (double)lf_cuda_between_ms(device->cuda, i, i + 1) * 1e-3;
    marks->empty_s = lf_stats_median(between, LAST);
    return LF_OK;
}

void lf_launch_marks_before(struct lf_launch_marks *marks) {
    if (marks->n)
        return;
    lf_limit_hold(marks->device, HOLD_US);
    lf_cuda_mark(marks->device->cuda, 0);
}

void lf_launch_marks_after(struct lf_launch_marks *marks, struct lf_kernel_time *time) {
    marks->time[marks->n++] = time;
    lf_cuda_mark(marks->device->cuda, marks->n);
    if (marks->n == LAST)
        lf_launch_marks_flush(marks);
}

void lf_launch_marks_flush(struct lf_launch_marks *marks) {
    struct lf_cuda *cuda = marks->device->cuda;
    if (marks->failure.status == LF_OK && lf_cuda_wait(cuda, &marks->failure) == LF_OK)
        for (int i = 0; i < marks->n; i++) {
            double seconds = (double)lf_cuda_between_ms(cuda, i, i + 1) * 1e-3 - marks->empty_s;
            marks->time[i]->seconds += seconds > 0 ? seconds : 0;
        }
    marks->n = 0;
}
