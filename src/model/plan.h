// The memory a model will need, line by line, before anything is loaded (engine.md 13, M-1).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "format/topology.h"

enum lf_plan_part {
    LF_PLAN_WEIGHTS,
    LF_PLAN_ENGRAM,
    LF_PLAN_DRAFTER,
    LF_PLAN_VISION,
    LF_PLAN_INDEX,
    LF_PLAN_STATE,
    LF_PLAN_HISTORY,
    LF_PLAN_KV,
    LF_PLAN_WORK,
    LF_PLAN_LOGITS,
    LF_PLAN_ROTARY,
    LF_PLAN_SCRATCH,
    LF_PLAN_CACHE,
    LF_PLAN_TEXT,
    LF_PLAN_RUNTIME,
    LF_PLAN_PARTS,
};

struct lf_model_memory;
// What a plan follows from: sizes of the checkpoint and the numbers that will apply, none 0.
struct lf_plan_ask {
    const struct lf_topology *t;
    bool drafter;                       // it takes part
    bool device;                        // kernels work in memory that is not the host's
    bool made_up;                       // weights and tables are no files
    uint64_t draft_bytes;               // its tensors
    uint64_t weight_bytes, table_bytes; // tensors of the text model; Engram tables apart
    uint64_t index_bytes;               // names and headers of the tensors
    uint64_t text_bytes;                // the tokenizer as it was read
    uint64_t context, cache_bytes;
    uint32_t slots, chunk_rows, threads;
};

struct lf_plan {
    uint64_t bytes[LF_PLAN_PARTS];      // where kernels work: all there is where that is the host
    uint64_t host_bytes[LF_PLAN_PARTS]; // beside a device
    uint64_t need, host_need;    // all lines that count
    uint64_t launch_bytes;       // of the workspace, what a decode launch uses
    uint64_t kv_position_bytes;  // of one position of one slot
    uint64_t kv_pages;           // promised to all slots
    uint64_t context;
    uint32_t slots, chunk_rows, threads;
};

// Never less for a longer context, more slots, a larger chunk or a larger cache.
void lf_plan_make(struct lf_plan *out, const struct lf_plan_ask *ask);
// The line's name in JSON, and in words for a table.
const char *lf_plan_key(enum lf_plan_part part);
const char *lf_plan_words(enum lf_plan_part part);
// Whether a line is part of the need: Engram tables are read a row at a time and stay on disk.
bool lf_plan_counts(enum lf_plan_part part);
// What was measured exceeds its plan by more than M-6 allows.
bool lf_plan_exceeded(uint64_t planned, uint64_t measured);
// What a loaded model took, by line; 0: not known of that line.
void lf_plan_measure(uint64_t bytes[LF_PLAN_PARTS], const struct lf_plan *plan,
                     const struct lf_model_memory *memory);
