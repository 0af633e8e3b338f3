#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGN = LF_ARENA_ALIGN };

struct lf_arena_block {
    struct lf_arena_block *before;
    size_t used, size;
    _Alignas(ALIGN) unsigned char data[];
};

static struct lf_arena_block *block_new(struct lf_arena *arena, size_t need) {
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    if (size > SIZE_MAX - sizeof(struct lf_arena_block) - ALIGN)
        return NULL;
    size_t total = (sizeof(struct lf_arena_block) + size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct lf_arena_block *block = aligned_alloc(ALIGN, total);
    if (!block)
        return NULL;
    memset(block, 0, total);
    block->size = size;
    block->before = arena->last;
    arena->last = block;
    arena->bytes += total;
    return block;
}

void *lf_arena_alloc(struct lf_arena *arena, size_t count, size_t bytes_each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = lf_arena_rounded(bytes);
    struct lf_arena_block *block = arena->last;
    if (!block || block->size - block->used < bytes)
        block = block_new(arena, bytes);
    if (!block)
        return NULL;
    void *memory = block->data + block->used;
    block->used += bytes;
    return memory;
}

char *lf_arena_copy(struct lf_arena *arena, const char *text, size_t len) {
    char *copy = len < SIZE_MAX ? lf_arena_alloc(arena, len + 1, 1) : NULL;
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

void lf_arena_free(struct lf_arena *arena) {
    while (arena->last) {
        struct lf_arena_block *before = arena->last->before;
        free(arena->last);
        arena->last = before;
    }
    arena->bytes = 0;
}
