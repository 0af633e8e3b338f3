// Both columns on one problem: an arena on the host and its mirror on the device, byte for byte.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "contract/check.h"
#include "device/cuda.h"
#include "kernel/cuda_table.h"
#include "kernel/table.h"

// Sizes of a model that problems take their shapes from.
struct sizes {
    const char *name;
    uint32_t rows[4]; // launches of these; 0: none
    uint32_t hidden, streams, heads, head_dim, rope_dim, vocab, window;
    uint32_t index_heads, index_dim, topk, block_size, topk_blocks, entries;
    uint32_t experts, top, expert_dim, engram_dim, engram_columns;
};

enum { CHECK_OPERANDS_MAX = 64, CHECK_TABLES_BYTES = 1 << 20 };
struct check {
    struct lf_device on; // each column uses its own part
    struct lf_kernels cpu;
    uint8_t *original, *host, *back; // before; after the CPU column; after the CUDA column
    uint8_t *device, *tables;        // the mirror; tables of addresses
    size_t room, used, tables_used;
    struct {
        const char *name;
        size_t at, bytes;
    } operand[CHECK_OPERANDS_MAX];
    uint32_t operands;
    struct lf_check_rng random;
    const char *only; // names of the kernels that are timed; NULL: all
    // Of the present kernel.
    uint32_t problems, failed;
    uint64_t bytes, differing;
    char problem[96];
};

// Starts a problem: an empty arena, all its bytes 0xA5.
void check_start(struct check *c, const char *text, ...) __attribute__((format(printf, 2, 3)));
// An operand in the arena, 256-byte aligned, with at least 256 bytes of guard behind it.
void *check_new(struct check *c, const char *name, size_t bytes);
// Where it lies on the device; NULL for NULL.
void *check_mirror(const struct check *c, const void *operand);
// A table in device memory that is no operand: it holds addresses, which differ on both sides.
void *check_table(struct check *c, const void *table, size_t bytes);
// A table of n addresses in the arena, as the device sees them.
void *check_pointers(struct check *c, const void *table, uint32_t n);
// Keeps the arena as it is: what both columns start from.
void check_keep(struct check *c);
void check_send(struct check *c);
// Downloads the mirror and compares all of it with the host's arena.
void check_compare(struct check *c);

// The CPU column once, then the CUDA column twice from the same bytes.
#define CHECK_KERNEL(c, kernel, host_args, device_args)                                            \
    do {                                                                                           \
        check_keep(c);                                                                             \
        (c)->cpu.kernel(&(c)->on, host_args);                                                      \
        for (int check_turn = 0; check_turn < 2; check_turn++) {                                   \
            check_send(c);                                                                         \
            lf_cuda_kernels.kernel(&(c)->on, device_args);                                         \
            check_compare(c);                                                                      \
        }                                                                                          \
    } while (0)

// Numbers: what a checkpoint holds, the whole range, or any bits at all.
enum style { STYLE_NORMAL, STYLE_WIDE, STYLE_ANY, STYLES };
uint32_t check_random(struct check *c, uint32_t below);
void check_bf16(struct check *c, void *x, size_t n, enum style style);
void check_f32(struct check *c, void *x, size_t n, enum style style);
void check_bytes(struct check *c, void *x, size_t n);
void check_range(struct check *c, void *x, size_t n, uint8_t low, uint8_t high); // bytes
// New operands filled so.
uint16_t *check_new_bf16(struct check *c, const char *name, size_t n, enum style style);
float *check_new_f32(struct check *c, const char *name, size_t n, enum style style);

// All problems of each kernel at some sizes.
#define LF_KERNEL(name) void check_##name(struct check *c, const struct sizes *s);
#include "kernel/registry.def"
#undef LF_KERNEL
// Times of the CUDA column at the release's sizes, a line each.
void check_times(struct check *c, const struct sizes *s);
