// Where a thread runs and where its new pages lie. Calls that the system refuses change nothing.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// The calling thread runs on the processor of this number of the system.
void lf_bind_cpu(uint32_t os);
// Whether nobody chose yet where the calling thread's pages lie (numactl, an embedder).
bool lf_bind_is_free(void);
// New pages of the calling thread, and of threads it starts, go round the nodes; 0: no change.
void lf_bind_interleave(uint64_t node_mask);
// They lie on the node of the thread that touches them first, as at a process's start; 0: the same.
void lf_bind_local(uint64_t node_mask);
