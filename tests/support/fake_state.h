// The fake target's state: one cell a position, with the rules L-12 .. L-16 checked on each access.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "model/target.h"

// What the row of a position left: its token and the hash of the history up to it.
struct fake_cell {
    uint32_t token;
    uint64_t hash;
    bool fresh; // written by the newest row of its position
};

struct fake_slot {
    struct fake_cell *cell; // [context]
    uint64_t length, grown, tapped;
    uint64_t prompt; // length when the prompt was read
    uint32_t pending_rows;
    struct lf_bound plan[64];
    uint32_t n_plan;
    bool complete, logits, in_pass;
};

// The hash of a history of length ids; reads the newest cell and aborts where it is stale.
uint64_t fake_hash(const struct fake_slot *slot, uint64_t length);
void fake_write(struct fake_slot *slot, uint64_t position, uint32_t token);
// Cells from length on are leftovers of rejected rows: none may be read before it is rewritten.
void fake_keep(struct fake_slot *slot, uint64_t length);
uint64_t fake_step(uint64_t hash, uint32_t token);
uint32_t fake_token(uint64_t hash, uint64_t seed, uint32_t vocab);
void fake_clear(struct fake_slot *slot, uint64_t context);
// What prefill and verify owe a slot.
void fake_check_rows(const struct fake_slot *slot, const struct lf_target_info *info, uint64_t pos0,
                     const uint32_t *tok, uint32_t rows);
void fake_check_plan(struct fake_slot *slot, const struct lf_chunk *chunk);
