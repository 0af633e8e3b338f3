// The rows that jobs with a group have, once the kernel that chose them has run.
#pragma once
#include "base/error.h"
#include "kernel/isa.h"
#include "kernel/linear/linear.h"

// The job of the rows that its group names.
static inline struct lf_linear_job lf_linear_group(const struct lf_linear_job *job) {
    struct lf_linear_job own = *job;
    size_t first = job->group[0], y_bytes = job->y_f32 ? sizeof(float) : sizeof(uint16_t);
    own.rows = job->group[1] - job->group[0];
    own.group = NULL;
#if LF_FAULT == 13
    own.x -= first ? own.x_stride : 0; // 13: a group's x begins a row early
#endif
    if (own.x_index)
        own.x_index += first;
    else
        own.x += first * own.x_stride;
#if LF_FAULT == 14
    own.x_index = NULL; // 14: x_index is not read
#endif
    own.y = (char *)own.y + first * own.y_stride * y_bytes;
    return own;
}

// The same launch without groups: jobs that have rows are listed in room, in their order.
static inline struct lf_linear_args lf_linear_known(const struct lf_linear_args *args) {
    struct lf_linear_args known = {.job = args->room};
    if (!args->room)
        return *args;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        struct lf_linear_job own = args->job[j].group ? lf_linear_group(&args->job[j])
                                                      : args->job[j];
        if (own.rows)
            args->room[known.n_jobs++] = own;
    }
    return known;
}
