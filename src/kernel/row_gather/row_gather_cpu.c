#include "kernel/row_gather/row_gather.h"

#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"

// A task moves so many bytes of every row of a job, in order: y may be x.
enum { TASK_BYTES = 4096 };

static uint32_t job_tasks(const struct lf_row_gather_job *job) {
    return job->rows ? (uint32_t)((job->row_bytes + TASK_BYTES - 1) / TASK_BYTES) : 0;
}

static void move_row(const struct lf_row_gather_job *job, uint32_t r, size_t at, size_t bytes) {
    size_t from = job->index ? job->index[r] : r, x_pitch = job->x_pitch;
#if LF_FAULT == 1
    from -= at > 0 && from > 0; // 1: past the first task, the row before it
#elif LF_FAULT == 2
    bytes -= at + bytes == job->row_bytes; // 2: the last byte is not copied
#elif LF_FAULT == 4
    from -= r == 5 && from; // 4: the row at place 5 takes the one before it
#elif LF_FAULT == 5
    x_pitch = job->row_bytes; // 5: the gaps between rows of x are read
#elif LF_FAULT == 7
    from = r; // 7: the index is not read
#endif
    uint8_t *to = (uint8_t *)job->y + r * job->y_pitch + at;
    const uint8_t *source = (const uint8_t *)job->x + from * x_pitch + at;
    if (to != source)
        memcpy(to, source, bytes);
#if LF_FAULT == 3
    to[bytes] = 0; // 3: a write past the row
#endif
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct lf_row_gather_args *args = ctx;
    const struct lf_row_gather_job *job = args->job;
    (void)worker;
    for (uint32_t tasks; i >= (tasks = job_tasks(job)); job++)
        i -= tasks;
    size_t at = (size_t)i * TASK_BYTES, left = job->row_bytes - at;
    size_t bytes = left < TASK_BYTES ? left : TASK_BYTES;
#if LF_FAULT == 6
    for (uint32_t r = job->rows; r-- > 0;) // 6: rows are overwritten before they are read
#else
    for (uint32_t r = 0; r < job->rows; r++)
#endif
        move_row(job, r, at, bytes);
}

void LF_KERNEL_NAME(lf_row_gather)(struct lf_device *device,
                                   const struct lf_row_gather_args *args) {
    uint32_t tasks = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_row_gather_job *job = &args->job[j];
        LF_ASSERT(job->row_bytes <= job->x_pitch && job->row_bytes <= job->y_pitch);
        LF_ASSERT(job->x != job->y || job->x_pitch == job->y_pitch);
        tasks += job_tasks(job);
    }
    lf_pool_run(device->pool, tasks, run_task, (void *)args);
}
