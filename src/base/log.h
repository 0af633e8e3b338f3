// Log lines on standard error, text or JSON. Never prompt text, reply text or keys.
#pragma once
#include <stdbool.h>
#include "base/error.h"

enum lf_log_level { LF_LOG_DEBUG, LF_LOG_INFO, LF_LOG_WARN, LF_LOG_ERROR };

void lf_log_setup(enum lf_log_level lowest, bool json);
void lf_log(enum lf_log_level level, const char *format, ...) LF_PRINTF(2, 3);
