// One slot's state, every piece addressed by position (engine.md 3, model.md 12.1).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "device/memory.h"
#include "format/topology.h"
#include "kernel/row.h"
#include "model/target.h"

enum { LF_WINDOW_MAX = 16 };

// Sizes that follow from the topology, shared by all slots.
struct lf_state_shape {
    const struct lf_topology *t;
    struct lf_mem *memory; // where states lie; NULL: the host's
    bool apart;            // kernels' memory is not the host's
    uint64_t context;
    uint32_t ring_rows;   // a power of two, at least window + LF_WINDOW_MAX - 1 (L-15)
    uint32_t open_rows;   // ring of raw compressor rows, a power of two, at least LF_WINDOW_MAX + 2
    uint32_t window_bytes, entry_bytes, key_bytes; // packed row sizes
    uint32_t rings;       // window rings: the backbone's layers, then the draft blocks
    uint32_t tap_size;    // elements of a row's taps, in order; 0: no drafter
    uint32_t pages_max;   // pages of one source at ratio 1 for the whole context
};

struct lf_page;
// Of ring rows, taps, pages, open, last the host knows addresses only: device/memory.h moves bytes.
struct lf_state {
    uint64_t bounded_bytes, history_bytes; // allocated at open
    uint64_t pages_told, used_told; // pages grown and used when the totals were last told
    uint64_t length;       // committed rows
    uint64_t grown;        // positions that storage exists for
    bool complete;         // the state at length may be verified from, drawn from or saved
    bool logits_ready;     // last holds the logits of row length-1
    struct lf_bound plan[LF_PLAN_MAX]; // of the pass that is under way when not complete
    uint32_t n_plan;
    uint32_t pending_rows; // rows of the last verify that wait for a keep; 0: none
    uint32_t *history;     // [context] token ids by position
    uint8_t **ring;        // [rings][ring_rows] window rows; of draft blocks context rows (11.3)
    uint16_t *taps;        // bf16 [ring_rows][tap_size] by position (model.md 11.2)
    uint64_t taps_from;    // taps are there from this position to length
    uint64_t draft_from, draft_end; // context rows are there from .. end-1
    struct lf_paged *entry; // [sources] compressed rows, their addresses where kernels read them
    struct lf_paged *key;   // [sources] index keys
    struct lf_page ***entry_page, ***key_page; // [sources][pages_max] the same pages for the host
    float **open;          // [sources] raw v then g by position; NULL for ratio 1
    float *last;           // [vocab] logits of the last boundary that wanted them
};

void lf_state_shape_init(struct lf_state_shape *shape, const struct lf_topology *t,
                         uint64_t context);
// Room for a drafter: its rings follow the layers', and taps wait by position (L-21).
void lf_state_shape_add_drafter(struct lf_state_shape *shape);
LF_CHECKED enum lf_status lf_state_open(struct lf_state *state, const struct lf_state_shape *shape,
                                        struct lf_error *err);
void lf_state_close(struct lf_state *state, const struct lf_state_shape *shape);
// Makes storage for positions; storage already there stays (L-42).
LF_CHECKED enum lf_status lf_state_grow(struct lf_state *state, const struct lf_state_shape *shape,
                                        uint64_t positions, struct lf_error *err);
// The bytes of a slot: what every slot has, what a context needs at once, KV pages of positions.
uint64_t lf_state_bounded_bytes(const struct lf_state_shape *shape);
uint64_t lf_state_history_bytes(const struct lf_state_shape *shape);
uint64_t lf_state_history_there_bytes(const struct lf_state_shape *shape); // of it, for kernels
uint64_t lf_state_kv_bytes(const struct lf_state_shape *shape, uint64_t positions);
// Pages of all sources for positions; KV bytes of one position when pages are full.
uint64_t lf_state_pages(const struct lf_state_shape *shape, uint64_t positions);
uint64_t lf_state_position_bytes(const struct lf_state_shape *shape);
// The host's list of a source's entries or keys (which: 0, 1).
struct lf_page **lf_state_pages_of(const struct lf_state *state, int which, uint32_t source);
// Kernels see what stands at places first .. end-1 of that list.
void lf_state_show_pages(struct lf_state *state, const struct lf_state_shape *shape, int which,
                         uint32_t source, uint64_t first, uint64_t end);
// Length 0, and every page goes back (M-8).
void lf_state_reset(struct lf_state *state, const struct lf_state_shape *shape);
// SHA-256 over what rows from length on can read, in a fixed order (engine.md 9.3).
void lf_state_digest(const struct lf_state *state, const struct lf_state_shape *shape,
                     uint8_t out[32]);
