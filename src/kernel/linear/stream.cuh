// Copies beside other work.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>

// The block's dynamic shared memory.
#define LF_DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]

// 16 bytes of device memory.
__device__ static inline uint4 lf_load_16(const void *at) {
    uint4 all;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w)
                 : "l"(at));
    return all;
}

// The same where i < end; else the words stay what they are.
__device__ static inline void lf_load_16_below(int32_t end, int32_t i, const void *at,
                                               uint32_t word[4]) {
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %5, %6; "
                 "@p ld.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
                 : "+r"(word[0]), "+r"(word[1]), "+r"(word[2]), "+r"(word[3])
                 : "l"(at), "r"(i), "r"(end));
}

// Zeros, for a branch that is rare: plain ones become a choice word by word instead.
__device__ static inline void lf_zero_16(uint32_t word[4]) {
    asm volatile("mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]));
}

// The word of a byte in memory, which is there where the byte is; and the byte of such a word.
__device__ static inline const uint32_t *lf_word_of(const uint8_t *at) {
    return (const uint32_t *)((uintptr_t)at & ~(uintptr_t)3);
}

__device__ static inline uint32_t lf_byte_of(uint32_t word, const uint8_t *at) {
    return word >> ((uintptr_t)at & 3) * 8 & 255;
}

// On the way to shared memory until lf_copies_wait; zeros past so many bytes.
__device__ static inline void lf_copy_word(void *to, const void *from, uint32_t bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
}

__device__ static inline void lf_copy_16(void *to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

__device__ static inline void lf_copies_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most so many of this thread's committed groups are on the way.
template <int groups>
__device__ static inline void lf_copies_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

// What this thread wrote to shared memory can be read by tensor cores, behind the next barrier.
__device__ static inline void lf_show_tensor_cores(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A warpgroup gives registers back, down to so many a thread, or takes what others gave.
template <int registers>
__device__ static inline void lf_registers_fewer(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ static inline void lf_registers_more(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// In shared memory: warps pass it and may wait later, for all to have passed. turn: 0, 1, 0 ...
typedef uint64_t lf_barrier;

// One thread opens it, ahead of a meeting of the block.
__device__ static inline void lf_barrier_open(lf_barrier *barrier, uint32_t warps) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(warps)
                 : "memory");
}

__device__ static inline void lf_barrier_pass(lf_barrier *barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                         (uint32_t)__cvta_generic_to_shared(barrier))
                     : "memory");
}

__device__ static inline void lf_barrier_wait(lf_barrier *barrier, uint32_t turn) {
    uint32_t is_past = 0;
    while (!is_past)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_past)
                     : "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(turn)
                     : "memory");
}
