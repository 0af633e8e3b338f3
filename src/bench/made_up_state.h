// Slots' caches filled without a prompt, so that layers can run at any position.
#pragma once
#include "model/v41.h"

// Rings, entries and index keys of slot 0 up to positions, packed by cache_pack: valid bytes.
LF_CHECKED enum lf_status lf_state_make_up(struct lf_v41 *m, uint64_t positions, uint64_t seed,
                                           struct lf_error *err);
// The same bytes in pages of another slot's own, up to at most the positions of slot 0.
LF_CHECKED enum lf_status lf_state_copy_made_up(struct lf_v41 *m, uint32_t slot,
                                                uint64_t positions, struct lf_error *err);
