#include "base/clock.h"

#include <math.h>
#include <time.h>

// Farther than any wait, and still a number of seconds that time_t holds.
static const double latest_s = 1e12;

double lf_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool lf_clock_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until_s) {
    double at = fmin(fmax(until_s, 0), latest_s), whole = floor(at);
    struct timespec until = {.tv_sec = (time_t)whole, .tv_nsec = (long)((at - whole) * 1e9)};
    return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until) == 0;
}
