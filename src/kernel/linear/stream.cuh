// Copies beside other work.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>
#include "device/cuda_stream.cuh"

// Of rows that linear puts in order at once.
enum { LF_LINEAR_ORDER_BYTES = LF_CUDA_SCRATCH_BYTES };

// The block's dynamic shared memory.
#define LF_DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]

// A place in shared memory, from which others are by offsets.
typedef uint32_t lf_shared_base;

__device__ static inline lf_shared_base lf_shared_base_of(const void *at) {
    return (uint32_t)__cvta_generic_to_shared(at);
}

// The same for all lanes, and known to be; a played device has addresses here.
__device__ static inline lf_shared_base lf_same_place(lf_shared_base at) {
    return __shfl_sync(0xFFFFFFFFu, at, 0);
}

// The same, found once: else the compiler finds it again wherever it is wanted.
__device__ static inline lf_shared_base lf_shared_base_of_all(const void *at) {
    return lf_same_place(lf_shared_base_of(at));
}

// As for those: what was computed stays in its register.
__device__ static inline uint32_t lf_kept(uint32_t value) {
    asm volatile("" : "+r"(value));
    return value;
}

// 16 bytes of shared memory.
__device__ static inline uint4 lf_load_shared_16(lf_shared_base at) {
    uint4 all;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w)
                 : "r"(at)
                 : "memory");
    return all;
}

// 16 bytes of device memory.
__device__ static inline uint4 lf_load_16(const void *at) {
    uint4 all;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w)
                 : "l"(at));
    return all;
}

// The same of 8 and of one.
__device__ static inline uint2 lf_load_8(const void *at) {
    uint2 all;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(all.x), "=r"(all.y) : "l"(at));
    return all;
}

__device__ static inline uint32_t lf_load_byte(const uint8_t *at) {
    uint32_t byte;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(byte) : "l"(at));
    return byte;
}

// lf_load_16 of what another block may have written meanwhile.
__device__ static inline uint4 lf_load_16_new(const void *at) {
    uint4 all;
    asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w)
                 : "l"(at)
                 : "memory");
    return all;
}

// A thread that waits for another's word is at a place where others can go on.
__device__ static inline void lf_yield(void) {}

// lf_load_16 where i < end; else the words stay what they are.
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

// On the way to shared memory until lf_copies_wait; zeros where there is nothing.
__device__ static inline void lf_copy_word(void *to, const void *from, bool is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(is_there ? 4 : 0)
                 : "memory");
}

__device__ static inline void lf_copy_16(void *to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

// Of what is read once: the second cache gives it up before code and what kernels pass on.
__device__ static inline uint64_t lf_once(void) {
    uint64_t first;
    // Not volatile: the compiler makes it once for many copies.
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    return first;
}

__device__ static inline void lf_copy_16_once(void *to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(is_there ? 16 : 0), "l"(lf_once())
                 : "memory");
}

// These bytes of device memory come to the second cache, and what shares 16 bytes with them.
__device__ static inline void lf_ask_for(const uint8_t *at, uint32_t bytes) {
    uint32_t before = (uintptr_t)at % 16;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at - before),
                 "r"((before + bytes + 15) / 16 * 16)
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

// What this thread wrote to shared memory or saw written is there for tensor cores, bulk copies.
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

// In shared memory: warps or copies pass it, as many as it was opened for. turn: 0, 1, 0 ...
typedef uint64_t lf_barrier;

// One thread opens it, ahead of a meeting of the block.
__device__ static inline void lf_barrier_open(lf_barrier *barrier, uint32_t passes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(passes)
                 : "memory");
}

__device__ static inline void lf_barrier_pass(lf_shared_base barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One thread for itself.
__device__ static inline void lf_barrier_pass_alone(lf_barrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(lf_shared_base_of(barrier))
                 : "memory");
}

__device__ static inline void lf_barrier_wait(lf_shared_base barrier, uint32_t turn) {
    uint32_t is_past = 0;
    while (!is_past)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_past)
                     : "r"(barrier), "r"(turn)
                     : "memory");
}

// Whether it was seen to be past, by the time that the answer is asked for.
__device__ static inline bool lf_barrier_try(lf_shared_base barrier, uint32_t turn) {
    uint32_t is_past;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                 "selp.u32 %0, 1, 0, p; }"
                 : "=r"(is_past)
                 : "r"(barrier), "r"(turn)
                 : "memory");
    return is_past;
}

// The thread goes on, and passes once all that it has sent by lf_copy_* is there.
__device__ static inline void lf_barrier_pass_copies(lf_barrier *barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                     lf_shared_base_of(barrier))
                 : "memory");
}

// One thread passes once so many bytes are there as well.
__device__ static inline void lf_barrier_expect_bytes(lf_shared_base barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

// The same of these bytes of device memory, for tensor cores to read; multiples of 16.
__device__ static inline void lf_barrier_pass_bytes(lf_barrier *barrier, void *to,
                                                    const void *from, uint32_t bytes) {
    lf_shared_base at = lf_shared_base_of(barrier);
    lf_barrier_expect_bytes(at, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(lf_shared_base_of(to)),
                 "l"(from), "r"(bytes), "r"(at)
                 : "memory");
}

// The same of what is read once (lf_copy_16_once).
__device__ static inline void lf_barrier_pass_bytes_once(lf_barrier *barrier, void *to,
                                                         const void *from, uint32_t bytes) {
    lf_shared_base at = lf_shared_base_of(barrier);
    lf_barrier_expect_bytes(at, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(lf_shared_base_of(to)),
                 "l"(from), "r"(bytes), "r"(at), "l"(lf_once())
                 : "memory");
}

__device__ static inline void lf_barrier_pass(lf_barrier *barrier) {
    lf_barrier_pass(lf_shared_base_of(barrier));
}

__device__ static inline void lf_barrier_wait(lf_barrier *barrier, uint32_t turn) {
    lf_barrier_wait(lf_shared_base_of(barrier), turn);
}
