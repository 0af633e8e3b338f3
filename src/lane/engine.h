// Inside the engine of lanefold.h: started over any target (engine.md 1.1, 2, 6).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "lanefold.h"
#include "model/target.h"

// Takes the target over and closes it at the end; a refusal leaves it to the caller.
LF_CHECKED enum lf_status lf_engine_start(struct lf_engine **out, struct lf_target *target,
                                          const struct lf_engine_options *options,
                                          struct lf_error *err);
// The one sentence for a request past the context (api.md 4); param: its field, or "".
enum lf_status lf_engine_refuse_length(uint64_t context, uint64_t prompt, uint64_t reply,
                                       const char *param, struct lf_error *err);
const struct lf_target_info *lf_engine_info(const struct lf_engine *engine);
bool lf_engine_drafts(const struct lf_engine *engine); // whether drafting can happen
