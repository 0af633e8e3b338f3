// Seeded operands, guarded buffers, error terms: what gates and kernel tests are made of.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lf_check_rng {
    uint64_t state; // the seed
};
uint64_t lf_check_next(struct lf_check_rng *rng);
uint32_t lf_check_below(struct lf_check_rng *rng, uint32_t n); // 0 .. n-1
double lf_check_uniform(struct lf_check_rng *rng);             // [0, 1)
double lf_check_normal(struct lf_check_rng *rng);              // mean 0, deviation 1

// kernel-contract.md 2: the checkpoint's scale, spread exponents, sums near zero, mostly zeros.
enum lf_check_style {
    LF_STYLE_NORMAL,
    LF_STYLE_WIDE,
    LF_STYLE_CANCELLING,
    LF_STYLE_SPARSE,
    LF_STYLES
};
const char *lf_check_style_name(enum lf_check_style style);
// n values of a style times scale, all finite. Cancelling: element i+1 nearly undoes element i.
void lf_check_fill_f32(struct lf_check_rng *rng, enum lf_check_style style, float scale, float *x,
                       size_t n);
void lf_check_fill_bf16(struct lf_check_rng *rng, enum lf_check_style style, float scale,
                        uint16_t *x, size_t n);
// A row no other row may feel: kind 0 NaN, 1 infinities, 2 largest finite, 3 zeros, 4 denormals.
enum { LF_HOSTILE_KINDS = 5 };
void lf_check_fill_hostile(uint32_t kind, uint16_t *x, size_t n); // bf16
void lf_check_fill_hostile_f32(uint32_t kind, float *x, size_t n);
// Ascending blocks anywhere in what is visible, the newest among them; returns how many of most.
uint32_t lf_check_fill_blocks(uint32_t visible, uint32_t block_size, uint32_t *block,
                              uint32_t most);

// g(D) = D u / (1 - D u), u = 2^-24 (kernel-contract.md 2).
double lf_check_gamma(double depth);
// Half the spacing of bf16 at a magnitude.
double lf_check_half_bf16(double magnitude);

// Memory that a device reaches as well as the host; NULL instead: pages of the host.
struct lf_check_space {
    void *(*open)(struct lf_check_space *space, size_t bytes); // page aligned; never NULL
    void (*close)(struct lf_check_space *space, void *memory, size_t bytes);
};

// Bytes between guard bands; in pages of the host with an unreadable one beyond either band.
struct lf_check_buffer {
    void *data;
    size_t bytes;
    uint8_t *map;
    size_t map_bytes;
    struct lf_check_space *space;
    uint8_t guard; // what the bands are filled with
};
enum { LF_CHECK_GUARD = 256, LF_CHECK_GUARD_BYTE = 0xA5 };
// Where a buffer's data lies in its memory.
struct lf_check_place {
    struct lf_check_space *space;
    size_t band;   // guard bytes at least on the near side; LF_CHECK_GUARD more in a space
    size_t align;  // bytes the data's address is a multiple of, at most a page; 0: 1
    bool front;    // the near side is the front
    uint8_t guard; // 0: LF_CHECK_GUARD_BYTE
};
struct lf_check_buffer lf_check_open_at(struct lf_check_place place, size_t bytes);
// tail: guard bytes between the end and the page that cannot be read.
struct lf_check_buffer lf_check_open(size_t bytes, size_t tail);
// Fills the data, never the guards.
void lf_check_poison(struct lf_check_buffer *buffer, uint8_t pattern);
// Whether no guard byte changed; else where the nearest lies, from the start or past the end.
bool lf_check_intact(const struct lf_check_buffer *buffer, ptrdiff_t *at);
void lf_check_close(struct lf_check_buffer *buffer);
