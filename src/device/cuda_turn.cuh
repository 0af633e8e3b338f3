// Launches that begin before the one ahead has ended: a kernel's first statement is lf_take_turn.
#pragma once
#include <cuda_runtime.h>

// Blocks of the launch after this one may come once all of ours have, into places ours leave free.
__device__ static inline void lf_let_next_begin(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Until the launch ahead has ended and what it wrote can be read; it ended after its own wait.
__device__ static inline void lf_wait_for_launches(void) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// What launches before the one ahead wrote is read from here on: it let us begin after its wait.
__device__ static inline void lf_read_old(void) {}

// Every thread of every kernel does both: by induction all launches ahead in its branch have ended.
__device__ static inline void lf_take_turn(void) {
    lf_let_next_begin();
    lf_wait_for_launches();
}
