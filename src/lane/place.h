// Where a session's model runs: the CPU, or a CUDA device that is opened before it is planned.
#pragma once
#include "device/cuda_memory.h"
#include "format/topology.h"
#include "model/model.h"

struct lf_place {
    struct lf_cuda *cuda;  // NULL: the CPU
    struct lf_cuda *aside; // the same device for the thread of saved states
    struct lf_cuda_memory memory, memory_aside;
    struct lf_model_device model; // of the above, for lf_model_open
    char name[16];                // cpu, cuda:0
    char words[96], times[64];    // for people; what launch times depend on
    bool chosen;                  // nobody named it: the CPU may take its place
};

// device: auto, cpu, cuda, cuda:N; NULL: auto. wait_s: the deadline of waits, 0: 300 s.
LF_CHECKED enum lf_status lf_place_open(struct lf_place *place, const char *device, double wait_s,
                                        struct lf_error *err);
// LF_E_UNSUPPORTED where the device's kernels do not take the model's sizes.
LF_CHECKED enum lf_status lf_place_check(const struct lf_place *place,
                                         const struct lf_topology *topology, struct lf_error *err);
// To the CPU, where nobody named the device; why goes to the log.
void lf_place_leave(struct lf_place *place, const char *why);
void lf_place_close(struct lf_place *place); // also of zeros
// For lf_model_open; NULL: the CPU.
const struct lf_model_device *lf_place_model(const struct lf_place *place);
