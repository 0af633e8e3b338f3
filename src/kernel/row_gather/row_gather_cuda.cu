#include "kernel/row_gather/row_gather.h"

#include "kernel/launch.cuh"

// OWN: rows that a thread reads before it writes them.
enum { THREADS = 128, OWN = 8, VECTOR = sizeof(uint4), JOBS = 32 };

struct launch {
    struct lf_row_gather_job job[JOBS];
};

static __host__ __device__ bool is_wide(const struct lf_row_gather_job &job) {
    return (((uintptr_t)job.x | (uintptr_t)job.y | job.x_pitch | job.y_pitch | job.row_bytes) %
            VECTOR) == 0;
}

// Unit `at` of every row, in order: y may be x, where a row is read no later than it is written.
template <typename Unit>
__device__ static void move_units(const struct lf_row_gather_job &job, size_t at) {
    for (uint32_t first = 0; first < job.rows; first += OWN) {
        Unit unit[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            if (first + i < job.rows) {
                size_t from = job.index ? job.index[first + i] : first + i, pitch = job.x_pitch;
                LF_CONTROL(1, from -= first + i >= OWN && from > 0;)
                LF_CONTROL(4, from -= first + i == 5 && from > 0;)
                LF_CONTROL(5, pitch = job.row_bytes;) // 5: the gaps between rows of x are read
                LF_CONTROL(7, from = first + i;) // 7: the index is not read
                unit[i] = ((const Unit *)((const char *)job.x + from * pitch))[at];
            }
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            if (first + i < job.rows)
                ((Unit *)((char *)job.y + (first + i) * job.y_pitch))[at] = unit[i];
    }
}

__global__ static void row_gather_units(__grid_constant__ const struct launch launch) {
    lf_take_turn();
    const struct lf_row_gather_job &job = launch.job[blockIdx.y];
    size_t at = lf_thread();
    LF_CONTROL(2, if ((at + 1) * (is_wide(job) ? VECTOR : 1) == job.row_bytes) return;)
    LF_CONTROL(3, ((char *)job.y)[(job.rows - 1) * job.y_pitch + job.row_bytes] = 0;)
    LF_CONTROL(6, if (job.x == job.y && job.rows) ((char *)job.y)[job.row_bytes - 1] = 0;)
    if (is_wide(job)) {
        if (at < job.row_bytes / VECTOR)
            move_units<uint4>(job, at);
    } else if (at < job.row_bytes) {
        move_units<uint8_t>(job, at);
    }
}

static void launch_jobs(struct lf_device *device, const struct lf_row_gather_job *job,
                        uint32_t n) {
    struct launch launch;
    size_t units = 0;
    for (uint32_t j = 0; j < n; j++) {
        LF_ASSERT(job[j].row_bytes <= job[j].x_pitch && job[j].row_bytes <= job[j].y_pitch);
        LF_ASSERT(job[j].x != job[j].y || job[j].x_pitch == job[j].y_pitch);
        size_t own = is_wide(job[j]) ? job[j].row_bytes / VECTOR : job[j].row_bytes;
        units = own > units ? own : units;
        launch.job[j] = job[j];
    }
    lf_cuda_launch(device, "row_gather", row_gather_units, dim3(lf_blocks(units, THREADS), n),
                   THREADS, launch);
}

void lf_row_gather_cuda(struct lf_device *device, const struct lf_row_gather_args *args) {
    for (uint32_t first = 0; first < args->n_jobs; first += JOBS) {
        uint32_t n = args->n_jobs - first < JOBS ? args->n_jobs - first : (uint32_t)JOBS;
        launch_jobs(device, args->job + first, n);
    }
}
