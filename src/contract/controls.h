// Planted controls: a kernel's file compiled with a fault, run instead of the served one (6).
#pragma once
#include "contract/trial.h"

// One control on one set. A child's work: the outcome's failed says which gates turned red.
struct lf_control_run {
    const struct lf_record *record;
    const struct lf_entry *entry;
    const struct lf_control *control;
    const char *faults; // folder of NAME.n.so, and of cuda.so
    const struct lf_shape *all;
    uint32_t shapes;
    uint32_t sets; // those to try, as bits
    bool plain_memory; // of the trial
    uint64_t seed;
    struct lf_effort effort;
};
// Stops at the first set on which a gate of red_in passes.
void lf_control_work(void *run, struct lf_outcome *outcome);
