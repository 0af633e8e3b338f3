// The V4.1 model's side of the target interface; model.c opens, target.c answers the rest.
#pragma once
#include "model/target.h"

extern const struct lf_target_ops lf_model_target_ops;
void lf_model_close(struct lf_target *target);
