// Which processor each worker gets, from what the machine has and this process may use.
#pragma once
#include "base/buffer.h"
#include "device/cpus.h"
#include "lanefold.h"

enum { LF_THREADS_MAX = 1024 };

struct lf_placement {
    uint32_t threads; // workers, the caller's thread included
    uint32_t cores;   // physical ones that this process may use
    uint32_t nodes;   // memory nodes that they lie on
    bool bound;       // workers 1 and up to cpu[worker]; nobody is bound to the caller's cpu[0]
    const char *why;  // it is not bound, in words; "" else
    uint64_t node_mask;            // new pages go round these nodes; 0: they lie as they come
    uint32_t cpu[LF_THREADS_MAX]; // the system's numbers
};

// threads 0: one a physical core, as many as the quota gives. LF_E_USAGE: cannot be bound so.
LF_CHECKED enum lf_status lf_placement_make(struct lf_placement *out, const struct lf_cpus *cpus,
                                            uint32_t threads, enum lf_pin pin,
                                            struct lf_error *err);
// The same for this machine and the calling thread's mask.
LF_CHECKED enum lf_status lf_placement_read(struct lf_placement *out, uint32_t threads,
                                            enum lf_pin pin, struct lf_error *err);
// `16 threads, 32 cores, 2 NUMA nodes: bound, memory interleaved`, without an end of line.
void lf_placement_print(struct lf_buffer *out, const struct lf_placement *placement);
