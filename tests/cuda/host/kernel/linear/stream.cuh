// Loads played by the host: each is done at once.
#pragma once
#include <cuda_runtime.h>

// Small, so that rows come in several parts.
enum { LF_LINEAR_ORDER_BYTES = 640 << 10 };

#define LF_DYNAMIC_SHARED(name) static __attribute__((aligned(128))) uint8_t name[227 << 10]

typedef const uint8_t *lf_shared_base;

static inline lf_shared_base lf_shared_base_of(const void *at) {
    return (const uint8_t *)at;
}

static inline lf_shared_base lf_shared_base_of_all(const void *at) {
    return lf_shared_base_of(at);
}

static inline lf_shared_base lf_same_place(lf_shared_base at) {
    return at;
}

static inline uint32_t lf_kept(uint32_t value) {
    return value;
}

static inline uint4 lf_load_shared_16(lf_shared_base at) {
    return *(const uint4 *)at;
}

static inline uint4 lf_load_16(const void *at) {
    return *(const uint4 *)at;
}

static inline uint2 lf_load_8(const void *at) {
    return *(const uint2 *)at;
}

static inline uint32_t lf_load_byte(const uint8_t *at) {
    return *at;
}

static inline uint4 lf_load_16_new(const void *at) {
    return *(const uint4 *)at;
}

static inline void lf_yield(void) {
    host_yield();
}

static inline void lf_load_16_below(int32_t end, int32_t i, const void *at, uint32_t word[4]) {
    if (i < end)
        memcpy(word, at, 16);
}

static inline void lf_zero_16(uint32_t word[4]) {
    memset(word, 0, 16);
}

static inline const uint32_t *lf_word_of(const uint8_t *at) {
    return (const uint32_t *)((uintptr_t)at & ~(uintptr_t)3);
}

static inline uint32_t lf_byte_of(uint32_t word, const uint8_t *at) {
    return word >> ((uintptr_t)at & 3) * 8 & 255;
}

static inline void lf_copy_word(void *to, const void *from, bool is_there) {
    memset(to, 0, 4);
    if (is_there)
        memcpy(to, from, 4);
}

static inline void lf_copy_16(void *to, const void *from, bool is_there) {
    memset(to, 0, 16);
    if (is_there)
        memcpy(to, from, 16);
}

static inline void lf_copy_16_once(void *to, const void *from, bool is_there) {
    lf_copy_16(to, from, is_there);
}

static inline void lf_ask_for(const uint8_t *, uint32_t) {}

static inline void lf_copies_commit(void) {}

template <int groups>
static inline void lf_copies_wait(void) {}

static inline void lf_show_tensor_cores(void) {}

template <int registers>
static inline void lf_registers_fewer(void) {}

template <int registers>
static inline void lf_registers_more(void) {}

struct lf_barrier {
    uint32_t passes, passed, turn;
};

static inline void lf_barrier_open(lf_barrier *barrier, uint32_t passes) {
    *barrier = {passes, 0, 0};
}

static inline void lf_barrier_pass_alone(lf_barrier *barrier) {
    if (++barrier->passed < barrier->passes)
        return;
    barrier->passed = 0;
    barrier->turn++;
}

static inline void lf_barrier_pass_copies(lf_barrier *barrier) {
    lf_barrier_pass_alone(barrier);
}

static inline void lf_barrier_pass_bytes(lf_barrier *barrier, void *to, const void *from,
                                         uint32_t bytes) {
    memcpy(to, from, bytes);
    lf_barrier_pass_copies(barrier);
}

static inline void lf_barrier_pass_bytes_once(lf_barrier *barrier, void *to, const void *from,
                                              uint32_t bytes) {
    lf_barrier_pass_bytes(barrier, to, from, bytes);
}

static inline void lf_barrier_pass(lf_barrier *barrier) {
    __syncwarp();
    if (!host_lane())
        lf_barrier_pass_alone(barrier);
}

static inline void lf_barrier_wait(lf_barrier *barrier, uint32_t turn) {
    while (barrier->turn % 2 == turn)
        host_yield();
}

static inline void lf_barrier_pass(lf_shared_base barrier) {
    lf_barrier_pass((lf_barrier *)barrier);
}

static inline void lf_barrier_wait(lf_shared_base barrier, uint32_t turn) {
    lf_barrier_wait((lf_barrier *)barrier, turn);
}

static inline bool lf_barrier_try(lf_shared_base barrier, uint32_t turn) {
    return ((const lf_barrier *)barrier)->turn % 2 != turn;
}
