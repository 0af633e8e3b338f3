// Tensor cores: one k16 step of 16 outputs by 8 rows, bf16 in, float32 sums; operands, products.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>
#include "kernel/linear/stream.cuh"

// d += a . b. Lane l has outputs l/4 and l/4+8 of a, row l/4 of b, rows 2(l%4) and +1 of d.
__device__ static inline void lf_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two bf16 products, subnormal numbers kept.
__device__ static inline uint32_t lf_mul_bf16x2(uint32_t a, uint32_t b) {
    uint32_t product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// a * b + c of each half, rounded once.
__device__ static inline uint32_t lf_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

// Two float32 rounded to bf16.
__device__ static inline uint32_t lf_bf16_pair(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Bytes `first` and the next as halves with their signs. first: 0, 2.
template <int first>
__device__ static inline uint32_t lf_signed_bytes(uint32_t word) {
    uint32_t halves;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(halves) : "r"(word), "n"(0x9180 + first * 0x1111));
    return halves;
}

// Numbers 2(l%4), +1 of row l/4 of a matrix of 8 by 8 become those of its column l/4.
__device__ static inline uint32_t lf_turned(uint32_t word) {
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(word));
    return word;
}

// word[i]: numbers 2(l%4), +1 of row l/4 of a matrix, whose rows of 8 lanes 8i to 8i+7 name.
__device__ static inline void lf_load_matrices(uint32_t word[4], lf_shared_base base,
                                               uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(base + row)
                 : "memory");
}

// The same of column l/4: numbers 2(l%4), +1 down.
__device__ static inline void lf_load_columns(uint32_t word[4], lf_shared_base base,
                                              uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(base + row)
                 : "memory");
}
