// check_cuda small|all|time [KERNEL]: the CUDA column against the CPU's, kernel by kernel.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cuda/check.h"
#include "device/pool.h"

enum { SCRATCH_BYTES = 4 << 20 };

static const struct sizes demo = {
    .name = "demo", .rows = {1, 3, 17}, .hidden = 256, .streams = 4, .heads = 4, .head_dim = 64,
    .rope_dim = 16, .vocab = 2304, .window = 32, .index_heads = 8, .index_dim = 32, .topk = 64,
    .block_size = 8, .topk_blocks = 16, .entries = 1000, .experts = 16, .top = 2,
    .expert_dim = 96, .engram_dim = 32, .engram_columns = 3};
// Sizes that fill nothing evenly.
static const struct sizes ragged = {
    .name = "ragged", .rows = {2, 5}, .hidden = 77, .streams = 3, .heads = 11, .head_dim = 96,
    .rope_dim = 10, .vocab = 1031, .window = 7, .index_heads = 19, .index_dim = 96, .topk = 33,
    .block_size = 5, .topk_blocks = 9, .entries = 517, .experts = 37, .top = 5,
    .expert_dim = 51, .engram_dim = 96, .engram_columns = 2};
static const struct sizes release = {
    .name = "release", .rows = {1, 6, 70}, .hidden = 5120, .streams = 4, .heads = 64,
    .head_dim = 512, .rope_dim = 64, .vocab = 129280, .window = 128, .index_heads = 32,
    .index_dim = 128, .topk = 512, .block_size = 8, .topk_blocks = 2048, .entries = 40000,
    .experts = 384, .top = 6, .expert_dim = 2304, .engram_dim = 256, .engram_columns = 24};

static enum lf_status open_check(struct check *c, size_t room, struct lf_error *err) {
    long threads = sysconf(_SC_NPROCESSORS_ONLN);
    memset(c, 0, sizeof *c);
    c->room = room;
    c->random.state = 20260;
    LF_TRY(lf_cuda_open(&c->on.cuda, 0, err));
    LF_TRY(lf_pool_open(&c->on.pool, threads > 1 ? (uint32_t)threads : 1, SCRATCH_BYTES, err));
    LF_TRY(lf_kernels_init(&c->cpu, LF_ISA_AUTO, err));
    LF_TRY(lf_cuda_alloc(c->on.cuda, (void **)&c->device, room, "the arena", err));
    LF_TRY(lf_cuda_alloc(c->on.cuda, (void **)&c->tables, CHECK_TABLES_BYTES, "tables", err));
    c->original = malloc(room);
    c->host = malloc(room);
    c->back = malloc(room);
    return c->original && c->host && c->back ? LF_OK : lf_fail(err, LF_E_MEM, "no memory");
}

static void close_check(struct check *c) {
    free(c->original);
    free(c->host);
    free(c->back);
    lf_cuda_free(c->on.cuda, c->device);
    lf_cuda_free(c->on.cuda, c->tables);
    lf_pool_close(c->on.pool);
    lf_cuda_close(c->on.cuda);
}

struct entry {
    const char *name;
    void (*check)(struct check *c, const struct sizes *s);
};

static const struct entry entries[] = {
#define LF_KERNEL(name) {#name, check_##name},
#include "kernel/registry.def"
#undef LF_KERNEL
};
enum { KERNELS = sizeof entries / sizeof *entries };

// only: one kernel's name, or NULL. True when all are equal.
static bool check_all(struct check *c, bool with_release, const char *only) {
    uint32_t equal = 0, checked = 0;
    for (uint32_t k = 0; k < KERNELS && !lf_cuda_is_lost(c->on.cuda); k++) {
        if (only && strcmp(only, entries[k].name) != 0)
            continue;
        checked++;
        c->problems = c->failed = 0;
        c->bytes = c->differing = 0;
        entries[k].check(c, &demo);
        entries[k].check(c, &ragged);
        if (with_release)
            entries[k].check(c, &release);
        printf("%s %s: %u problems, %llu of %llu bytes differ\n", c->failed ? "FAIL" : "PASS",
               entries[k].name, c->problems, (unsigned long long)c->differing,
               (unsigned long long)c->bytes);
        fflush(stdout);
        equal += c->failed == 0;
    }
    printf("%u kernels: %u equal\n", checked, equal);
    return checked && equal == checked && (only || checked == KERNELS);
}

int main(int argc, char **argv) {
    struct check c;
    struct lf_error err = LF_ERROR_INIT;
    const char *what = argc > 1 ? argv[1] : "small";
    bool is_small = !strcmp(what, "small");
    if (open_check(&c, (size_t)(is_small ? 64 : 2048) << 20, &err) != LF_OK) {
        fprintf(stderr, "check_cuda: %s\n", err.text);
        return err.status == LF_E_ABSENT ? 3 : 1;
    }
    const struct lf_cuda_info *info = lf_cuda_info(c.on.cuda);
    printf("%s: capability %d.%d, %u multiprocessors, %zu of %zu MiB free\n", info->name,
           info->major, info->minor, info->processors, info->free_bytes >> 20,
           info->memory_bytes >> 20);
    bool is_fine = true;
    c.only = argc > 2 ? argv[2] : NULL;
    if (!strcmp(what, "time"))
        check_times(&c, &release);
    else
        is_fine = check_all(&c, !is_small, c.only);
    close_check(&c);
    return is_fine ? 0 : 1;
}
