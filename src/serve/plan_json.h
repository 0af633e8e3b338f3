// The memory plan as JSON, for /memory and for `lanefold plan --json`.
#pragma once
#include "base/buffer.h"

// Members of an object, without its braces.
void lf_plan_print_json(struct lf_buffer *out, const struct lf_memory_report *report);
