// The monotonic clock in seconds; only differences mean anything.
#pragma once
#include <pthread.h>
#include <stdbool.h>

double lf_clock_s(void);
// Waits for cond until lf_clock_s() is until_s; false when it is. It may return for nothing.
bool lf_clock_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until_s);
