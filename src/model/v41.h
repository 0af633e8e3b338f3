// The model as forward sees it: weights, states, workspace and the kernel table in one struct.
#pragma once
#include "base/arena.h"
#include "device/pool.h"
#include "format/checkpoint.h"
#include "format/engram_layout.h"
#include "kernel/table.h"
#include "model/model.h"
#include "model/rope_table.h"
#include "model/state.h"
#include "model/weights.h"
#include "model/work.h"

struct lf_v41 {
    struct lf_target target; // first: a target pointer is a model pointer
    const struct lf_topology *t;
    const struct lf_token_map *map;
    struct lf_arena arena;
    struct lf_device device; // of the kernels of k
    struct lf_kernels k;
    struct lf_weights weights;
    struct lf_engram_layout engram_layout;
    struct lf_rope_table rope[2]; // 0 plain, 1 compressed
    float attention_scale, index_scale, engram_scale; // powers of model.md 1.1, rounded once
    uint32_t last_source;         // S of model.md 12.3
    bool no_cone;
    struct lf_state_shape shape;
    struct lf_state *state; // [slots]
    uint64_t saved_bytes;   // all saved states together, each page once
    struct lf_graphs *graphs; // graphs.c; NULL: launches run as they are
    struct lf_tables lanes;       // what lanes.c puts there, as kernels see it:
    struct lf_paged *lane_entry, *lane_key; // [sources][slots]
    uint8_t **lane_ring;          // [rings, open rows, taps][slots]
    float *logits_here;           // [vocab] for lf_model_logits where kernels' memory is apart
    struct lf_work work;
    struct lf_mem *aside;  // shape.memory for the thread that moves saved states to files and back
    void *weights_there;   // the weights where kernels' memory is apart; NULL: the checkpoint's
    uint64_t weights_there_bytes;
    uint64_t weights_taken, work_taken; // bytes
    _Atomic uint64_t kv_pages, kv_pages_used; // of all slots
    struct lf_target_info info;
};

// After the storage or the length of a slot changed: other threads read the totals.
void lf_model_tell_pages(struct lf_v41 *m, uint32_t slot);

// Rows of a call. Builds work.row and work.span from chunks or windows already checked.
void lf_batch_begin(struct lf_v41 *m);
// Adds the rows of one lane. plan NULL: every row in full, logits of every row wanted.
void lf_batch_add(struct lf_v41 *m, uint32_t lane, uint64_t pos0, const uint32_t *token,
                  uint32_t rows, const struct lf_bound *plan, uint32_t n_plan);
// The entries that the call completes, and its tables.
void lf_batch_end(struct lf_v41 *m);

// tables.c: what the host works out for kernels once the rows of a call are listed.
void lf_tables_make(struct lf_v41 *m);
// Parts of it for passes of the drafter: work.row with window targets and spans; its rotations.
void lf_tables_rows(struct lf_v41 *m, uint32_t rows);
void lf_tables_rope(struct lf_v41 *m, int which, uint32_t rows);

// lanes.c: by lane, for kernels; a ring of a layer or draft block, of open rows, of a tap's place.
LF_CHECKED enum lf_status lf_lanes_open(struct lf_v41 *m, struct lf_error *err);
uint64_t lf_lanes_bytes(const struct lf_state_shape *shape, uint32_t slots);
uint8_t *const *lf_lane_rings(const struct lf_v41 *m, uint32_t layer);
uint8_t *const *lf_lane_open(const struct lf_v41 *m, uint32_t source);
uint8_t *const *lf_lane_taps(const struct lf_v41 *m, uint32_t place);
// Of the source that a layer reads.
const struct lf_paged *lf_lane_entries(const struct lf_v41 *m, const struct lf_layer *layer);
const struct lf_paged *lf_lane_keys(const struct lf_v41 *m, const struct lf_layer *layer);

// Drops the rows of depth below depth_min from every buffer that outlives a sublayer.
void lf_rows_drop(struct lf_v41 *m, uint32_t depth_min);
bool lf_rows_drops(const struct lf_v41 *m, uint32_t depth_min); // whether there are any

