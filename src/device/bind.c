#include "device/bind.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void lf_bind_cpu(uint32_t os) {
    cpu_set_t *set = CPU_ALLOC(os + 1);
    size_t bytes = CPU_ALLOC_SIZE(os + 1);
    if (!set)
        return;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(os, bytes, set);
    (void)sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}

bool lf_bind_is_free(void) {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0 && mode == MPOL_DEFAULT;
}

void lf_bind_interleave(uint64_t node_mask) {
    // The system takes one bit less than it is told.
    if (node_mask)
        (void)syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &node_mask, 64 + 1);
}

void lf_bind_local(uint64_t node_mask) {
    if (node_mask)
        (void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}
