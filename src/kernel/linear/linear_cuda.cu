#include "kernel/linear/linear.h"

#include "kernel/linear/linear_look.cuh"
#include "kernel/linear/linear_order.cuh"
#include "kernel/linear/linear_plain.cuh"
#include "kernel/linear/linear_small.cuh"
#include "kernel/linear/linear_stream.cuh"
#include "kernel/linear/linear_wide.cuh"

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
    uint32_t rows_most; // that a job may have
    bool has_groups;
};

// A kernel and its tiles; least: rows of the smallest job that they suit.
struct form {
    void (*kernel)(struct lf_linear_launch);
    uint32_t rows, outs, threads, least;
    uint32_t shared_bytes; // before a list of jobs
};

// Where the host knows all rows it counts the tiles of all jobs. False: there are none.
static bool count_tiles(struct listed *jobs, const struct form *form) {
    struct lf_linear_launch *launch = &jobs->launch;
    uint32_t tiles = 0;
    launch->is_counted = !launch->table && !jobs->has_groups;
    for (uint32_t j = 0; launch->is_counted && j < launch->jobs; j++) {
        tiles += lf_tiles_of(*launch, launch->own[j].rows, launch->own[j].out, form->rows,
                             form->outs);
        launch->end[j] = tiles;
    }
    return tiles || (!launch->is_counted && jobs->rows_most >= form->least);
}

// One block a multiprocessor: blocks share out the tiles.
static void launch_form(struct lf_device *device, const struct form *form, struct listed *jobs) {
    if (!count_tiles(jobs, form))
        return;
    size_t list_bytes = jobs->launch.is_counted ? 0 : sizeof(struct lf_linear_live);
    lf_cuda_launch(device, "linear", form->kernel, dim3(lf_cuda_info(device->cuda)->processors),
                   form->threads, jobs->launch, form->shared_bytes + (uint32_t)list_bytes);
}

// Two blocks of one launch on a multiprocessor would leave another without.
enum { STREAM_SHARED_LEAST = 114 << 10 };

// Tiles that have a block each: of a single row, which brings little, more where blocks are small.
static uint32_t small_most(const struct lf_device *device, uint32_t rows, uint32_t bytes) {
    uint32_t most = lf_cuda_info(device->cuda)->processors;
    return rows > 1 ? most : bytes > SMALL_SHARED_MOST / 4 ? 3 * most : 16 * most;
}

// False: tiles are more, or what they hold has no room.
template <enum lf_weight_format format>
static bool launch_small(struct lf_device *device, struct listed *jobs) {
    const struct form form = {linear_small<format>, small_shape<format>::rows, UNIT_OUTS, 0, 1, 0};
    const struct lf_linear_launch &launch = jobs->launch;
    uint32_t rows = jobs->rows_most < form.rows ? jobs->rows_most : form.rows;
    uint32_t bytes = launch.parts * small_bytes<format>(rows);
    if (!launch.whole || launch.parts > SMALL_PARTS || bytes > SMALL_SHARED_MOST ||
        !count_tiles(jobs, &form) || !launch.is_counted ||
        launch.end[launch.jobs - 1] > small_most(device, rows, bytes))
        return false;
    lf_cuda_launch(device, "linear", linear_small<format>, dim3(launch.end[launch.jobs - 1]),
                   launch.parts * LF_WARP, launch, bytes);
    return true;
}

template <enum lf_weight_format format, int eights>
static void launch_stream(struct lf_device *device, struct listed *jobs, uint32_t least) {
    const bool always = format == LF_WEIGHT_BF16; // regular: it has no odd weights
    size_t bytes = sizeof(struct stream_block<format, eights>);
    struct form form = {!jobs->launch.whole ? linear_stream<format, eights, false, false>
                        : jobs->launch.regular ? linear_stream<format, eights, true, true>
                                               : linear_stream<format, eights, true, always>,
                        8 * eights, UNIT_OUTS, stream_shape<format, eights>::threads, least,
                        (uint32_t)(bytes < STREAM_SHARED_LEAST ? STREAM_SHARED_LEAST : bytes)};
    launch_form(device, &form, jobs);
}

