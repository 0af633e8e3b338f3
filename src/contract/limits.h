// The limits pass: what a record's launches need at the served extremes, device by device (7).
#pragma once
#include "base/buffer.h"
#include "contract/shapes.h"
#include "contract/table.h"

// A line a breach: record, device (CPUs, or CUDA where sets has it), two numbers. Returns how many.
uint32_t lf_limits_check(const struct lf_record *record, const struct lf_entry *entry,
                         uint32_t sets, const struct lf_configs *configs, struct lf_buffer *lines);
