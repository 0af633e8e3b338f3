#include "kernel/linear/linear.h"

#include "kernel/block.cuh"
#include "kernel/linear/linear_chunk.cuh"
#include "kernel/linear/linear_plain.cuh"

// A warp takes 16 outputs by 8 TILES rows by a part of K, a block all parts of its outputs.
enum { OUTS = 16, TILE_ROWS = 8, WARPS = 8, THREADS = WARPS * LF_WARP };
enum { JOBS = 1024, FEW = 32, BLOCKS_A_PROCESSOR = 4, TILE_SIZES = 3 };

// Jobs of one format; a launch takes those whose rows are its own: over rows_low, to rows_high.
struct launch {
    const struct lf_linear_work *table; // in device memory; NULL: they are few and stand here
    uint32_t jobs, rows_low, rows_high;
    struct lf_linear_work few[FEW];
};

__device__ static const struct lf_linear_work *jobs_of(const struct launch &launch) {
    return launch.table ? launch.table : launch.few;
}

// Warps that share the parts of one tile of outputs: a power of two.
__host__ __device__ static uint32_t part_warps(uint32_t in) {
    uint32_t parts = (in + LF_LINEAR_PART - 1) / LF_LINEAR_PART, warps = 1;
    while (warps < parts && warps < WARPS)
        warps *= 2;
    return warps;
}

// Eight elements of a chunk: two k16 steps for all rows. low, high: pairs of outputs 0-7 and 8-15.
template <enum lf_weight_format format, int TILES>
__device__ static void add_eight(const struct lf_linear_work &w, const uint16_t *const x[TILES],
                                 uint32_t k, const uint32_t *low, const uint32_t *high,
                                 float sum[TILES][4]) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        uint32_t b[4];
        lf_load_eight(x[tile], k, w.in, w.whole, b);
        lf_order_x<format>(b);
#pragma unroll
        for (uint32_t step = 0; step < 4; step += 2) {
            uint32_t a[4] = {low[step], high[step], low[step + 1], high[step + 1]};
            lf_mma_bf16(sum[tile], a, b + step);
        }
    }
}

// One part of K: a chain of k16 steps from zero. The next slab is on its way meanwhile.
template <enum lf_weight_format format, int TILES>
__device__ static void add_part(const struct lf_linear_work &w, uint32_t out, uint32_t row,
                                uint32_t k0, float sum[TILES][4]) {
    const uint32_t elements = lf_chunk_elements(format), slab = 4 * elements;
    uint32_t last = w.out - 1, group = threadIdx.x % LF_WARP / 4, own = threadIdx.x % 4 * elements;
    uint32_t low_out = out + group < last ? out + group : last;
    uint32_t high_out = out + group + 8 < last ? out + group + 8 : last;
    uint32_t end = k0 + LF_LINEAR_PART < w.in ? k0 + LF_LINEAR_PART : w.in;
    const uint16_t *x[TILES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        uint32_t r = row + tile * TILE_ROWS + group;
        r = r < w.rows ? r : w.rows - 1;
        x[tile] = w.x + (size_t)(w.x_index ? w.x_index[r] : r) * w.x_stride;
    }
    struct lf_chunk low, high;
    lf_load_chunk<format>(w, low_out, k0 + own, &low);
    lf_load_chunk<format>(w, high_out, k0 + own, &high);
    for (uint32_t k = k0 + own; k - own < end; k += slab) {
        struct lf_chunk next_low, next_high;
        uint32_t low_pair[elements / 2], high_pair[elements / 2];
        lf_load_chunk<format>(w, low_out, k + slab, &next_low);
        lf_load_chunk<format>(w, high_out, k + slab, &next_high);
        lf_decode_chunk<format>(low, low_pair);
        lf_decode_chunk<format>(high, high_pair);
#pragma unroll
        for (uint32_t i = 0; i < elements; i += 8)
            add_eight<format, TILES>(w, x, k + i, low_pair + i / 2, high_pair + i / 2, sum);
        low = next_low;
        high = next_high;
    }
}

// Sums of a block's tiles, [row][output], and what one tile carries from turn to turn.
template <int TILES>
struct sums {
    float part[WARPS][OUTS * TILE_ROWS * TILES], carried[OUTS * TILE_ROWS * TILES];
};

// One tile of rows by the outputs that a block takes.
template <enum lf_weight_format format, int TILES>
__device__ static void run_tile(const struct lf_linear_work &w, uint32_t tile,
                                struct sums<TILES> *s) {
    const uint32_t numbers = OUTS * TILE_ROWS * TILES;
    uint32_t row_tiles = (w.rows + TILE_ROWS * TILES - 1) / (TILE_ROWS * TILES);
    uint32_t row = tile % row_tiles * TILE_ROWS * TILES;
    uint32_t warp = threadIdx.x / LF_WARP, lane = threadIdx.x % LF_WARP;
    uint32_t parts = (w.in + LF_LINEAR_PART - 1) / LF_LINEAR_PART, warps = part_warps(w.in);
    uint32_t out = (tile / row_tiles * (WARPS / warps) + warp / warps) * OUTS;
    uint32_t first_warp = warp / warps * warps;
    for (uint32_t first = 0; first < parts; first += warps) {
        uint32_t part = first + warp % warps, n = parts - first < warps ? parts - first : warps;
        float sum[TILES][4] = {};
        if (part < parts && out < w.out)
            add_part<format, TILES>(w, out, row, part * LF_LINEAR_PART, sum);
#pragma unroll
        for (int i = 0; i < 4 * TILES; i++) {
            uint32_t r = i / 4 * TILE_ROWS + lane % 4 * 2 + i % 2, o = lane / 4 + i % 4 / 2 * 8;
            s->part[warp][r * OUTS + o] = sum[i / 4][i % 4];
        }
        __syncthreads();
        // More than one turn only where all warps share one tile: then one tile is carried.
        for (uint32_t at = threadIdx.x - first_warp * LF_WARP; at < numbers;
             at += warps * LF_WARP) {
            float total = s->part[first_warp][at];
            total = first ? s->carried[at] + total : total;
            for (uint32_t p = 1; p < n; p++)
                total = total + s->part[first_warp + p][at];
            if (first + warps >= parts)
                lf_store_sum(w, row + at / OUTS, out + at % OUTS, total);
            else
                s->carried[at] = total;
        }
        __syncthreads();
    }
}

