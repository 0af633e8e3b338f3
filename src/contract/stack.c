// How much stack a launch takes: it runs on a painted one.
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include "base/error.h"
#include "contract/gates.h"
#include "contract/launch.h"

enum { STACK_BYTES = 4 << 20, PAINT = 0xA7 };

static void *run_on_it(void *launch) {
    if (launch)
        lf_launch_run(launch);
    return NULL;
}

// Bytes from the top of the stack down to the lowest changed one.
static size_t depth_of(struct lf_launch *launch) {
    pthread_attr_t attr;
    pthread_t thread;
    uint8_t *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1, 0);
    LF_ASSERT(stack != MAP_FAILED);
    memset(stack, PAINT, STACK_BYTES);
    LF_ASSERT(!pthread_attr_init(&attr) && !pthread_attr_setstack(&attr, stack, STACK_BYTES));
    LF_ASSERT(!pthread_create(&thread, &attr, run_on_it, launch));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    size_t low = 0;
    while (low < STACK_BYTES && stack[low] == PAINT)
        low++;
    munmap(stack, STACK_BYTES);
    return STACK_BYTES - low;
}

size_t lf_stack_measure(struct lf_launch *launch) {
    launch->call.trial->threads = 0; // one thread: all tasks run on the caller's stack
    lf_launch_run(launch);           // opens the pool
    size_t empty = depth_of(NULL), full = depth_of(launch);
    return full > empty ? full - empty : 0;
}
