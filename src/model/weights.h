// The model's tensors: a pointer each, its shape beside it, checked where it is fetched.
#pragma once
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "device/cuda.h"
#include "device/memory.h"
#include "device/pool.h"
#include "format/checkpoint.h"

// A gated map pair and its way back: w1 and w3 [expert_dim][hidden], w2 [hidden][expert_dim].
struct lf_expert {
    struct lf_matrix w1, w3, w2;
};

// One sublayer's hyper-connection weights, all float32 (model.md 7).
struct lf_hc_weights {
    const float *fn;    // [streams*(2+streams)][streams*hidden]
    const float *base;  // [streams*(2+streams)]
    const float *scale; // [3]
};

struct lf_engram_weights {
    uint32_t table;               // its place in engram_layers
    struct lf_engram_table rows;  // [rows][engram_dim] with scales
    struct lf_matrix wkv;         // [(streams+1)*hidden][columns*engram_dim]
    const uint16_t *q_weight;     // bf16 [streams][hidden]
    const uint16_t *k_weight;     // bf16 [streams][hidden]
};

struct lf_layer {
    uint32_t id, ratio; // draft blocks follow the backbone's layers
    uint32_t experts, top;
    const uint16_t *attn_norm, *ffn_norm; // bf16 [hidden]
    struct lf_hc_weights hc_attn, hc_ffn;
    struct lf_matrix wq_a;        // [q_lora][hidden]
    const uint16_t *q_norm;       // bf16 [q_lora]
    struct lf_matrix wq_b;        // [heads*head_dim][q_lora]
    struct lf_matrix wkv;         // [head_dim][hidden]
    const uint16_t *kv_norm;      // bf16 [head_dim]
    const float *attn_sink;       // [heads]
    struct lf_matrix *wo_a;       // [o_groups], each [o_lora][heads/o_groups*head_dim]
    struct lf_matrix wo_b;        // [hidden][o_groups*o_lora]
    struct lf_matrix gate;        // [experts][hidden]
    const float *gate_bias;       // [experts]
    struct lf_expert *expert;     // [experts]
    struct lf_expert shared;
    bool kv_source, index_source;
    struct lf_matrix comp_wkv;    // kv source: [head_dim][hidden]
    struct lf_matrix comp_wgate;  // kv source of ratio 2: [head_dim][hidden]
    const uint16_t *comp_norm;    // kv source: bf16 [head_dim]
    struct lf_matrix index_wk;    // kv source: [index_dim][head_dim]
    const uint16_t *index_k_norm; // kv source: bf16 [index_dim]
    struct lf_matrix index_wq_b;  // index source: [index_heads*index_dim][q_lora]
    struct lf_matrix index_proj;  // index source: [index_heads][hidden]
    struct lf_engram_weights *engram; // NULL on most layers
};

// The drafter: blocks of the backbone's shape, what feeds them and what reads them (model.md 11).
struct lf_draft_weights {
    struct lf_layer *block;       // [draft_layers]
    struct lf_matrix main_proj;   // [hidden][taps*hidden]
    const uint16_t *main_norm;    // bf16 [hidden]
    const uint16_t *norm;         // bf16 [hidden]
    struct lf_matrix markov_embed, markov_head; // [vocab][rank]
    struct lf_matrix confidence;  // [1][hidden+rank]
};

struct lf_weights {
    struct lf_matrix embed, head; // [vocab][hidden]
    const uint16_t *norm;         // bf16 [hidden]
    struct lf_layer *layer;       // [layers]
    struct lf_draft_weights *draft; // NULL: no drafter
};

// The names, dtypes and shapes of model.md 2; the first that does not fit is named.
LF_CHECKED enum lf_status lf_weights_fetch(struct lf_weights *out, struct lf_arena *arena,
                                           struct lf_checkpoint *checkpoint, struct lf_error *err);
// The same of mtp.*, for a checkpoint that has them: sets draft.
LF_CHECKED enum lf_status lf_weights_fetch_draft(struct lf_weights *out, struct lf_arena *arena,
                                                 struct lf_checkpoint *checkpoint,
                                                 struct lf_error *err);

// Brings the tensors that kernels read to memory, where they lie in one block.
struct lf_weights_move {
    struct lf_mem *memory;
    struct lf_cuda *cuda; // makes up what the checkpoint left (format/dummy.h)
    struct lf_pool *pool; // reads the files
    struct lf_checkpoint *checkpoint;
    void *block;    // set: what the weights then point into, the caller's to free
    uint64_t bytes; // set: of it
};
// Engram rows stay where they are. Afterwards the checkpoint's tensors are not to be read.
LF_CHECKED enum lf_status lf_weights_move(struct lf_weights_move *move, struct lf_weights *weights,
                                          struct lf_error *err);
