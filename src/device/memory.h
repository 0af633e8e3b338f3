// Memory that kernels work in. On a CPU it is the host's own; a device of its own brings its ops.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

struct lf_mem;
// Calls take effect in their order, after the kernels called before them. One thread at a time.
struct lf_mem_ops {
    void *(*alloc)(struct lf_mem *memory, size_t bytes); // zeroed, of 64-byte lines; NULL: none
    void (*free)(struct lf_mem *memory, void *at);
    // from may be written again at once.
    void (*upload)(struct lf_mem *memory, void *to, const void *from, size_t bytes);
    // Waits until to is filled; with zeros after a failure.
    void (*download)(struct lf_mem *memory, void *to, const void *from, size_t bytes);
    // Within the memory; from and to do not overlap.
    void (*copy)(struct lf_mem *memory, void *to, const void *from, size_t bytes);
    // Waits for all calls and kernels before; the first failure among them since the last wait.
    enum lf_status (*wait)(struct lf_mem *memory, struct lf_error *err);
};

struct lf_mem {
    const struct lf_mem_ops *ops;
};

// memory NULL, here and everywhere: the host's.
void *lf_mem_alloc(struct lf_mem *memory, size_t bytes);
// What an allocation of bytes takes of the host.
size_t lf_mem_taken(size_t bytes);
void lf_mem_free(struct lf_mem *memory, void *at); // NULL is ignored
// The same address on both sides is no work: the host's memory may be both.
void lf_mem_upload(struct lf_mem *memory, void *to, const void *from, size_t bytes);
void lf_mem_download(struct lf_mem *memory, void *to, const void *from, size_t bytes);
void lf_mem_copy(struct lf_mem *memory, void *to, const void *from, size_t bytes);
// What the calls since the last wait did not say (engine.md F-2); the host's memory never fails.
LF_CHECKED enum lf_status lf_mem_wait(struct lf_mem *memory, struct lf_error *err);
// at itself where the host may read it, else its bytes in bounce.
const void *lf_mem_read(struct lf_mem *memory, const void *at, size_t bytes, void *bounce);

// What the host writes and kernels read in a call: one block, sent with one upload.
struct lf_tables {
    struct lf_mem *memory;
    char *host, *seen; // the block here, and as kernels see it
    size_t bytes, used, sent;
};
struct lf_table {
    void *host; // written by the host before the next send, not read or written after it
    void *seen; // its address for kernels
};
// False: no memory.
bool lf_tables_open(struct lf_tables *tables, struct lf_mem *memory, size_t bytes);
void lf_tables_close(struct lf_tables *tables);
// Everything taken before is over.
void lf_tables_begin(struct lf_tables *tables);
// Room for bytes, of 64-byte lines; asserts that the block holds them.
struct lf_table lf_tables_take(struct lf_tables *tables, size_t bytes);
// Kernels see what was taken since the last send.
void lf_tables_send(struct lf_tables *tables);