template <enum lf_weight_format format, int rows, int groups, int blocks>
static void launch_wide(struct lf_device *device, struct listed *jobs, uint32_t least) {
    struct form form = {linear_wide<format, rows, groups, blocks>, rows,
                        wide_shape<format, rows, groups, blocks>::outs,
                        wide_shape<format, rows, groups, blocks>::threads, least,
                        sizeof(struct wide_block<format, rows, groups, blocks>)};
    launch_form(device, &form, jobs);
}

// Of a job the rows from `first` on that there is room for are put in order; returns how many.
template <enum lf_weight_format format>
static uint32_t order_rows(struct lf_device *device, const struct lf_linear_work &job,
                           uint32_t first, struct listed *ordered, size_t *used) {
    const size_t tile = order_bytes<format>(job.in), room = LF_CUDA_SCRATCH_BYTES - *used;
    uint32_t left = job.rows - first, most = (uint32_t)(room / tile) * ORDER_ROWS;
    uint32_t rows = left < most ? left : most, tiles = lf_blocks(rows, ORDER_ROWS);
    size_t y_bytes = job.y_stride * (job.y_f32 ? sizeof(float) : sizeof(uint16_t));
    if (!rows)
        return 0;
    struct order_work work = {job.x_index ? job.x : job.x + first * job.x_stride,
                              job.x_index ? job.x_index + first : NULL, job.x_stride, job.in, rows,
                              (uint8_t *)lf_cuda_scratch(device->cuda) + *used};
    lf_cuda_launch(device, "linear", linear_order<format>,
                   dim3((uint32_t)(tile / order_shape<format>::rows_bytes), tiles), ORDER_THREADS,
                   work);
    struct lf_linear_work *own = &ordered->launch.own[ordered->launch.jobs++];
    *own = job;
    own->rows = rows;
    own->x = (const uint16_t *)work.to;
    own->y = (char *)job.y + first * y_bytes;
    *used += tiles * tile;
    return rows;
}

// Jobs of many rows: in order first, as many at a time as there is room for, and then their tiles.
template <enum lf_weight_format format>
static void launch_ordered(struct lf_device *device, const struct listed *jobs) {
    const struct lf_linear_launch &all = jobs->launch;
    struct listed ordered = *jobs;
    size_t used = 0;
    ordered.launch.jobs = 0;
    ordered.launch.is_ordered = true;
    for (uint32_t j = 0; j < all.jobs; j++) {
        bool are_many = lf_tile_rows(format, all.whole, all.orders, all.own[j].rows) == ORDER_ROWS;
        for (uint32_t first = 0; are_many && first < all.own[j].rows;) {
            uint32_t rows = order_rows<format>(device, all.own[j], first, &ordered, &used);
            first += rows;
            if (rows && ordered.launch.jobs < LF_LINEAR_OWN_JOBS)
                continue;
            LF_ASSERT(ordered.launch.jobs);
            launch_wide<format, ORDER_ROWS, 2, 1>(device, &ordered, 1);
            ordered.launch.jobs = 0;
            used = 0;
        }
    }
    if (ordered.launch.jobs)
        launch_wide<format, ORDER_ROWS, 2, 1>(device, &ordered, 1);
}

// The sizes of tiles that lf_tile_rows names.
template <enum lf_weight_format format>
static void launch_sizes(struct lf_device *device, struct listed *jobs) {
    bool are_small = false;
    if constexpr (format != LF_WEIGHT_MXFP4)
        are_small = launch_small<format>(device, jobs);
    if (!are_small)
        launch_stream<format, 1>(device, jobs, 1);
    launch_stream<format, 2>(device, jobs, 9);
    if (!jobs->launch.whole)
        return;
    if constexpr (format == LF_WEIGHT_MXFP4) {
        launch_wide<format, 32, 4, 1>(device, jobs, 17);
        launch_wide<format, 48, 4, 1>(device, jobs, 33);
        launch_wide<format, 64, 2, 2>(device, jobs, 49);
        launch_wide<format, 128, 2, 1>(device, jobs, 97);
    } else {
        launch_wide<format, 64, 2, 1>(device, jobs, 17);
        if (jobs->launch.orders)
            launch_ordered<format>(device, jobs);
    }
}

