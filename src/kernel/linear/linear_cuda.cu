#include "kernel/linear/linear.h"

#include "kernel/linear/linear_feed.cuh"
#include "kernel/linear/linear_look.cuh"
#include "kernel/linear/linear_order.cuh"
#include "kernel/linear/linear_plain.cuh"
#include "kernel/linear/linear_small.cuh"
#include "kernel/linear/linear_stream.cuh"
#include "kernel/linear/linear_team.cuh"
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
            job->group, m->out, m->in, job->rows, 0, job->y_f32 != 0, whole, false};
}

// Jobs of one format, as many as a launch takes.
struct listed {
    struct lf_linear_launch launch;
    uint32_t rows_most; // that a job may have
    uint32_t groups, ordered; // groups so far; rows in order of all jobs
    bool has_groups;
};

// A kernel and its tiles; least: rows of the smallest job that they suit.
struct form {
    void (*kernel)(struct lf_linear_launch);
    uint32_t rows, outs, threads, least;
    uint32_t shared_bytes; // before a list of jobs
    bool can_split;        // tiles between neighbouring blocks
};

// Where the host knows all rows it counts the tiles of all jobs. False: there are none.
static bool count_tiles(struct listed *jobs, const struct form *form) {
    struct lf_linear_launch *launch = &jobs->launch;
    uint32_t tiles = 0;
    launch->is_counted = !launch->table && !jobs->has_groups;
    for (uint32_t j = 0; launch->is_counted && j < launch->jobs; j++) {
        const struct lf_linear_work &w = launch->own[j];
        uint32_t rows = lf_rows_of_tiles(*launch, w.at, w.rows, form->rows).n;
        tiles += lf_tiles_of(rows, w.out, form->rows, form->outs);
        launch->end[j] = tiles;
    }
    return tiles || (!launch->is_counted && jobs->rows_most >= form->least);
}

// Whether blocks take fewer rounds where neighbours share tiles, of which none is left to ask for.
static bool splits(const struct listed *jobs, const struct form *form, uint32_t blocks) {
    const struct lf_linear_launch &launch = jobs->launch;
    if (!form->can_split || !launch.is_counted || !launch.taken)
        return false;
    uint32_t tiles = launch.end[launch.jobs - 1], warps = form->threads / LF_WARP;
    uint32_t whole = lf_blocks(tiles, blocks) * launch.parts;
    uint32_t even = lf_blocks((uint64_t)tiles * launch.parts, blocks);
    return whole <= STREAM_AHEAD * warps && lf_blocks(even, warps) < lf_blocks(whole, warps) &&
           tiles * launch.parts >= blocks && blocks * form->rows * form->outs <= LF_CUDA_HANDED;
}

// One block a multiprocessor: blocks share out the tiles.
static void launch_form(struct lf_device *device, const struct form *form, struct listed *jobs) {
    uint32_t blocks = lf_cuda_info(device->cuda)->processors;
    if (!count_tiles(jobs, form))
        return;
    bool are_split = splits(jobs, form, blocks);
    jobs->launch.sums = are_split ? lf_cuda_handed(device->cuda, LF_CUDA_SUMS) : NULL;
    size_t list_bytes = jobs->launch.is_counted ? 0 : sizeof(struct lf_linear_live);
    lf_cuda_launch(device, "linear", form->kernel, dim3(blocks), form->threads,
                   jobs->launch, form->shared_bytes + (uint32_t)list_bytes);
}

// Two blocks of one launch on a multiprocessor would leave another without.
static uint32_t shared_alone(size_t bytes) {
    const uint32_t least = 114 << 10;
    return bytes < least ? least : (uint32_t)bytes;
}

// Tiles that have a block each: of a single row, which brings little, more where blocks are small.
static uint32_t small_most(const struct lf_device *device, uint32_t rows, uint32_t bytes) {
    uint32_t most = lf_cuda_info(device->cuda)->processors;
    return rows > 1 ? most : bytes > SMALL_SHARED_MOST / 4 ? 3 * most : 16 * most;
}

