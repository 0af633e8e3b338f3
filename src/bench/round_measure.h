// Decode rounds and prompt chunks of a whole model on a device, timed there.
#pragma once
#include "bench/launch_marks.h"
#include "bench/options.h"
#include "model/v41.h"

// What the device does at most, of the same run.
struct lf_device_limits {
    double read, copy; // bytes/s of plain reading; read and written of copying
    double peak;       // operations/s of plain products of bf16
};

enum lf_round_phase {
    LF_ROUND_DECODE, // a row of every lane
    LF_ROUND_CHUNK,  // rows of one prompt that run in every layer
    LF_ROUND_MIDDLE, // rows of one prompt that goes on long after them (model.md 12.3)
};

struct lf_round {
    enum lf_round_phase phase;
    uint32_t rows;    // of a chunk; or lanes
    uint64_t context; // positions with the last row
    double seconds;   // the median, from the first byte sent to the last read
    uint64_t launches;
    bool fits;        // there was memory for its lanes
    struct lf_kernel_time kernel[LF_TIMED_KERNELS]; // times of a run of its own
};

struct lf_round_bench {
    struct lf_v41 *m; // on a device
    uint32_t reps;
    struct lf_launch_marks marks;
    struct lf_device_limits limits;
    uint64_t made[LF_BENCH_STREAMS_MAX]; // positions of each slot that are made up
    uint32_t *ids;                       // [most rows of a round]
    uint32_t seed;
};

// Fills slot 0 with positions made-up rows and measures the device.
LF_CHECKED enum lf_status lf_round_bench_open(struct lf_round_bench *bench, struct lf_v41 *m,
                                              const struct lf_bench_options *o,
                                              struct lf_error *err);
void lf_round_bench_close(struct lf_round_bench *bench);
// Storage of slots below lanes with made-up rows; LF_E_MEM where there is none.
LF_CHECKED enum lf_status lf_round_lanes(struct lf_round_bench *bench, uint32_t lanes,
                                         uint64_t positions, struct lf_error *err);
// phase, rows and context are given; fills the rest.
LF_CHECKED enum lf_status lf_round_measure(struct lf_round_bench *bench, struct lf_round *round,
                                           struct lf_error *err);