// Tiles of a job in this launch.
template <int TILES>
__device__ static uint32_t job_tiles(const struct launch &launch, uint32_t j) {
    const struct lf_linear_work &w = jobs_of(launch)[j];
    uint32_t rows = lf_work_rows(w), outs = OUTS * WARPS / part_warps(w.in);
    if (rows <= launch.rows_low || rows > launch.rows_high)
        return 0;
    return (rows + TILE_ROWS * TILES - 1) / (TILE_ROWS * TILES) * ((w.out + outs - 1) / outs);
}

// end[j]: tiles of jobs 0 .. j. Returns all.
template <int TILES>
__device__ static uint32_t count_tiles(const struct launch &launch, uint32_t end[JOBS]) {
    uint32_t all = 0, total;
    for (uint32_t first = 0; first < launch.jobs; first += THREADS) {
        uint32_t j = first + threadIdx.x;
        uint32_t tiles = j < launch.jobs ? job_tiles<TILES>(launch, j) : 0;
        uint32_t before = lf_block_sum_before(tiles, &total);
        if (j < launch.jobs)
            end[j] = all + before + tiles;
        all += total;
    }
    __syncthreads();
    return all;
}

// The first job that ends past the tile.
__device__ static uint32_t find_job(const uint32_t end[JOBS], uint32_t jobs, uint32_t tile) {
    uint32_t low = 0, high = jobs - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (end[middle] > tile)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <enum lf_weight_format format, int TILES>
__global__ static void __launch_bounds__(THREADS, TILES == 8 ? 2 : 3)
linear_tiles(__grid_constant__ const struct launch launch) {
    __shared__ struct sums<TILES> sums;
    __shared__ uint32_t end[JOBS];
    __shared__ struct lf_linear_work own;
    uint32_t tiles = count_tiles<TILES>(launch, end);
    for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        uint32_t j = find_job(end, launch.jobs, tile);
        if (threadIdx.x == 0)
            own = lf_work_of_group(jobs_of(launch)[j]);
        __syncthreads();
        run_tile<format, TILES>(own, tile - (j ? end[j - 1] : 0), &sums);
    }
}

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

// Jobs of one format for a launch; has: those that may have rows of each size of tile.
struct listed {
    struct launch launch;
    bool has[TILE_SIZES];
};

static uint32_t tile_size(uint32_t rows) {
    return rows <= TILE_ROWS ? 0 : rows <= 2 * TILE_ROWS ? 1 : 2;
}

template <enum lf_weight_format format, int TILES>
static void launch_tiles(struct lf_device *device, struct listed *jobs, uint32_t rows_low,
                         uint32_t rows_high) {
    uint32_t blocks = lf_cuda_info(device->cuda)->processors * BLOCKS_A_PROCESSOR;
    jobs->launch.rows_low = rows_low;
    jobs->launch.rows_high = rows_high;
    if (jobs->has[tile_size(rows_high)])
        lf_cuda_launch(device, "linear", linear_tiles<format, TILES>, dim3(blocks), THREADS,
                       jobs->launch);
}

// Tiles suit the rows of each job; no bit depends on them.
template <enum lf_weight_format format>
static void launch_jobs(struct lf_device *device, struct listed *jobs) {
    launch_tiles<format, 1>(device, jobs, 0, TILE_ROWS);
    launch_tiles<format, 2>(device, jobs, TILE_ROWS, 2 * TILE_ROWS);
    launch_tiles<format, 8>(device, jobs, 2 * TILE_ROWS, UINT32_MAX);
}

// A group may have fewer rows than it may have at most.
static void add_sizes(struct listed *jobs, const struct lf_linear_job *job) {
    uint32_t size = tile_size(job->rows);
    for (uint32_t i = job->group ? 0 : size; i <= size; i++)
        jobs->has[i] = true;
}

// The next jobs of the format from *j on, as many as a launch takes.
static struct listed list_jobs(struct lf_device *device, const struct lf_linear_args *args,
                               enum lf_weight_format format, uint32_t *j) {
    struct listed jobs = {};
    const void *at = NULL;
    uint32_t most = args->n_jobs - *j < JOBS ? args->n_jobs - *j : JOBS, n = 0;
    struct lf_linear_work *work = jobs.launch.few;
    if (most > FEW) {
        work = (struct lf_linear_work *)lf_cuda_table_room(device->cuda, most * sizeof *work, &at);
        jobs.launch.table = (const struct lf_linear_work *)at;
    }
    for (; work && *j < args->n_jobs && n < most; ++*j) {
        const struct lf_linear_job *job = &args->job[*j];
        if (job->w->format != format || !job->rows)
            continue;
        work[n++] = work_of(job);
        add_sizes(&jobs, job);
    }
    jobs.launch.jobs = n;
    return jobs;
}

template <enum lf_weight_format format>
static void launch_format(struct lf_device *device, const struct lf_linear_args *args) {
    for (uint32_t j = 0; j < args->n_jobs;) {
        struct listed jobs = list_jobs(device, args, format, &j);
        if (!jobs.launch.jobs)
            return;
        launch_jobs<format>(device, &jobs);
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
