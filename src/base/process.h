// What the kernel tells: its small files, `name: number` lines, this process's own figures.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

// A small file below root as text, root "" for this machine; false when it cannot be read.
bool lf_proc_text(struct lf_buffer *out, const char *root, const char *folder, const char *name);
// The number that follows name at the start of a line.
bool lf_proc_number(const char *text, const char *name, uint64_t *out);

// Bytes in memory; 0: the kernel does not tell.
struct lf_process_memory {
    uint64_t resident, resident_peak;
    uint64_t anonymous, mapped; // of resident: allocations, pages of files
};
void lf_process_memory_read(struct lf_process_memory *out);
// Asks for a file's pages that memory maps, all at once; what does not come is read when touched.
void lf_memory_bring(const void *memory, size_t bytes);
// Returns the whole pages inside memory to the system; it stays the caller's and reads as zeros.
void lf_memory_give_back(void *memory, size_t bytes);