// False: tiles are more, or what they hold has no room.
template <enum lf_weight_format format>
static bool launch_small(struct lf_device *device, struct listed *jobs) {
    const struct form form = {linear_small<format>, small_shape<format>::rows, UNIT_OUTS, 0, 1, 0,
                              false};
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
                        shared_alone(bytes), true};
    launch_form(device, &form, jobs);
}

// Teams that leave the fewest warps idle; of such the largest.
static void choose_teams(struct lf_linear_launch *launch) {
    double best = 0;
    for (uint32_t own = TEAM_WARPS; own; own--) {
        uint32_t rounds = lf_blocks(launch->parts, own), teams = TEAM_WARPS / own;
        double busy = (double)launch->parts * teams / rounds;
        if (busy <= best || own != lf_blocks(launch->parts, rounds))
            continue;
        best = busy;
        launch->team_warps = own, launch->teams = teams, launch->team_rounds = rounds;
    }
    launch->team_inverse = 0xFFFFFFFFu / launch->team_rounds + 1;
    // A tile is looked up two rounds before the one that asks for its weights.
    launch->team_ahead = launch->team_rounds > 1 ? 2 : 3;
}

// Of up to 8 rows those that linear_feed does not take, which have one form.
template <int eights>
static void launch_team(struct lf_device *device, struct listed *jobs, uint32_t least) {
    struct lf_linear_launch *launch = &jobs->launch;
    choose_teams(launch);
    size_t bytes = sizeof(struct team_block<eights>) +
                   launch->teams * sizeof(struct team_state<eights>);
    struct form form = {linear_team<eights, false, false>, 8 * eights, UNIT_OUTS,
                        launch->teams * launch->team_warps * LF_WARP, least, (uint32_t)bytes,
                        false};
    if constexpr (eights > 1)
        if (launch->whole)
            form.kernel = launch->regular ? linear_team<eights, true, true>
                                          : linear_team<eights, true, false>;
    launch_form(device, &form, jobs);
}

// Whole tiles, a part a warp. False: rows are not whole or too long, or there is no room for two.
static bool launch_feed(struct lf_device *device, struct listed *jobs) {
    struct lf_linear_launch *launch = &jobs->launch;
    const uint32_t bytes = sizeof(struct feed_block), row_bytes = launch->row_bytes / 4;
    const uint32_t room = FEED_SHARED - bytes - sizeof(struct lf_linear_live);
    launch->feed_codes = UNIT_OUTS * row_bytes;
    launch->feed_bytes = launch->feed_codes;
    launch->feed_bytes += lf_blocks(UNIT_OUTS * row_bytes / 16 + 32, 128) * 128; // scales
    launch->feed_stages = room / launch->feed_bytes;
    if (launch->feed_stages > FEED_STAGES)
        launch->feed_stages = FEED_STAGES;
    if (!launch->whole || launch->parts > FEED_WARPS || launch->feed_stages < 2)
        return false;
    launch->team_warps = launch->parts;
    launch->teams = FEED_WARPS / launch->parts;
    if (launch->teams > launch->feed_stages)
        launch->teams = launch->feed_stages;
    uint32_t shared = bytes + launch->feed_stages * launch->feed_bytes;
    struct form form = {launch->regular ? linear_feed<true> : linear_feed<false>,
                        feed_block::unit::rows, UNIT_OUTS, FEED_THREADS, 1,
                        shared_alone(shared), false};
    launch_form(device, &form, jobs);
    return true;
}

template <typename shape>
static void launch_wide(struct lf_device *device, struct listed *jobs, uint32_t least) {
    const bool always = shape::format == LF_WEIGHT_BF16; // regular: it has no odd weights
    struct form form = {jobs->launch.regular ? linear_wide<shape, true>
                                             : linear_wide<shape, always>,
                        shape::rows, shape::outs, shape::threads, least,
                        sizeof(struct wide_block<shape>), false};
    launch_form(device, &form, jobs);
}

enum { ORDER_ROWS = 128, ORDER_STAGES = 8 }; // of the largest tile; side by side for groups

// Rows in order that there is room for, the last tile's apart.
static uint32_t window_rows(uint32_t row_bytes) {
    uint32_t rows = LF_LINEAR_ORDER_BYTES / row_bytes;
    return rows > ORDER_ROWS ? rows - ORDER_ROWS : 0;
}

