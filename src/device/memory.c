#include "device/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

size_t lf_mem_taken(size_t bytes) {
    return bytes + LINE;
}

// Zeroed by the system where it is large: what nobody uses takes no memory.
static void *host_alloc(size_t bytes) {
    char *block = bytes <= SIZE_MAX - LINE ? calloc(1, bytes + LINE) : NULL;
    if (!block)
        return NULL;
    char *at = block + LINE - (uintptr_t)block % LINE;
    at[-1] = (char)(at - block);
    return at;
}

static void host_free(void *at) {
    if (at)
        free((char *)at - ((char *)at)[-1]);
}

void *lf_mem_alloc(struct lf_mem *memory, size_t bytes) {
    return memory ? memory->ops->alloc(memory, bytes) : host_alloc(bytes);
}

void lf_mem_free(struct lf_mem *memory, void *at) {
    if (!memory)
        host_free(at);
    else if (at)
        memory->ops->free(memory, at);
}

static void host_copy(void *to, const void *from, size_t bytes) {
    if (to != from && bytes)
        memcpy(to, from, bytes);
}

void lf_mem_upload(struct lf_mem *memory, void *to, const void *from, size_t bytes) {
    if (!memory)
        host_copy(to, from, bytes);
    else if (bytes)
        memory->ops->upload(memory, to, from, bytes);
}

void lf_mem_download(struct lf_mem *memory, void *to, const void *from, size_t bytes) {
    if (!memory)
        host_copy(to, from, bytes);
    else if (bytes)
        memory->ops->download(memory, to, from, bytes);
}

void lf_mem_copy(struct lf_mem *memory, void *to, const void *from, size_t bytes) {
    if (!memory)
        host_copy(to, from, bytes);
    else if (bytes)
        memory->ops->copy(memory, to, from, bytes);
}

enum lf_status lf_mem_wait(struct lf_mem *memory, struct lf_error *err) {
    return memory ? memory->ops->wait(memory, err) : LF_OK;
}

const void *lf_mem_read(struct lf_mem *memory, const void *at, size_t bytes, void *bounce) {
    if (!memory)
        return at;
    lf_mem_download(memory, bounce, at, bytes);
    return bounce;
}

bool lf_tables_open(struct lf_tables *tables, struct lf_mem *memory, size_t bytes) {
    *tables = (struct lf_tables){.memory = memory, .bytes = bytes};
    tables->seen = lf_mem_alloc(memory, bytes);
    tables->host = memory ? lf_mem_alloc(NULL, bytes) : tables->seen;
    return tables->seen && tables->host;
}

void lf_tables_close(struct lf_tables *tables) {
    if (tables->memory)
        lf_mem_free(NULL, tables->host);
    lf_mem_free(tables->memory, tables->seen);
}

void lf_tables_begin(struct lf_tables *tables) {
    tables->used = tables->sent = 0;
}

struct lf_table lf_tables_take(struct lf_tables *tables, size_t bytes) {
    size_t at = tables->used;
    LF_ASSERT(bytes <= tables->bytes && at <= tables->bytes - bytes);
    size_t end = (at + bytes + LINE - 1) / LINE * LINE;
    tables->used = end < tables->bytes ? end : tables->bytes;
    return (struct lf_table){tables->host + at, tables->seen + at};
}

void lf_tables_send(struct lf_tables *tables) {
    lf_mem_upload(tables->memory, tables->seen + tables->sent, tables->host + tables->sent,
                     tables->used - tables->sent);
    tables->sent = tables->used;
}
