// model.safetensors.index.json: which file holds which tensor (checkpoint.md 8.2).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"

enum { LF_SHARD_INDEX_BYTES_MAX = 256 << 20 };

struct lf_shard_entry {
    const char *tensor;
    const char *file_name;
    uint32_t file;
};

struct lf_shard_index {
    struct lf_shard_entry *entry; // sorted by tensor name
    size_t entries;
    const char **file; // plain names, sorted
    uint32_t files;
    bool has_total;
    uint64_t total_bytes; // metadata.total_size as claimed
};

LF_CHECKED enum lf_status lf_shard_index_parse(struct lf_shard_index *out, struct lf_arena *arena,
                                               const char *text, size_t len, const char *origin,
                                               struct lf_error *err);
// NULL when the map does not name the tensor.
const struct lf_shard_entry *lf_shard_index_find(const struct lf_shard_index *index,
                                                 const char *tensor);
