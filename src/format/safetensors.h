// One safetensors file in memory: its header checked by every rule of checkpoint.md 8.1.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "format/checkpoint.h"

enum { LF_TENSOR_NAME_MAX = 512, LF_TENSOR_RANK_MAX = 8 };

struct lf_safetensors {
    struct lf_tensor *tensor; // sorted by name, in the arena
    size_t tensors;
    uint64_t header_bytes; // where the data starts
};

// bytes is the whole file; tensors point into it. file names it in messages and must stay valid.
LF_CHECKED enum lf_status lf_safetensors_parse(struct lf_safetensors *out, struct lf_arena *arena,
                                               const uint8_t *bytes, size_t len, const char *file,
                                               struct lf_error *err);
// NULL when the file has no such tensor.
const struct lf_tensor *lf_safetensors_find(const struct lf_safetensors *header, const char *name);
// Rule 4: not empty, at most 512 bytes, no control characters. The name is valid UTF-8.
LF_CHECKED enum lf_status lf_tensor_name_check(const char *name, const char *origin,
                                               struct lf_error *err);
// The usual name of a dtype, for messages.
const char *lf_dtype_name(enum lf_dtype dtype);
