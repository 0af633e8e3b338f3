// The device that the host pretends to be: what a test may change about it.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct host_cuda {
    int devices, major, minor;
    size_t free_bytes, memory_bytes;
    int fail_launch;  // error of the next launch, or 0
    bool fail_sticks; // later calls give it as well
    int sticky;       // the error that stays, or 0
    int fail_alloc;   // the allocation from now that finds no memory, 1: the next; or 0
    bool busy;        // the stream never ends
    unsigned graphs;  // launched
    int registers;    // of a thread of every kernel
    void (*enter)(void), (*leave)(void); // called around the blocks of a launch, or NULL
    void (*wait)(void); // called where a launch's first thread has waited for those ahead, or NULL
};
extern struct host_cuda host_cuda;

#ifdef __cplusplus
}
#endif
