// The V4.1 side of the target interface: model.c opens, target.c and draft.c answer the rest.
#pragma once
#include "model/target.h"

extern const struct lf_target_ops lf_model_target_ops;
void lf_model_close(struct lf_target *target);
extern const struct lf_drafter_ops lf_model_drafter_ops;
