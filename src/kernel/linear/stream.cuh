// Copies beside other work, and launches that begin before the one ahead has ended.
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

// The launch after this one may begin: its blocks take the places that ours leave.
__device__ static inline void lf_let_next_begin(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Until all launches before this one have ended and what they wrote can be read.
__device__ static inline void lf_wait_for_launches(void) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
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
