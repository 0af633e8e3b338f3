// A checkpoint folder: topology, shards and tensors fetched by name (checkpoint.md 4.2).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "format/matrix.h"
#include "format/topology.h"

struct lf_checkpoint;

enum lf_dtype {
    LF_DTYPE_BF16,
    LF_DTYPE_F16,
    LF_DTYPE_F32,
    LF_DTYPE_F8_E4M3,
    LF_DTYPE_F8_E8M0,
    LF_DTYPE_I8,
    LF_DTYPE_U8,
    LF_DTYPE_I16,
    LF_DTYPE_I32,
    LF_DTYPE_F4,
    LF_DTYPE_OTHER, // known to safetensors, never wanted here
};
enum { LF_DTYPES = LF_DTYPE_OTHER + 1 };

struct lf_tensor {
    const char *name;
    enum lf_dtype dtype;
    const char *dtype_name; // as written in the header
    uint32_t rank;
    uint64_t shape[8];
    const uint8_t *data; // in the mapping; any alignment
    uint64_t bytes;
    const char *file;
    const struct lf_tensor *shares; // made up: the tensor whose data this is; NULL: its own
};

// MODEL: a folder, else a hub name in the cache (8.3); the error names the hf download command.
LF_CHECKED enum lf_status lf_model_find(char *folder, size_t folder_bytes, const char *model,
                                        struct lf_error *err);
// Reads config, index and headers of the files with wanted tensors; maps them, reads no weight.
LF_CHECKED enum lf_status lf_checkpoint_open(struct lf_checkpoint **out, const char *folder,
                                             struct lf_error *err);
void lf_checkpoint_close(struct lf_checkpoint *checkpoint); // NULL is allowed
const struct lf_topology *lf_checkpoint_topology(const struct lf_checkpoint *checkpoint);
// Bytes of a tensor that nobody reads again leave memory; made-up ones are gone for good.
void lf_checkpoint_forget(const struct lf_checkpoint *checkpoint, const void *at, uint64_t bytes);
const char *lf_checkpoint_folder(const struct lf_checkpoint *checkpoint);
// NULL when the checkpoint has no such tensor.
const struct lf_tensor *lf_checkpoint_find(const struct lf_checkpoint *checkpoint,
                                           const char *name);

// F32 values; BF16 and F16 are widened into the checkpoint's memory. Dtype and shape are checked.
LF_CHECKED enum lf_status lf_checkpoint_f32(struct lf_checkpoint *checkpoint, const float **out,
                                            const char *name, uint32_t rank, const uint64_t *shape,
                                            struct lf_error *err);
// BF16 values (norms, Engram q/k); F16 and F32 are taken where every value is exactly bf16.
LF_CHECKED enum lf_status lf_checkpoint_bf16(struct lf_checkpoint *checkpoint, const uint16_t **out,
                                             const char *name, uint32_t rank, const uint64_t *shape,
                                             struct lf_error *err);
// A linear map NAME.weight (+ NAME.scale), rows x cols; its tensors tell the format (1.1 rule 5).
LF_CHECKED enum lf_status lf_checkpoint_matrix(struct lf_checkpoint *checkpoint,
                                               struct lf_matrix *out, const char *name,
                                               uint32_t rows, uint32_t cols, struct lf_error *err);
// An FP8 Engram table of layer: values [rows][dim], scales [rows][dim/32] (5.4).
struct lf_engram_table {
    uint64_t rows;
    uint32_t dim;
    const uint8_t *value, *scale;
};
LF_CHECKED enum lf_status lf_checkpoint_engram(struct lf_checkpoint *checkpoint,
                                               struct lf_engram_table *out, uint32_t layer,
                                               struct lf_error *err);

// What a checkpoint holds (lanefold info). Pointers live as long as the checkpoint.
struct lf_checkpoint_summary {
    const char *config_sha256;
    bool indexed;             // model.safetensors.index.json was used
    uint32_t files, files_missing; // files named, and those of them that are not there
    uint64_t tensors, payload_bytes, dtype_bytes[LF_DTYPES]; // of the opened files
    uint64_t text_bytes, table_bytes; // of them: the text model without, and its Engram tables
    uint64_t draft_bytes, vision_bytes;
    uint64_t held_bytes; // memory of names and headers
    uint64_t linears[LF_WEIGHT_FORMATS];                     // linear maps by format
    uint64_t total_claimed; // the index's metadata.total_size, 0 when it has none
    uint64_t ignored;       // tensors that nothing reads
    const char *const *ignored_name;
    uint64_t bias_vl_missing; // any: image input is refused
    const char *const *bias_vl_missing_name;
    uint64_t bias_rounded; // ffn.gate.bias tensors that are not F32
    const char *const *bias_rounded_name;
    bool has_engram_tables; // every table is in this folder
    bool has_drafts, has_vision;
};
void lf_checkpoint_summary(const struct lf_checkpoint *checkpoint,
                           struct lf_checkpoint_summary *out);
// A folder that only has to hold the Engram tables (checkpoint.md 7.2): nothing else is checked.
LF_CHECKED enum lf_status lf_checkpoint_open_tables(struct lf_checkpoint **out, const char *folder,
                                                    struct lf_error *err);
