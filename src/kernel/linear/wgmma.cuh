// Tensor cores, four warps together: one k16 step of 64 outputs by many rows in shared memory.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>
#include "kernel/linear/stream.cuh"

// Rows of bf16 that the tensor cores read: 8 rows of 8 numbers lie together, 16 bytes a row.
typedef uint64_t lf_shared_rows;

// k_bytes: from the first eight numbers of a row to the next eight; the next 8 rows follow.
__device__ static inline lf_shared_rows lf_shared_rows_at(lf_shared_base at, uint32_t k_bytes) {
    return (uint64_t)(128 >> 4) << 32 | (uint64_t)(k_bytes >> 4) << 16 | (at >> 4 & 0x3FFF);
}

// The same so many bytes further.
__device__ static inline lf_shared_rows lf_shared_rows_from(lf_shared_rows rows, uint32_t bytes) {
    // The place is in the lower half, which no tile's end leaves.
    return (rows & 0xFFFFFFFF00000000u) | ((uint32_t)rows + (bytes >> 4));
}

// A tile of bf16 that products read along or across its lines: 64 numbers a line, 8 lines together.
typedef uint64_t lf_shared_tile;

// Where eight neighbouring numbers of a line stand: no eight lines have them at the same banks.
__device__ static inline uint32_t lf_tile_at(uint32_t line, uint32_t eight) {
    return line * 128 + (eight ^ line % 8) * 16;
}

// at: a multiple of 1,024.
__device__ static inline lf_shared_tile lf_shared_tile_at(const void *at) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(at);
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | 1 << 16 | (address >> 4 & 0x3FFF);
}

// So many whole lines or numbers further.
__device__ static inline lf_shared_tile lf_shared_tile_from(lf_shared_tile tile, uint32_t bytes) {
    return tile + (bytes >> 4);
}

// Before the first product, and after registers of one were written.
__device__ static inline void lf_wgmma_begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void lf_wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until at most so many of the committed groups are on the way.
template <int groups>
__device__ static inline void lf_wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}

// Reads and writes of d stay behind the wait before this.
template <int n>
__device__ static inline void lf_wgmma_settle(float (&d)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

// Operands that products read until the wait before this: their registers were not to be reused.
template <int n>
__device__ static inline void lf_wgmma_read(const uint32_t (&a)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" ::"r"(a[i]));
}

#define LF_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

#define LF_EIGHT(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])

// d = a . b, added to d where is_sum; a as mma.cuh has it. d[4i], d[4i+1]: rows 8i+2(l%4), +1.
__device__ static inline void lf_wgmma_bf16(float (&d)[12], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %17, 0; "
                 "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, "
                 "{%12, %13, %14, %15}, %16, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_FOUR(d, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

__device__ static inline void lf_wgmma_bf16(float (&d)[16], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %21, 0; "
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

__device__ static inline void lf_wgmma_bf16(float (&d)[20], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %25, 0; "
                 "wgmma.mma_async.sync.aligned.m64n40k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19}, "
                 "{%20, %21, %22, %23}, %24, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8), LF_FOUR(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

__device__ static inline void lf_wgmma_bf16(float (&d)[24], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %29, 0; "
                 "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23}, "
                 "{%24, %25, %26, %27}, %28, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8), LF_EIGHT(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

__device__ static inline void lf_wgmma_bf16(float (&d)[32], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8), LF_EIGHT(d, 16), LF_EIGHT(d, 24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

__device__ static inline void lf_wgmma_bf16(float (&d)[64], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63}, "
                 "{%64, %65, %66, %67}, %68, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8), LF_EIGHT(d, 16), LF_EIGHT(d, 24),
                   LF_EIGHT(d, 32), LF_EIGHT(d, 40), LF_EIGHT(d, 48), LF_EIGHT(d, 56)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

__device__ static inline void lf_wgmma_bf16(float (&d)[96], const uint32_t a[4], lf_shared_rows b,
                                            bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %101, 0; "
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
                 "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
                 "%92, %93, %94, %95}, "
                 "{%96, %97, %98, %99}, %100, p, 1, 1, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8), LF_EIGHT(d, 16), LF_EIGHT(d, 24),
                   LF_EIGHT(d, 32), LF_EIGHT(d, 40), LF_EIGHT(d, 48), LF_EIGHT(d, 56),
                   LF_EIGHT(d, 64), LF_EIGHT(d, 72), LF_EIGHT(d, 80), LF_EIGHT(d, 88)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

// The same of 64 lines of a by 64 of b, both along their lines.
__device__ static inline void lf_wgmma_along(float (&d)[32], lf_shared_tile a, lf_shared_tile b,
                                             bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
                 "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, "
                 "%29, %30, %31}, "
                 "%32, %33, p, 1, 1, 0, 0; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8), LF_EIGHT(d, 16), LF_EIGHT(d, 24)
                 : "l"(a), "l"(b), "r"((uint32_t)is_sum));
}

// The same of a in registers by 32 numbers of each of b's 16 lines: across them.
__device__ static inline void lf_wgmma_across(float (&d)[16], const uint32_t a[4],
                                              lf_shared_tile b, bool is_sum) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %21, 0; "
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
                 "%15}, "
                 "{%16, %17, %18, %19}, %20, p, 1, 1, 1; }"
                 : LF_EIGHT(d, 0), LF_EIGHT(d, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)is_sum));
}

#undef LF_EIGHT
#undef LF_FOUR