static void list_job(struct listed *jobs, const struct lf_linear_job *job,
                     bool groups_are_old, struct lf_linear_work *work) {
    uint32_t parts = (job->w->in + LF_LINEAR_PART - 1) / LF_LINEAR_PART;
    *work = work_of(job);
    jobs->launch.jobs++;
    jobs->launch.waits_first |= (job->group && !groups_are_old) || job->x_index;
    jobs->launch.parts = parts > jobs->launch.parts ? parts : jobs->launch.parts;
    jobs->launch.whole &= work->whole;
    jobs->launch.regular &= job->w->is_regular || !lf_matrix_quantizes_input(job->w);
    jobs->has_groups |= job->group != NULL;
    jobs->rows_most = job->rows > jobs->rows_most ? job->rows : jobs->rows_most;
}

static bool is_listed(const struct lf_linear_job *job, enum lf_weight_format format) {
    return job->w->format == format && job->rows;
}

// The next jobs of the format from *j on. More than a few go to the device as a table.
static void list_jobs(struct lf_device *device, const struct lf_linear_args *args,
                      enum lf_weight_format format, uint32_t *j, struct listed *jobs) {
    const void *at = NULL;
    uint32_t most = 0;
    for (uint32_t i = *j; i < args->n_jobs && most < LF_LINEAR_JOBS; i++)
        most += is_listed(&args->job[i], format);
    struct lf_linear_work *work = jobs->launch.own;
    if (most > LF_LINEAR_OWN_JOBS)
        work = (struct lf_linear_work *)lf_cuda_table_room(device->cuda, most * sizeof *work, &at);
    jobs->launch.table = (const struct lf_linear_work *)at;
    for (; work && *j < args->n_jobs && jobs->launch.jobs < most; ++*j) {
        const struct lf_linear_job *job = &args->job[*j];
        if (is_listed(job, format))
            list_job(jobs, job, args->groups_are_old, work + jobs->launch.jobs);
    }
}

template <enum lf_weight_format format>
static void launch_format(struct lf_device *device, const struct lf_linear_args *args) {
    for (uint32_t j = 0; j < args->n_jobs;) {
        struct listed jobs = {};
        jobs.launch.format = format;
        jobs.launch.whole = jobs.launch.regular = true;
        list_jobs(device, args, format, &j, &jobs);
        if (!jobs.launch.jobs)
            return;
        // Rows are put in order in memory that launches beside others do not have.
        jobs.launch.orders = !jobs.launch.table && !jobs.has_groups &&
                             lf_cuda_scratch(device->cuda) != NULL;
        // As for scratch.
        if (lf_cuda_scratch(device->cuda))
            jobs.launch.taken = lf_cuda_counters(device->cuda) + LF_CUDA_TAKEN;
        // Not read where there is one part.
        jobs.launch.parts_inverse = 0xFFFFFFFFu / jobs.launch.parts + 1;
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

void lf_linear_look_cuda(struct lf_device *device, const struct lf_matrix *m, uint32_t *is_odd) {
    struct look look = {m->format, m->data, m->scale, lf_linear_codes(m),
                        lf_matrix_scale_bytes(m), is_odd};
    uint64_t most = look.codes > look.scales ? look.codes : look.scales;
    uint32_t blocks = lf_blocks(most, LOOK_THREADS * LOOK_BYTES);
    LF_ASSERT(lf_matrix_quantizes_input(m));
    lf_cuda_launch(device, "linear", linear_look,
                   dim3(blocks < LOOK_BLOCKS ? blocks : (uint32_t)LOOK_BLOCKS), LOOK_THREADS, look);
}
