// The buffers of one forward call, allocated once for the most rows a call may have.
#pragma once
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "device/memory.h"
#include "format/topology.h"
#include "kernel/row.h"
#include "model/draft.h"
#include "model/state.h"

// The compressed entries that rows of a call complete, for one ratio.
struct lf_entries {
    uint32_t n;
    uint32_t *lane;     // [n]
    uint64_t *number;   // [n] entry index j in its lane
    float *cos, *sin;   // [n][rope_dim/2] at position j*ratio, for kernels
};

// Rows that stay where a layer drops some: those of depth at least depth_min.
struct lf_drop {
    uint32_t depth_min, rows;
    const uint32_t *kept; // [rows] places before the drop, for kernels
};

// The tables of a call as kernels see them; a drop closes them up, except span and row_all.
struct lf_seen {
    const struct lf_row *row_all; // [rows_all]
    struct lf_row *row;           // [rows]
    const struct lf_span *span;   // [slots]
    float *cos[2], *sin[2];       // [rows][rope_dim/2]; 0 plain, 1 compressed
    uint8_t **key_dst;            // [rows] where window keys of the call are packed
    uint32_t *visible[2];         // [rows] entries that a row sees, by ratio - 1
    uint64_t *number[LF_LIST_MAX]; // [rows][columns] of each Engram table
    const uint8_t *value[LF_LIST_MAX], *scale[LF_LIST_MAX]; // what the numbers count rows of
    const uint32_t *wanted;       // places of the last live rows whose logits are wanted
    uint8_t *const *entry_dst[LF_LIST_MAX], *const *index_dst[LF_LIST_MAX]; // by source [n]
    const float *const *pair[LF_LIST_MAX][2]; // by source of ratio 2: the entries' raw rows
};

// A buffer as it was taken, so that its end can be given back.
struct lf_work_buffer {
    char *at;
    size_t bytes;
    int of_host; // of the arena
};
enum { LF_WORK_BUFFERS = 80 };

struct lf_work {
    uint32_t rows_max, experts_max, pairs_max, logits_rows_max; // drafter included
    // Of the host alone.
    struct lf_row *row_all; // [rows_max] the call as given
    struct lf_row *row;     // [rows_max] rows still alive at the present layer
    uint32_t rows_all, rows, n_wanted;
    struct lf_span *span; // [slots]
    struct lf_drop drop[LF_LAYERS_MAX + 1]; // of the call, in order
    uint32_t n_drops;
    struct lf_entries entries[2];    // ratio 1, ratio 2
    struct lf_linear_job *job, *job_room; // [2*experts + 8 + o_groups] of a launch; its own room
    // Of the host and of kernels.
    struct lf_tables tables;
    struct lf_seen seen;
    // Of kernels alone: the host knows the addresses.
    uint16_t *x;          // streams, bf16 [rows][streams][hidden]
    float *pre;           // [rows][streams], handed from sublayer to sublayer
    float *pre_next, *post, *comb; // [rows][streams], [rows][streams], [rows][streams][streams]
    uint16_t *in, *in_q;  // sublayer input and its QA8 values, bf16 [rows][hidden]
    uint16_t *out;        // sublayer output, bf16 [rows][hidden]
    uint16_t *latent, *latent_key; // [rows][head_dim], [rows][index_dim]
    float *raw;           // [rows][2*head_dim] v then g of the call
    uint16_t *k;          // [rows][head_dim]
    uint8_t *call_keys;   // [rows][window_bytes] by call place
    uint16_t *qr, *qr_q;  // [rows][q_lora]; qr_q also of latents, [rows][head_dim]
    uint16_t *q, *o;      // [rows][heads][head_dim]
    uint16_t *u, *u_q;    // [rows][o_groups*o_lora]
    uint16_t *iq, *iw;    // [rows][index_heads][index_dim], [rows][index_heads]
    float *score;         // [score_floats], shared out among as many rows as it holds
    size_t score_floats;
    uint32_t *selected, *n_selected; // [rows][index_topk], [rows]
    uint32_t *blocks, *n_blocks;     // [rows][candidate_blocks], [rows]
    float *route_logits;             // [rows][experts]
    uint32_t *route_id;              // [rows][top]
    float *route_weight;             // [rows][top]
    uint32_t *pair_row, *pair_of;    // [pairs] row of a pair, [rows][top] pair of a choice
    float *pair_weight;              // [pairs]
    uint32_t *expert_first;          // [experts+1]
    uint16_t *gate, *up;             // [pairs + rows][expert_dim], shared rows last
    uint16_t *down, *shared;         // [pairs][hidden], [rows][hidden]
    uint16_t *engram_rows, *engram_kv; // [rows][columns*dim], [rows][(streams+1)*hidden]
    float *logits;                   // [logits_rows_max][vocab]
    uint32_t *drawn;                 // [logits_rows_max] ids drawn from them
    struct lf_logprob_row *logprob;  // [logits_rows_max]
    struct lf_draft_work draft;      // empty without a drafter
    struct lf_work_buffer buffer[LF_WORK_BUFFERS]; // all of the above, in the order taken
    uint32_t n_buffers;
    uint64_t bytes, bytes_here; // of the buffers; of them the host's alone
};

// Of the host alone: LF_WORK_HOST; all others lie where kernels work.
enum lf_work_part { LF_WORK_ROWS, LF_WORK_ROTARY, LF_WORK_LOGITS, LF_WORK_HOST, LF_WORK_PARTS };
// The bytes that lf_work_open would take, without taking them.
void lf_work_bytes(uint64_t bytes[LF_WORK_PARTS], const struct lf_state_shape *shape,
                   uint32_t slots, uint32_t rows_max, uint32_t logits_rows_max);
LF_CHECKED enum lf_status lf_work_open(struct lf_work *work, struct lf_arena *arena,
                                       const struct lf_state_shape *shape, uint32_t slots,
                                       uint32_t rows_max, uint32_t logits_rows_max,
                                       struct lf_error *err);
void lf_work_close(struct lf_work *work, struct lf_mem *memory);
// Gives back what only calls of more rows than rows use; such calls take it again.
void lf_work_trim(const struct lf_work *work, const struct lf_state_shape *shape, uint32_t slots,
                  uint32_t rows);
