// The tensors that a configuration implies: name, kind, shape and whether they may be missing.
#pragma once
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "format/topology.h"

enum lf_want_kind {
    LF_WANT_F32,     // a vector or table read as float32: BF16, F16 or F32
    LF_WANT_BF16,    // read as bf16: BF16, or F16 and F32
    LF_WANT_PLAIN,   // a linear map NAME.weight that is not quantized: BF16, F16 or F32
    LF_WANT_LINEAR,  // a linear map NAME.weight in any format, NAME.scale where it needs one
    LF_WANT_TABLE,   // an Engram table: NAME.weight and NAME.scale, a scale for 32 values of a row
    LF_WANT_PRESENT, // only that it is there
};

// Required or optional together (checkpoint.md 4.2).
enum lf_want_group {
    LF_GROUP_TEXT,   // required
    LF_GROUP_ENGRAM, // tables: required from some source, each whole or absent
    LF_GROUP_IMAGE_BIAS, // gate.bias_vl: needed for image input only
    LF_GROUP_DRAFT,      // all or none
    LF_GROUP_DRAFT_BIAS, // draft gate.bias_vl: never used
    LF_GROUP_VISION,     // all or none
    LF_GROUPS,
};

struct lf_wanted {
    const char *name; // of linear maps and tables without .weight
    enum lf_want_kind kind;
    enum lf_want_group group;
    uint32_t rank; // 0 for LF_WANT_PRESENT
    uint64_t shape[2];
    uint32_t slice_rows; // rows that are cut out as a linear map of their own, 0: none are
};

struct lf_inventory {
    struct lf_wanted *wanted; // sorted by name
    size_t n;
    const char **parent; // sorted names that vectors hang under: "layers.3.attn"
    size_t parents;
};

// Everything lives in the arena.
LF_CHECKED enum lf_status lf_inventory_build(struct lf_inventory *out, struct lf_arena *arena,
                                             const struct lf_topology *topology,
                                             struct lf_error *err);

enum lf_tensor_role {
    LF_ROLE_WANTED,  // one of the tensors the configuration implies
    LF_ROLE_STRAY,   // an unknown last part under a known prefix: it would change the result
    LF_ROLE_UNKNOWN, // anything else: ignored, counted
};

// The entry a tensor (X.weight, X.scale or a vector's name) belongs to, or NULL.
const struct lf_wanted *lf_inventory_find(const struct lf_inventory *inventory,
                                          const char *tensor);
enum lf_tensor_role lf_inventory_role(const struct lf_inventory *inventory, const char *tensor);
// Whether the entry's tensor is NAME.weight rather than NAME itself.
static inline int lf_wanted_has_weight(const struct lf_wanted *w) {
    return w->kind == LF_WANT_PLAIN || w->kind == LF_WANT_LINEAR || w->kind == LF_WANT_TABLE;
}
