// config.json to a checked topology: every size, layer list, id and seed of model.md 1 and 1.1.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum { LF_LAYERS_MAX = 256, LF_LIST_MAX = 64, LF_NGRAM_MAX = 8, LF_STREAMS_MAX = 8 };
enum { LF_ROPE_DIM_MAX = 2048 };

struct lf_rope_scaling {
    bool present; // absent: compressed layers rotate with compress_rope_theta unscaled
    double factor, beta_fast, beta_slow;
    uint32_t original_positions;
};

struct lf_topology {
    uint32_t layers;       // num_hidden_layers
    uint32_t draft_layers; // num_nextn_predict_layers, 0: no drafter
    uint32_t vocab, hidden;
    uint32_t heads, head_dim, rope_dim, q_lora, o_lora, o_groups;
    uint32_t window;
    uint8_t ratio[LF_LAYERS_MAX];     // 0, 1 or 2 a layer; draft layers have 0
    int16_t kv_source[LF_LAYERS_MAX];    // whose compressed cache a layer reads, -1 for ratio 0
    int16_t index_source[LF_LAYERS_MAX]; // layer whose selection a layer uses, -1 for ratio 0
    uint32_t n_kv_sources, kv_sources[LF_LIST_MAX];
    uint32_t n_index_sources, index_sources[LF_LIST_MAX];
    uint32_t index_heads, index_dim, index_topk;
    uint32_t candidate_source; // layer id
    uint32_t candidate_blocks, candidate_block_size;
    double rope_theta, compress_rope_theta;
    struct lf_rope_scaling rope_scaling;
    uint32_t positions_max; // max_position_embeddings
    float norm_eps;
    uint32_t streams, sinkhorn_iters; // hc_mult, hc_sinkhorn_iters
    float hc_eps;
    uint32_t experts, experts_top, shared_experts, expert_dim;
    float route_scale, swiglu_limit;
    uint32_t n_engram, engram_layers[LF_LIST_MAX];
    uint64_t engram_rows[LF_LIST_MAX];
    uint32_t engram_ngram, engram_heads, engram_dim;
    uint64_t engram_vocab; // where the prime search starts
    uint32_t engram_pad_id, engram_classes;
    uint32_t draft_block, draft_noise_id, draft_markov_rank, draft_experts, draft_experts_top;
    uint32_t n_draft_taps, draft_taps[LF_LIST_MAX];
    uint32_t bos_id, eos_id, pad_id;
    uint32_t image_id; // UINT32_MAX when a text-only config has none
    bool has_quantization;  // quantization_config present with quant_method fp8 or exl3
    struct lf_quantization {
        bool exl3;                     // quant_method exl3, else fp8
        uint32_t n_block, block[2];    // weight_block_size, n_block 0 when absent
        bool scale_ue8m0, expert_fp4;  // scale_fmt ue8m0, expert_dtype fp4
    } quantization;
    bool has_vision;        // vision_config present (its fields are read when pictures are served)
    uint32_t vision_layers; // blocks of the image tower, 0 without one
    char config_sha256[65];
};

// What sets layers of a model apart: what they cache, choose and look up, as bits.
enum {
    LF_KIND_RATIO = 3, // the ratio itself
    LF_KIND_KV_SOURCE = 4,
    LF_KIND_INDEX_SOURCE = 8,
    LF_KIND_ENGRAM = 16,
    LF_KIND_RESTRICTED = 32, // above the candidate source
    LF_KIND_CANDIDATES = 64, // it is the candidate source
    LF_KINDS = 128,
};
uint32_t lf_topology_kind(const struct lf_topology *t, uint32_t layer);

// Reads and checks config.json (checkpoint.md 1.1 rules 1-2, 2.1, 2.2); origin names the file.
LF_CHECKED enum lf_status lf_topology_parse(struct lf_topology *out, const char *json, size_t len,
                                            const char *origin, struct lf_error *err);
