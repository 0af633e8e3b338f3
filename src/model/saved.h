// Saved states of exact prefixes: whole pages by reference, the rest copied (engine.md 12).
#pragma once
#include "model/target.h"

// The target's side of save_bytes .. adopt; see model/target.h.
uint64_t lf_model_save_bytes(struct lf_target *target, uint64_t at, uint32_t what);
uint64_t lf_model_save_need(struct lf_target *target, uint32_t slot, uint64_t at, uint32_t what);
uint64_t lf_model_saved_total(struct lf_target *target);
LF_CHECKED enum lf_status lf_model_save(struct lf_target *target, uint32_t slot, uint64_t at,
                                        uint32_t what, struct lf_saved **out,
                                        struct lf_error *err);
LF_CHECKED enum lf_status lf_model_restore(struct lf_target *target, uint32_t slot,
                                           const struct lf_saved *saved, struct lf_error *err);
void lf_model_drop(struct lf_target *target, struct lf_saved *saved);
// saved_file.c: file_bytes .. adopt.
uint64_t lf_model_file_bytes(struct lf_target *target, uint64_t at, uint32_t what);
LF_CHECKED enum lf_status lf_model_saved_write(struct lf_target *target,
                                               const struct lf_saved *saved, lf_bytes_out *out,
                                               void *ctx, struct lf_error *err);
LF_CHECKED enum lf_status lf_model_saved_read(struct lf_target *target, uint64_t at, uint32_t what,
                                              lf_bytes_in *in, void *ctx, struct lf_saved **saved,
                                              struct lf_error *err);
void lf_model_adopt(struct lf_target *target, struct lf_saved *saved);
