// Arena: many small allocations with one owner, freed together.
#pragma once
#include <stddef.h>

struct lf_arena_block;
struct lf_arena {
    struct lf_arena_block *last; // newest block, NULL when empty
    size_t bytes;                // of all blocks
};

enum { LF_ARENA_ALIGN = 64 };
// What an allocation of bytes takes of a block.
static inline size_t lf_arena_rounded(size_t bytes) {
    return (bytes + LF_ARENA_ALIGN - 1) & ~(size_t)(LF_ARENA_ALIGN - 1);
}
// Zeroed memory aligned to 64 bytes, or NULL when memory ran out or the size overflows.
void *lf_arena_alloc(struct lf_arena *arena, size_t count, size_t bytes_each);
// A NUL-terminated copy of len bytes, or NULL.
char *lf_arena_copy(struct lf_arena *arena, const char *text, size_t len);
void lf_arena_free(struct lf_arena *arena);
