// One saved state in one file: head, keys, sections, checksum (engine.md C-19). Disk thread only.
#pragma once
#include "base/error.h"
#include "lane/cache_keys.h"
#include "model/target.h"

enum { LF_SPILL_HEAD_BYTES = 128, LF_FINGERPRINT_BYTES = 24 };

// The first bytes of a file; then ids, image spans, state, logits, SHA-256 of all before it.
struct lf_spill_head {
    char fingerprint[LF_FINGERPRINT_BYTES]; // of the model; NUL at the end
    uint64_t rows, hash;                // of the keys
    uint64_t born;                      // rows of the prompt that made it
    uint64_t state_bytes, logits_bytes; // logits_bytes 0: none
    uint32_t images, marks;
};

// What stands behind the head.
struct lf_spill_parts {
    uint32_t *token;             // [rows]
    struct lf_image_span *image; // [images]
    struct lf_saved *state, *logits; // logits NULL: none
};

uint64_t lf_spill_file_bytes(const struct lf_spill_head *head);
void lf_spill_head_pack(const struct lf_spill_head *head, uint8_t bytes[LF_SPILL_HEAD_BYTES]);
// LF_E_FORMAT: no head, or sizes that do not add up to file_bytes; LF_E_UNSUPPORTED: a version.
LF_CHECKED enum lf_status lf_spill_head_parse(struct lf_spill_head *head,
                                              const uint8_t bytes[LF_SPILL_HEAD_BYTES],
                                              uint64_t file_bytes, struct lf_error *err);
LF_CHECKED enum lf_status lf_spill_head_read(struct lf_spill_head *head, int fd,
                                             struct lf_error *err);
// At the start of an empty file; what it holds is on the disk afterwards.
LF_CHECKED enum lf_status lf_spill_file_write(int fd, struct lf_target *target,
                                              const struct lf_spill_head *head,
                                              const struct lf_spill_parts *parts,
                                              struct lf_error *err);
// The head must be want. States that are set are to be adopted, after a failure too.
LF_CHECKED enum lf_status lf_spill_file_read(int fd, struct lf_target *target,
                                             const struct lf_spill_head *want,
                                             struct lf_spill_parts *parts, struct lf_error *err);
