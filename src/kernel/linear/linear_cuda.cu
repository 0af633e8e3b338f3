#include "kernel/linear/linear.h"

#include "kernel/linear/linear_chunk.cuh"
#include "kernel/linear/linear_plain.cuh"
#include "kernel/linear/mma.cuh"

// A block: 16 outputs by up to 8 TILES rows; its warps take parts of K, and add them in order.
enum { OUTS = 16, TILE_ROWS = 8, WARPS = 8, THREADS = WARPS * LF_WARP, JOBS = 192 };

struct launch {
    const struct lf_linear_work *work;
    uint32_t jobs;
};

// The last job that begins at or before the block.
__device__ static const struct lf_linear_work *find_work(const struct launch &launch) {
    uint32_t low = 0, high = launch.jobs;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (launch.work[middle].first_block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return &launch.work[low];
}

// One part of K: a chain of k16 steps from zero for 16 outputs and 8 TILES rows.
template <enum lf_weight_format format, int TILES>
__device__ static void add_part(const struct lf_linear_work &w, uint32_t out, uint32_t row,
                                uint32_t k0, float sum[TILES][4]) {
    const uint32_t chunk = lf_chunk_elements(format), last = w.out - 1;
    uint32_t lane = threadIdx.x % LF_WARP, group = lane / 4, own = lane % 4 * chunk;
    uint32_t low_out = out + group < last ? out + group : last;
    uint32_t high_out = out + group + 8 < last ? out + group + 8 : last;
    uint32_t end = k0 + LF_LINEAR_PART < w.in ? k0 + LF_LINEAR_PART : w.in;
    for (uint32_t slab = k0; slab < end; slab += 4 * chunk) {
        uint32_t low[chunk / 2], high[chunk / 2];
        lf_load_chunk<format>(w, low_out, slab + own, low);
        lf_load_chunk<format>(w, high_out, slab + own, high);
#pragma unroll
        for (uint32_t step = 0; step < chunk / 4; step++) {
            uint32_t a[4] = {low[2 * step], high[2 * step], low[2 * step + 1], high[2 * step + 1]};
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                uint32_t r = row + tile * TILE_ROWS + group;
                uint2 x = lf_load_x(w, r < w.rows ? r : w.rows - 1, slab + own + 4 * step);
                uint32_t b[2] = {x.x, x.y};
                lf_mma_bf16(sum[tile], a, b);
            }
        }
    }
}

template <enum lf_weight_format format, int TILES>
__global__ static void linear_blocks(struct launch launch) {
    const uint32_t numbers = OUTS * TILE_ROWS * TILES, own = (numbers + THREADS - 1) / THREADS;
    __shared__ float part_sum[WARPS][numbers]; // [row][output]
    const struct lf_linear_work w = *find_work(launch);
    uint32_t row_blocks = (w.rows + TILE_ROWS * TILES - 1) / (TILE_ROWS * TILES);
    uint32_t block = blockIdx.x - w.first_block, row = block % row_blocks * TILE_ROWS * TILES;
    uint32_t out = block / row_blocks * OUTS, warp = threadIdx.x / LF_WARP;
    uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t parts = (w.in + LF_LINEAR_PART - 1) / LF_LINEAR_PART;
    float total[own];
    for (uint32_t first = 0; first < parts; first += WARPS) {
        float sum[TILES][4] = {};
        if (first + warp < parts)
            add_part<format, TILES>(w, out, row, (first + warp) * LF_LINEAR_PART, sum);
        for (int i = 0; i < 4 * TILES; i++) {
            uint32_t r = i / 4 * TILE_ROWS + lane % 4 * 2 + i % 2, o = lane / 4 + i % 4 / 2 * 8;
            part_sum[warp][r * OUTS + o] = sum[i / 4][i % 4];
        }
        __syncthreads();
        for (uint32_t i = 0; i < own; i++) {
            uint32_t at = i * THREADS + threadIdx.x;
            for (uint32_t p = 0; at < numbers && p < WARPS && first + p < parts; p++)
                total[i] = first + p ? total[i] + part_sum[p][at] : part_sum[p][at];
        }
        __syncthreads();
    }
    for (uint32_t i = 0; i < own; i++) {
        uint32_t at = i * THREADS + threadIdx.x;
        if (at < numbers)
            lf_store_sum(w, row + at / OUTS, out + at % OUTS, total[i]);
    }
}

static bool is_aligned(const void *p, size_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

static struct lf_linear_work work_of(const struct lf_linear_job *job) {
    const struct lf_matrix *m = job->w;
    bool whole = m->in % 8 == 0 && job->x_stride % 4 == 0 && is_aligned(job->x, 8) &&
                 is_aligned(m->data, 16);
    LF_ASSERT(m->in > 0 && (!lf_matrix_quantizes_input(m) ||
                            (m->in % 32 == 0 && is_aligned(m->data, 16))));
    return {m->data,       m->scale, job->x, job->x_index, job->y, job->x_stride,
            job->y_stride, m->out,   m->in,  job->rows,    0,      job->y_f32 != 0, whole};
}

template <enum lf_weight_format format>
static void launch_jobs(struct lf_cuda *cuda, struct lf_linear_work *work, uint32_t jobs) {
    uint32_t blocks = 0, most = 0;
    for (uint32_t j = 0; j < jobs; j++)
        most = work[j].rows > most ? work[j].rows : most;
    uint32_t rows = most <= TILE_ROWS ? TILE_ROWS : 4 * TILE_ROWS;
    for (uint32_t j = 0; j < jobs; j++) {
        work[j].first_block = blocks;
        blocks += lf_blocks(work[j].rows, rows) * lf_blocks(work[j].out, OUTS);
    }
    struct launch launch = {lf_cuda_table_of(cuda, work, jobs), jobs};
    lf_cuda_launch(cuda, "linear",
                   rows == TILE_ROWS ? linear_blocks<format, 1> : linear_blocks<format, 4>,
                   dim3(blocks), THREADS, launch);
}

// The launch's jobs of one format, some at a time.
template <enum lf_weight_format format>
static void launch_format(struct lf_cuda *cuda, const struct lf_linear_args *args) {
    struct lf_linear_work work[JOBS];
    uint32_t n = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_linear_job *job = &args->job[j];
        if (job->w->format != format || !job->rows)
            continue;
        work[n++] = work_of(job);
        if (n == JOBS) {
            launch_jobs<format>(cuda, work, n);
            n = 0;
        }
    }
    if (n)
        launch_jobs<format>(cuda, work, n);
}

void lf_linear_cuda(struct lf_cuda *cuda, const struct lf_linear_args *args) {
    launch_format<LF_WEIGHT_BF16>(cuda, args);
    launch_format<LF_WEIGHT_FP8>(cuda, args);
    launch_format<LF_WEIGHT_MXFP4>(cuda, args);
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_linear_job *job = &args->job[j];
        bool is_plain = job->w->format == LF_WEIGHT_F16 || job->w->format == LF_WEIGHT_F32;
        if (is_plain && job->rows)
            launch_plain(cuda, work_of(job), job->w->format);
    }
}
