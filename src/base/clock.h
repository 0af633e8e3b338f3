// The monotonic clock in seconds; only differences mean anything.
#pragma once

double lf_clock_s(void);
