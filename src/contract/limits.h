// The limits pass: what a record's launches need at the served extremes, device by device (7).
#pragma once
#include "base/buffer.h"
#include "contract/shapes.h"
#include "contract/table.h"

// Of one record: what its breaches are said to, and how many there are.
struct lf_limit_pass {
    const struct lf_record *record;
    struct lf_buffer *lines;
    uint32_t problems;
};
void lf_limit_breach(struct lf_limit_pass *pass, const char *device, const char *what,
                     uint64_t need, uint64_t limit);
// Looks at the launches that CUDA's wrapper would make of each shape. In a child: opens the device.
void lf_limits_of_launches(struct lf_limit_pass *pass, const struct lf_entry *entry,
                           const struct lf_shapes *shapes);

// A line a breach: record, device (CPUs, or CUDA where sets has it), two numbers. Returns how many.
uint32_t lf_limits_check(const struct lf_record *record, const struct lf_entry *entry,
                         uint32_t sets, const struct lf_configs *configs, struct lf_buffer *lines);
