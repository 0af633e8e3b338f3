// The parts of a device, for the files cuda*.cu of this folder alone.
#pragma once
#include "device/cuda_graph.h"
#include "device/cuda_stream.cuh"

// Pinned memory that copies from and to the host go through, in pieces.
enum { LF_CUDA_STAGE_BYTES = 8 << 20, LF_CUDA_PIECE_BYTES = 1 << 20 };

// Launches of a graph that run beside others; made when used.
struct lf_cuda_branch {
    cudaStream_t stream;
    cudaEvent_t done;
    bool is_open; // not joined yet
};

struct lf_cuda {
    struct lf_cuda_info info;
    int index;
    double wait_s; // engine.md F-4
    cudaStream_t stream;
    cudaEvent_t mark[LF_CUDA_MARKS]; // made when first used
    cudaMemPool_t pool;
    uint8_t *ring_host, *ring_device; // tables of launches: pinned, and where they are sent
    uint64_t launches, table_bytes;
    size_t used, sent;                // bytes of the ring
    void *scratch;
    uint8_t *stage;
    size_t staged; // bytes of the stage that copies under way may still read
    uint64_t held, held_most; // bytes of the pool, read by any thread
    struct lf_cuda_graph *kept; // what launches are kept in; NULL: they run
    struct lf_cuda_branch branch[LF_CUDA_BRANCHES], *aside; // aside: where launches go, or NULL
    cudaEvent_t fork;           // where a branch begins
    bool waits;                 // the next launch waits in full
    lf_cuda_watcher *watcher;   // whom they are told to instead
    void *watcher_ctx;
    struct lf_error failure;
    bool lost;
};

extern "C" {
// Makes the device the calling thread's; false after a failure: then nothing is to be queued.
bool lf_cuda_ready(struct lf_cuda *cuda);
// Waits for all that was queued, at most the deadline; false after a failure, which stays.
bool lf_cuda_drain(struct lf_cuda *cuda);
// lf_cuda_table_room of a launch that is kept.
void *lf_cuda_graph_room(struct lf_cuda *cuda, size_t bytes, const void **at);
}
