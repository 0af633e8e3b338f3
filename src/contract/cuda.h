// The device of a trial: memory that kernels and gates both reach, and work beside its launches.
#pragma once
#include "contract/check.h"
#include "device/cuda.h"

enum { LF_TRIAL_CLASSES = 48 };
struct lf_trial_cuda {
    struct lf_check_space space; // operands: blocks of a power of two, kept for the next launch
    struct lf_cuda *cuda;
    void *kept[LF_TRIAL_CLASSES]; // unused blocks by their power, each holds the next one's address
    struct lf_cuda *beside;       // another stream of the device
    void *busy;                   // what it fills while launches run
};

// The first device. A process that forks afterwards may not use it in the child.
LF_CHECKED enum lf_status lf_trial_cuda_open(struct lf_trial_cuda **out, struct lf_error *err);
void lf_trial_cuda_close(struct lf_trial_cuda *device); // NULL is allowed
// Starts work on the other stream that a launch may meet.
void lf_trial_cuda_disturb(struct lf_trial_cuda *device);
