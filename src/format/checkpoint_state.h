// Inside of an opened checkpoint, shared by the files that open, check and fetch.
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "format/checkpoint.h"
#include "format/dummy.h"
#include "format/inventory.h"
#include "format/safetensors.h"
#include "format/shard_index.h"

struct lf_shard {
    const char *name; // plain file name
    struct lf_map map;
    struct lf_safetensors header;
    bool opened, missing;
    uint64_t placed; // tensors that the index places in it
    uint32_t groups; // bit 1 << lf_want_group for each group with tensors placed in it
};

// Of a checkpoint without files: its tensors, text model first, and the parts that each has.
struct lf_dummy_store {
    uint64_t seed;
    struct lf_tensor *tensor; // [n]; [0..n_text) are not the drafter's
    uint64_t n, n_text;
    uint32_t *part_end; // [n] parts up to and with a tensor
    const struct lf_tensor **own; // [n_own] those with memory of their own, in its order
    uint64_t n_own;
    bool shared;    // layers of a kind share one's
    bool maps_left; // to whoever made them up elsewhere
    uint8_t *data;      // NULL: this checkpoint has files
    uint64_t bytes;
};

struct lf_checkpoint {
    struct lf_topology topology;
    struct lf_inventory inventory;
    struct lf_arena arena;
    const char *folder;
    bool indexed, tables_only;
    struct lf_shard_index index;
    struct lf_shard *shard;
    uint32_t shards;
    const struct lf_tensor **tensor; // of all opened files, sorted by name
    size_t tensors;
    struct lf_checkpoint_summary summary;
    struct lf_dummy_store dummy;
};

// Opens the weight files of the folder and collects their tensors (8.2).
LF_CHECKED enum lf_status lf_shards_open(struct lf_checkpoint *c, struct lf_error *err);
void lf_shards_close(struct lf_checkpoint *c);
// The tensors of the inventory in memory that is set apart; c->topology is cut before.
LF_CHECKED enum lf_status lf_dummy_open(struct lf_checkpoint *c, const struct lf_dummy *dummy,
                                        struct lf_error *err);
void lf_dummy_close(struct lf_checkpoint *c);
// Refuses a folder whose only weights are GGUF files (1.1 rule 2).
LF_CHECKED enum lf_status lf_folder_check_gguf(struct lf_checkpoint *c, struct lf_error *err);
// Holds every tensor against the configuration (1.1 rules 5 and 6, 4.2); fills the summary.
LF_CHECKED enum lf_status lf_checkpoint_check(struct lf_checkpoint *c, struct lf_error *err);
// A tensor of an expected dtype (bit 1 << lf_dtype) and shape; dtypes names them in messages.
LF_CHECKED enum lf_status lf_tensor_fetch(const struct lf_checkpoint *c,
                                          const struct lf_tensor **out, const char *name,
                                          uint32_t dtype_set, const char *dtypes, uint32_t rank,
                                          const uint64_t *shape, struct lf_error *err);
// NAME.weight and NAME.scale of an Engram table.
LF_CHECKED enum lf_status lf_table_fetch(const struct lf_checkpoint *c,
                                         struct lf_engram_table *out, const char *name,
                                         uint64_t rows, uint32_t dim, struct lf_error *err);
// BF16, F16 or F32, for values that are widened.
enum { LF_DTYPE_SET_PLAIN = 1 << LF_DTYPE_BF16 | 1 << LF_DTYPE_F16 | 1 << LF_DTYPE_F32 };
