#include "kernel/linear/linear.h"

#include "kernel/linear/linear_plain.cuh"
#include "kernel/linear/linear_stream.cuh"
#include "kernel/linear/linear_wide.cuh"

enum { FEW_ROWS = 16, WIDE_ROWS = 128 }; // to how many rows weights stream; a tile of more

static bool is_aligned(const void *p, size_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

static struct lf_linear_work work_of(const struct lf_linear_job *job) {
    const struct lf_matrix *m = job->w;
    bool whole = m->in % 8 == 0 && job->x_stride % 8 == 0 && is_aligned(job->x, 16) &&
                 is_aligned(m->data, 16);
    LF_ASSERT(m->in > 0 && (!lf_matrix_quantizes_input(m) ||
                            (m->in % 32 == 0 && is_aligned(m->data, 16))));
    return {m->data, m->scale, job->x, job->x_index, job->y, job->x_stride, job->y_stride,
            job->group, m->out, m->in, job->rows, job->y_f32 != 0, whole};
}

// Jobs of one format, as many as a launch takes.
struct listed {
    struct lf_linear_launch launch;
    uint32_t rows_least, rows_most; // that a job may have
    bool whole;
};

// The launch of those of a range of rows; false: none can have so many.
static bool take_rows(struct listed *jobs, uint32_t rows_low, uint32_t rows_high) {
    jobs->launch.rows_low = rows_low;
    jobs->launch.rows_high = rows_high;
    return jobs->rows_most > rows_low && jobs->rows_least <= rows_high;
}

// A kernel and its tiles.
struct form {
    void (*kernel)(struct lf_linear_launch);
    uint32_t rows, outs, threads;
    struct lf_launch_choice choice;
};

// Where the host knows all rows it counts the tiles of all jobs.
static void count_tiles(struct lf_linear_launch *launch, const struct form *form) {
    uint32_t tiles = 0;
    launch->is_counted = !launch->table && !launch->has_chosen_rows;
    for (uint32_t j = 0; launch->is_counted && j < launch->jobs; j++) {
        tiles += lf_tiles_of(*launch, launch->own[j].rows, launch->own[j].out, form->rows,
                             form->outs);
        launch->end[j] = tiles;
    }
}

// One block a multiprocessor: blocks share out the tiles.
static void launch_form(struct lf_device *device, const struct form *form, struct listed *jobs) {
    count_tiles(&jobs->launch, form);
    lf_cuda_launch(device, "linear", form->kernel,
                   dim3(lf_cuda_info(device->cuda)->processors), form->threads, jobs->launch,
                   form->choice);
}

template <enum lf_weight_format format, int eights>
static void launch_stream(struct lf_device *device, struct listed *jobs, uint32_t rows_low,
                          uint32_t rows_high) {
    struct form form = {jobs->whole ? linear_stream<format, eights, true>
                                    : linear_stream<format, eights, false>,
                        8 * eights, STREAM_OUTS, STREAM_THREADS,
                        {sizeof(struct stream_block<format, eights>), true}};
    if (take_rows(jobs, rows_low, rows_high))
        launch_form(device, &form, jobs);
}

template <enum lf_weight_format format, int rows>
static void launch_wide(struct lf_device *device, struct listed *jobs, uint32_t rows_low) {
    struct form form = {linear_wide<format, rows>, rows, WIDE_OUTS, WIDE_THREADS,
                        {sizeof(struct wide_block<format, rows>), false}};
    if (take_rows(jobs, rows_low, UINT32_MAX))
        launch_form(device, &form, jobs);
}

// Tiles suit the rows of each job; no bit depends on them.
template <enum lf_weight_format format>
static void launch_sizes(struct lf_device *device, struct listed *jobs) {
    launch_stream<format, 1>(device, jobs, 0, 8);
    launch_stream<format, 2>(device, jobs, 8, jobs->whole ? FEW_ROWS : UINT32_MAX);
    if (jobs->whole)
        launch_wide<format, WIDE_ROWS>(device, jobs, FEW_ROWS);
}

static void list_job(struct listed *jobs, const struct lf_linear_job *job,
                     struct lf_linear_work *work) {
    uint32_t parts = (job->w->in + LF_LINEAR_PART - 1) / LF_LINEAR_PART;
    *work = work_of(job);
    jobs->launch.jobs++;
    jobs->launch.has_chosen_rows |= job->group || job->x_index;
    jobs->launch.parts = parts > jobs->launch.parts ? parts : jobs->launch.parts;
    jobs->whole &= work->whole;
    jobs->rows_most = job->rows > jobs->rows_most ? job->rows : jobs->rows_most;
    if (job->group || job->rows < jobs->rows_least)
        jobs->rows_least = job->group ? 1 : job->rows;
}

// The next jobs of the format from *j on. More than a few go to the device as a table.
static void list_jobs(struct lf_device *device, const struct lf_linear_args *args,
                      enum lf_weight_format format, uint32_t *j, struct listed *jobs) {
    const void *at = NULL;
    uint32_t left = args->n_jobs - *j, most = left < LF_LINEAR_JOBS ? left : LF_LINEAR_JOBS;
    struct lf_linear_work *work = jobs->launch.own;
    if (most > LF_LINEAR_OWN_JOBS)
        work = (struct lf_linear_work *)lf_cuda_table_room(device->cuda, most * sizeof *work, &at);
    jobs->launch.table = (const struct lf_linear_work *)at;
    for (; work && *j < args->n_jobs && jobs->launch.jobs < most; ++*j) {
        const struct lf_linear_job *job = &args->job[*j];
        if (job->w->format == format && job->rows)
            list_job(jobs, job, work + jobs->launch.jobs);
    }
}

template <enum lf_weight_format format>
static void launch_format(struct lf_device *device, const struct lf_linear_args *args) {
    for (uint32_t j = 0; j < args->n_jobs;) {
        struct listed jobs = {};
        jobs.rows_least = UINT32_MAX;
        jobs.whole = true;
        list_jobs(device, args, format, &j, &jobs);
        if (!jobs.launch.jobs)
            return;
        launch_sizes<format>(device, &jobs);
    }
}

void lf_linear_cuda(struct lf_device *device, const struct lf_linear_args *args) {
    bool has[LF_WEIGHT_FORMATS] = {};
    for (uint32_t j = 0; j < args->n_jobs; j++)
        has[args->job[j].w->format] = true;
    if (has[LF_WEIGHT_BF16])
        launch_format<LF_WEIGHT_BF16>(device, args);
    if (has[LF_WEIGHT_FP8])
        launch_format<LF_WEIGHT_FP8>(device, args);
    if (has[LF_WEIGHT_MXFP4])
        launch_format<LF_WEIGHT_MXFP4>(device, args);
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_linear_job *job = &args->job[j];
        bool is_plain = job->w->format == LF_WEIGHT_F16 || job->w->format == LF_WEIGHT_F32;
        if (is_plain && job->rows)
            launch_plain(device, work_of(job), job->w->format);
    }
}
