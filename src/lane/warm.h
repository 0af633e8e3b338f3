// The largest chunk and the largest launch once, so that memory is measured before a request (M-6).
#pragma once
#include "base/error.h"
#include "model/target.h"

// All slots must be free; they are reset afterwards.
LF_CHECKED enum lf_status lf_target_warm(struct lf_target *target, struct lf_error *err);