// Puts a window's rows in order.
template <enum lf_weight_format format>
static void launch_order(struct lf_device *device, const struct listed *jobs) {
    uint32_t stages = jobs->launch.row_bytes / (2 * wide_k(format));
    dim3 grid(jobs->launch.jobs, stages, lf_blocks(jobs->rows_most, ORDER_ROWS));
    if (jobs->has_groups)
        grid = dim3(jobs->launch.jobs, stages < ORDER_STAGES ? stages : (uint32_t)ORDER_STAGES);
    lf_cuda_launch(device, "linear", linear_order<format>, grid, ORDER_THREADS, jobs->launch);
}

// Tiles of many rows: in order first, as many rows at a time as there is room for.
template <enum lf_weight_format format>
static void launch_ordered(struct lf_device *device, struct listed *jobs) {
    struct lf_linear_launch *launch = &jobs->launch;
    launch->window_rows = window_rows(launch->row_bytes);
    for (; launch->window_first < jobs->ordered; launch->window_first += launch->window_rows) {
        launch_order<format>(device, jobs);
        if constexpr (format == LF_WEIGHT_MXFP4) {
            launch_wide<wide_shape<format, 48, 4, 1, true>>(device, jobs, 17);
            launch_wide<wide_shape<format, 64, 2, 2, true>>(device, jobs, 49);
        }
        launch_wide<wide_shape<format, ORDER_ROWS, 2, 1, true>>(device, jobs, 65);
    }
}

// The sizes of tiles that lf_tile_rows names.
template <enum lf_weight_format format>
static void launch_sizes(struct lf_device *device, struct listed *jobs) {
    if constexpr (format == LF_WEIGHT_MXFP4) {
        if (!launch_feed(device, jobs))
            launch_team<1>(device, jobs, 1);
        launch_team<2>(device, jobs, 9);
    } else {
        if (!launch_small<format>(device, jobs))
            launch_stream<format, 1>(device, jobs, 1);
        launch_stream<format, 2>(device, jobs, 9);
    }
    if (!jobs->launch.whole)
        return;
    if (format != LF_WEIGHT_MXFP4 || !jobs->launch.orders)
        launch_wide<wide_shape<format, 64, 2, format == LF_WEIGHT_MXFP4 ? 2 : 1, false>>(device,
                                                                                       jobs, 17);
    if (jobs->launch.orders)
        launch_ordered<format>(device, jobs);
}

// Whether two jobs read the same rows.
static bool shares_rows(const struct lf_linear_job *a, const struct lf_linear_job *b) {
    return a && a->x == b->x && a->x_stride == b->x_stride && a->x_index == b->x_index &&
           a->group == b->group && a->rows == b->rows && a->w->in == b->w->in;
}

// Where a job's rows lie in order: those of groups ahead of all others, each from an eight on.
static uint32_t place_rows(struct listed *jobs, const struct lf_linear_job *job) {
    uint32_t at = jobs->ordered;
    if (job->group)
        return 8 * jobs->groups++;
    jobs->ordered += lf_eights(job->rows);
    return at;
}

// before: the job listed before it, and where that one's rows lie.
template <enum lf_weight_format format>
static void list_job(struct listed *jobs, const struct lf_linear_job *job,
                     const struct lf_linear_job *before, uint32_t *at, bool groups_are_old,
                     struct lf_linear_work *to) {
    uint32_t parts = lf_blocks(job->w->in, LF_LINEAR_PART);
    uint32_t row_bytes = lf_blocks(job->w->in, wide_k(format)) * wide_k(format) * 2;
    struct lf_linear_work work = work_of(job);
    work.shares = shares_rows(before, job);
    work.at = *at = work.shares ? *at : place_rows(jobs, job);
    *to = work;
    jobs->launch.jobs++;
    jobs->launch.waits_first |= (job->group && !groups_are_old) || job->x_index;
    jobs->launch.parts = parts > jobs->launch.parts ? parts : jobs->launch.parts;
    jobs->launch.row_bytes = row_bytes > jobs->launch.row_bytes ? row_bytes
                                                                : jobs->launch.row_bytes;
    jobs->launch.whole &= work.whole;
    jobs->launch.regular &= job->w->is_regular || !lf_matrix_quantizes_input(job->w);
    jobs->has_groups |= job->group != NULL;
    jobs->rows_most = job->rows > jobs->rows_most ? job->rows : jobs->rows_most;
}

