// Log lines on standard error, text or JSON. Never prompt text, reply text or keys.
#pragma once
#include <stdbool.h>
#include "base/error.h"
#include "lanefold.h"

// Of lines on standard error; lf_log_to takes all lines instead.
void lf_log_setup(enum lf_log_level lowest, bool json);
void lf_log(enum lf_log_level level, const char *format, ...) LF_PRINTF(2, 3);