// Section 4 of model.md over work.row: logits of the wanted rows land in work.logits in row order.
void lf_forward(struct lf_v41 *m);
// The same over the windows of a round.
void lf_forward_round(struct lf_v41 *m);

// One layer of it: Engram where it has one, attention, experts.
void lf_forward_layer(struct lf_v41 *m, const struct lf_layer *layer);

// Its second half: experts over the streams, from work.in that the first left; of draft blocks too.
void lf_forward_experts(struct lf_v41 *m, const struct lf_layer *layer,
                        const uint16_t *next_norm); // as lf_stream_expand's

// The streams of the live rows: work.x, with work.pre handed from sublayer to sublayer.
void lf_stream_start(struct lf_v41 *m);                                   // model.md 5
void lf_stream_mix(struct lf_v41 *m, const struct lf_hc_weights *hc);     // 7, from work.x
void lf_stream_collapse(struct lf_v41 *m, const uint16_t *norm); // to work.in and in_q, normed
// work.out joins; next_norm: and then lf_stream_collapse with it, NULL: not.
void lf_stream_expand(struct lf_v41 *m, const uint16_t *next_norm);

// One sublayer each, work.in to work.out over the live rows; experts to work.down and shared.
void lf_compress(struct lf_v41 *m, const struct lf_layer *layer);    // model.md 8.4-8.6 keys
// 8.1, 8.2; with_latent: also the latent of the queries, both maps in one launch.
void lf_window_keys(struct lf_v41 *m, const struct lf_layer *layer, bool with_latent);
void lf_attention_latent(struct lf_v41 *m, const struct lf_layer *layer); // 8.1, where it is not
void lf_attention_run(struct lf_v41 *m, const struct lf_layer *layer); // 8.1, 8.3, 8.8, 8.9
// 9; what of it reads the shared expert alone, before the rest and for a device's graphs beside it.
void lf_moe_shared(struct lf_v41 *m, const struct lf_layer *layer);
void lf_moe(struct lf_v41 *m, const struct lf_layer *layer);
void lf_engram(struct lf_v41 *m, const struct lf_layer *layer);      // 6.3, 6.4, on the streams
void lf_head(struct lf_v41 *m);                                      // 10

// What lf_attention_run consists of, in this order.
void lf_attention_queries(struct lf_v41 *m, const struct lf_layer *layer); // 8.1
void lf_indexer(struct lf_v41 *m, const struct lf_layer *layer);     // 8.6, 8.7: index sources
// Room for the scores of a row of the call: a power of two, so that graphs of launches last.
size_t lf_indexer_room(const struct lf_v41 *m, uint32_t ratio); // 0: no row is scored (8.6)
// What of it a layer's rows take, which score their candidates alone.
size_t lf_indexer_stride(const struct lf_v41 *m, const struct lf_layer *layer);
void lf_attention_read(struct lf_v41 *m, const struct lf_layer *layer); // 8.8
void lf_attention_output(struct lf_v41 *m, const struct lf_layer *layer); // 8.9
// The call's newest keys go to the rings after attention: long chunks read their own (8.3).
void lf_ring_fill(struct lf_v41 *m, const struct lf_layer *layer);

// The input a linear map reads: quantized where its weight's format asks for it (model.md 3.3).
static inline const uint16_t *lf_linear_input(const struct lf_matrix *w, const uint16_t *plain,
                                              const uint16_t *quantized) {
    return lf_matrix_quantizes_input(w) ? quantized : plain;
}
// QA8 values of rows of dim bf16.
void lf_quantize(struct lf_v41 *m, const uint16_t *x, uint16_t *y, uint32_t rows, uint32_t dim);
// quantized: QA8 values of y; NULL: none.
void lf_norm(struct lf_v41 *m, const uint16_t *x, const uint16_t *w, uint16_t *y,
             uint16_t *quantized, uint32_t rows, uint32_t dim);
// One linear map over all rows, x and y dense.
struct lf_linear_job lf_project_job(const struct lf_matrix *w, const uint16_t *x, void *y,
                                    uint32_t rows, int y_f32);
void lf_project(struct lf_v41 *m, const struct lf_matrix *w, const uint16_t *x, void *y,
                uint32_t rows, int y_f32);
