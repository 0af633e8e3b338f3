// The V4.1 family on a device: weights, per-slot state, forward; a target for lane/.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "format/checkpoint.h"
#include "device/placement.h"
#include "kernel/table.h"
#include "model/target.h"
#include "text/token_map.h"

enum { LF_LAUNCH_ROWS = 64 };

// Where a model runs that is not on this machine's CPU.
struct lf_model_device {
    struct lf_cuda *cuda;
    const struct lf_kernels *kernels;
    struct lf_mem *memory; // weights, states and calls lie there
    struct lf_mem *aside;  // the same memory for one other thread, beside the kernels
    const char *arithmetic; // names the bits that kernels give
    const char *name;       // of the device and what its times depend on
};

struct lf_model_options {
    enum lf_isa isa;
    const struct lf_placement *placement; // of the threads; NULL: as they come, as many as
    uint32_t threads;                     // 0: all cores
    uint32_t slots;      // 0: 1
    uint64_t context;    // positions a slot; 0: the model's
    uint32_t chunk_rows; // most rows of one prefill call; 0: lf_model_chunk_rows
    bool no_drafts;      // leave the checkpoint's drafter out
    bool no_cone;        // run every row in full (tests: cone == full)
    const struct lf_model_device *device; // NULL: the CPU; read at open alone
    struct lf_mem *memory; // on the CPU: where states and calls lie (tests); NULL: the host's
};

// Fetches all tensors, allocates state; checkpoint and map must outlive the target.
LF_CHECKED enum lf_status lf_model_open(struct lf_target **out, struct lf_checkpoint *checkpoint,
                                        const struct lf_token_map *map,
                                        const struct lf_model_options *options,
                                        struct lf_error *err);
// Rows of a chunk where nobody says: 2,048, or 1,024 or 512 where each expert gets 32 from them.
uint32_t lf_model_chunk_rows(const struct lf_topology *topology);
// Scratch of one thread: the most that any kernel asks for.
uint64_t lf_model_scratch_bytes(const struct lf_topology *topology);
struct lf_model_memory {
    uint64_t weights, work, scratch; // bytes taken for pointers to weights, for calls, by threads
    uint64_t weights_there;          // on a device: then all but weights, scratch are its part
    uint64_t bounded, history;       // of all slots
    uint64_t kv_pages, kv_pages_used; // of all slots: for what is promised, for rows there are
    uint64_t kv_bytes;
};
// What the model holds now. Any thread.
void lf_model_memory_read(struct lf_target *t, struct lf_model_memory *out);
// The logits of the last prefill boundary or of row i of the last verify, until the next call.
const float *lf_model_logits(struct lf_target *t, uint32_t slot, uint32_t row);
// Prefills rows and returns the logits of every one: out [rows][vocab] (score). Commits the rows.
LF_CHECKED enum lf_status lf_model_score(struct lf_target *t, const struct lf_chunk *chunk,
                                         float *out, struct lf_error *err);
// Log-probabilities of id[i] under row i of logits [rows][vocab], out [rows] (S-20).
LF_CHECKED enum lf_status lf_model_logprobs(struct lf_target *t, const float *logits, uint32_t rows,
                                            const uint32_t *id, struct lf_logprob_row *out,
                                            struct lf_error *err);
