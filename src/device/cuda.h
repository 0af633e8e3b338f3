// One CUDA device: its memory, one stream of launches, and its errors as sentences.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lf_cuda;

struct lf_cuda_info {
    char name[64];
    int major, minor; // compute capability
    uint32_t processors;
    size_t memory_bytes, free_bytes; // free: when the device was opened
};

// LF_E_ABSENT: no such device or driver; LF_E_UNSUPPORTED: not capability 9.0; LF_E_MEM: too full.
LF_CHECKED enum lf_status lf_cuda_open(struct lf_cuda **out, int index, struct lf_error *err);
void lf_cuda_close(struct lf_cuda *cuda); // NULL is allowed; frees the stream, not lf_cuda_alloc's
const struct lf_cuda_info *lf_cuda_info(const struct lf_cuda *cuda);
// The deadline of every wait for this device (F-4); 300 s unless told.
void lf_cuda_set_wait(struct lf_cuda *cuda, double wait_s);

// Memory of 256-byte lines for all that is queued later. LF_E_MEM: `what`, bytes, what is free.
LF_CHECKED enum lf_status lf_cuda_alloc(struct lf_cuda *cuda, void **out, size_t bytes,
                                        const char *what, struct lf_error *err);
// The same at an address that the host reaches as well, while no launch is on its way: for checks.
LF_CHECKED enum lf_status lf_cuda_alloc_shared(struct lf_cuda *cuda, void **out, size_t bytes,
                                               const char *what, struct lf_error *err);
// Memory of the host that lf_cuda_send reads; lf_cuda_free takes it too, after a wait.
LF_CHECKED enum lf_status lf_cuda_alloc_pinned(struct lf_cuda *cuda, void **out, size_t bytes,
                                               const char *what, struct lf_error *err);
void lf_cuda_free(struct lf_cuda *cuda, void *memory); // NULL is allowed; once all queued has ended
// Bytes that lf_cuda_alloc has handed out on the device, now and at most. Any thread.
uint64_t lf_cuda_held_bytes(const struct lf_cuda *cuda, uint64_t *most);

// On the stream, after all launches before. Host memory may be changed when a call returns.
void lf_cuda_upload(struct lf_cuda *cuda, void *to, const void *from, size_t bytes);
// From pinned memory, which is not to be changed before a wait.
void lf_cuda_send(struct lf_cuda *cuda, void *to, const void *pinned, size_t bytes);
void lf_cuda_fill(struct lf_cuda *cuda, void *to, uint8_t byte, size_t bytes);
void lf_cuda_copy(struct lf_cuda *cuda, void *to, const void *from, size_t bytes); // on the device
// Waits until the bytes are there; zeros after a failure, which is kept.
void lf_cuda_read(struct lf_cuda *cuda, void *to, const void *from, size_t bytes);
// The same with the status of a wait.
LF_CHECKED enum lf_status lf_cuda_download(struct lf_cuda *cuda, void *to, const void *from,
                                           size_t bytes, struct lf_error *err);

// Void calls keep their first failure and then do nothing until this reports it as LF_E_DEVICE.
LF_CHECKED enum lf_status lf_cuda_wait(struct lf_cuda *cuda, struct lf_error *err);
// A fault poisoned the context, or a wait passed its deadline (engine.md F-3, F-4): all is over.
bool lf_cuda_is_lost(const struct lf_cuda *cuda);
// A failure waits to be reported.
bool lf_cuda_has_failed(const struct lf_cuda *cuda);

// Room for a launch's table, to be filled before it: here, and *at on the device. NULL: a failure.
enum { LF_CUDA_TABLE_BYTES = 2 << 20 };
void *lf_cuda_table_room(struct lf_cuda *cuda, size_t bytes, const void **at);

// Milliseconds of device time between two calls of lf_cuda_mark; both must have been waited for.
enum { LF_CUDA_MARKS = 128 };
void lf_cuda_mark(struct lf_cuda *cuda, int mark); // 0 to LF_CUDA_MARKS - 1
float lf_cuda_between_ms(struct lf_cuda *cuda, int from, int to);
// Launches that ran since the device was opened, those of graphs one by one.
uint64_t lf_cuda_launches(const struct lf_cuda *cuda);

// A launch's shape as it is asked for, and what the device says of its function.
struct lf_cuda_shape {
    const char *name; // of the kernel
    uint32_t grid[3], threads;
    size_t shared_bytes;    // static and dynamic
    uint32_t registers;     // of a thread
    uint32_t threads_most;  // that the function can have in a block
};
typedef void lf_cuda_watcher(void *ctx, const struct lf_cuda_shape *shape);
// From here on launches are told to the watcher and not made; NULL: they are made again.
void lf_cuda_watch(struct lf_cuda *cuda, lf_cuda_watcher *watcher, void *ctx);

#ifdef __cplusplus
}
#endif
