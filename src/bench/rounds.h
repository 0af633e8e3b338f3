// The bench of layers on a device: whole rounds, as served, kernel by kernel.
#pragma once
#include "bench/options.h"

// LF_E_ABSENT where the session's place is the CPU.
LF_CHECKED enum lf_status lf_bench_rounds(const struct lf_bench_options *o, struct lf_error *err);
