#include "apart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SPACE = 1 << 30 };

static struct apart {
    struct lf_mem mem;
    char *base;
    size_t used;
    struct lf_v41 *m;
    char *held; // the host's tables while a kernel runs
} apart;
static struct lf_kernels plain;

static void open_space(int protection) {
    if (apart.used && mprotect(apart.base, apart.used, protection) != 0)
        abort();
}

static void *apart_alloc(struct lf_mem *mem, size_t bytes) {
    (void)mem;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page) / page * page;
    if (whole > SPACE - apart.used)
        return NULL;
    apart.used += whole;
    return apart.base + apart.used - whole;
}

static void apart_free(struct lf_mem *mem, void *at) {
    (void)mem;
    (void)at;
}

static void apart_move(struct lf_mem *mem, void *to, const void *from, size_t bytes) {
    (void)mem;
    open_space(PROT_READ | PROT_WRITE);
    memcpy(to, from, bytes);
    open_space(apart.m ? PROT_NONE : PROT_READ | PROT_WRITE);
}

static enum lf_status apart_wait(struct lf_mem *mem, struct lf_error *err) {
    (void)mem;
    return err->status;
}

static const struct lf_mem_ops ops = {.alloc = apart_alloc, .free = apart_free,
                                      .upload = apart_move, .download = apart_move,
                                      .copy = apart_move, .wait = apart_wait};

static void hide(struct lf_tables *tables, char *held, bool hidden) {
    if (hidden) {
        memcpy(held, tables->host, tables->bytes);
        memset(tables->host, 0xA5, tables->bytes);
    } else
        memcpy(tables->host, held, tables->bytes);
}

void lf_apart_enter(void) {
    hide(&apart.m->work.tables, apart.held, true);
    hide(&apart.m->lanes, apart.held + apart.m->work.tables.bytes, true);
    open_space(PROT_READ | PROT_WRITE);
}

void lf_apart_leave(void) {
    open_space(PROT_NONE);
    hide(&apart.m->work.tables, apart.held, false);
    hide(&apart.m->lanes, apart.held + apart.m->work.tables.bytes, false);
}

#define LF_KERNEL(name)                                                                            \
    static void apart_##name(struct lf_device *device, const struct lf_##name##_args *args) {      \
        lf_apart_enter();                                                                          \
        plain.name(device, args);                                                            \
        lf_apart_leave();                                                                          \
    }
#include "kernel/registry.def"
#undef LF_KERNEL

void lf_apart_wrap(struct lf_kernels *table) {
    plain = *table;
#define LF_KERNEL(name) table->name = apart_##name;
#include "kernel/registry.def"
#undef LF_KERNEL
}

struct lf_mem *lf_apart_open(void) {
    apart = (struct apart){.mem.ops = &ops};
    apart.base = mmap(NULL, SPACE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LF_ASSERT(apart.base != MAP_FAILED);
    return &apart.mem;
}

void lf_apart_close(void) {
    munmap(apart.base, SPACE);
    free(apart.held);
}

// Until here the model was opened, whose weights a device copies by itself.
void lf_apart_watch(struct lf_v41 *m) {
    apart.m = m;
    if (mprotect(apart.base, SPACE, PROT_NONE) != 0)
        abort();
    apart.held = malloc(m->work.tables.bytes + m->lanes.bytes);
    LF_ASSERT(apart.held);
}