static bool is_listed(const struct lf_linear_job *job, enum lf_weight_format format) {
    return job->w->format == format && job->rows;
}

// Jobs of the format from j on, as many as a launch takes; their groups come to that many rows.
static uint32_t count_jobs(const struct lf_linear_args *args, enum lf_weight_format format,
                           uint32_t j, struct listed *jobs) {
    const struct lf_linear_job *before = NULL;
    uint32_t most = 0, groups = 0;
    for (; j < args->n_jobs && most < LF_LINEAR_JOBS; j++)
        if (is_listed(&args->job[j], format)) {
            groups += args->job[j].group && !shares_rows(before, &args->job[j]);
            before = &args->job[j];
            most++;
        }
    jobs->ordered = groups ? args->group_rows + 8 * groups : 0;
    return most;
}

// The next jobs of the format from *j on. More than a few go to the device as a table.
template <enum lf_weight_format format>
static void list_jobs(struct lf_device *device, const struct lf_linear_args *args, uint32_t *j,
                      struct listed *jobs) {
    const struct lf_linear_job *before = NULL;
    const void *table = NULL;
    uint32_t most = count_jobs(args, format, *j, jobs), at = 0;
    struct lf_linear_work *work = jobs->launch.own;
    if (most > LF_LINEAR_OWN_JOBS)
        work = (struct lf_linear_work *)lf_cuda_table_room(device->cuda, most * sizeof *work,
                                                           &table);
    jobs->launch.table = (const struct lf_linear_work *)table;
    for (; work && *j < args->n_jobs && jobs->launch.jobs < most; ++*j) {
        const struct lf_linear_job *job = &args->job[*j];
        if (!is_listed(job, format))
            continue;
        list_job<format>(jobs, job, before, &at, args->groups_are_old, work + jobs->launch.jobs);
        before = job;
    }
}

// Rows are put in order in memory that launches beside others do not have, where tiles are large.
static bool are_ordered(const struct lf_device *device, const struct lf_linear_args *args,
                        const struct listed *jobs) {
    return lf_cuda_scratch(device->cuda) && jobs->launch.whole && jobs->rows_most > 64 &&
           (!jobs->has_groups || args->group_rows) && window_rows(jobs->launch.row_bytes);
}

template <enum lf_weight_format format>
static void launch_format(struct lf_device *device, const struct lf_linear_args *args) {
    for (uint32_t j = 0; j < args->n_jobs;) {
        struct listed jobs = {};
        jobs.launch.format = format;
        jobs.launch.whole = jobs.launch.regular = true;
        list_jobs<format>(device, args, &j, &jobs);
        if (!jobs.launch.jobs)
            return;
        jobs.launch.orders = are_ordered(device, args, &jobs);
        jobs.launch.ordered = (uint8_t *)lf_cuda_scratch(device->cuda);
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

// Threads that go once through so many bytes.
static dim3 look_blocks(uint64_t bytes) {
    uint32_t blocks = lf_blocks(bytes, LOOK_THREADS * LOOK_BYTES);
    return dim3(blocks < LOOK_BLOCKS ? blocks : (uint32_t)LOOK_BLOCKS);
}

void lf_linear_look_cuda(struct lf_device *device, const struct lf_matrix *m, uint32_t *is_odd) {
    struct look look = {m->format, m->data, m->scale, lf_linear_codes(m),
                        lf_matrix_scale_bytes(m), is_odd};
    uint64_t most = look.codes > look.scales ? look.codes : look.scales;
    LF_ASSERT(lf_matrix_quantizes_input(m));
    lf_cuda_launch(device, "linear", linear_look, look_blocks(most), LOOK_THREADS, look);
}

void lf_linear_turn_cuda(struct lf_device *device, void *codes, uint64_t bytes) {
    struct turn turn = {(uint32_t *)codes, bytes / sizeof(uint32_t)};
    lf_cuda_launch(device, "linear", linear_turn, look_blocks(bytes), LOOK_THREADS, turn);
}
