// Weights without files: values that follow from (seed, tensor name, index), for any config.json.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "format/checkpoint.h"

// Rows of an Engram table when nobody says how many (a release table would take 94 GiB).
enum { LF_DUMMY_TABLE_ROWS = 1 << 20 };

struct lf_dummy {
    uint64_t seed;
    const uint32_t *layer; // [n_layers] of config.json that remain, ascending; see topology_cut.h
    uint32_t n_layers;     // 0: all
    uint64_t table_rows;   // Engram tables of more rows are cut to about so many; 0: never
    bool shared;           // layers of a kind have the tensors of the first of them, held once
};

// Of folder only config.json is read. Text model and drafter, no image tower; filled by parts.
LF_CHECKED enum lf_status lf_checkpoint_open_dummy(struct lf_checkpoint **out, const char *folder,
                                                   const struct lf_dummy *dummy,
                                                   struct lf_error *err);
bool lf_checkpoint_is_dummy(const struct lf_checkpoint *checkpoint);
// Parts of the memory, to be filled in any order and side by side; those of the drafter are last.
uint32_t lf_dummy_parts(const struct lf_checkpoint *checkpoint, bool drafter);
// Fills one part; the form of a thread pool's task.
void lf_dummy_fill(void *checkpoint, uint32_t part, uint32_t worker);
// Before the parts are filled: linear maps will be made up where kernels read them.
void lf_dummy_leave_maps(struct lf_checkpoint *checkpoint);
struct lf_dummy_rule;
// Whether what lies there was left: then its rule (dummy_rule.h) and place in its tensor.
bool lf_dummy_left(const struct lf_checkpoint *checkpoint, const uint8_t *at,
                   struct lf_dummy_rule *rule, uint64_t *offset);
// The checkpoint's tensors; their memory has the same order but where tensors share it.
const struct lf_tensor *lf_dummy_tensors(const struct lf_checkpoint *checkpoint, uint64_t *n);
// bytes of a tensor from offset on, a multiple of 8, as lf_dummy_fill would leave them.
void lf_dummy_write(const struct lf_tensor *tensor, uint64_t seed, uint64_t offset, uint64_t bytes,
                    uint8_t *out);
