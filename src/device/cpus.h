// The processors of a machine as hwloc tells them, and what of them this process may use.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

// One hardware thread. Numbers of core, cache, node and package say only what is shared.
struct lf_cpu {
    uint32_t os; // the system's number
    uint32_t core, cache, package; // cache: the last level; one number for all where none is told
    uint32_t node;                 // the system's number of the memory node
    bool allowed;                  // by the control group and this thread's affinity mask
};

struct lf_cpus {
    struct lf_cpu *cpu; // [n] neighbours in the machine are neighbours in the list
    uint32_t n;
    uint32_t quota;     // processors' worth of time that the control group gives; 0: no limit
    bool here;          // of this machine, not made up
};

// made_up: a synthetic topology as hwloc spells it (all allowed), NULL: this machine.
LF_CHECKED enum lf_status lf_cpus_read(struct lf_cpus *out, const char *made_up,
                                       struct lf_error *err);
void lf_cpus_free(struct lf_cpus *cpus);
// Whole processors' worth of time that control groups give, at least 1; 0: no limit. root: or "".
uint32_t lf_cpus_quota(const char *root);
