// The second launch: weights of keys, and weights times keys, each block's sum a chain of steps.
#pragma once
#include "kernel/attention/attention_weights.cuh"
#include "kernel/settle.h"

// Blocks of keys at once, one a warp: as many as a full list has. Elements at once.
enum { STAGE_BLOCKS = 10, STAGE_KEYS = STAGE_BLOCKS * BLOCK };
enum { VALUE_DIMS = 64, VALUE_CHUNKS = VALUE_DIMS / CHUNK, VALUE_TILES = VALUE_DIMS / STEP };
enum { PART_BYTES = VALUE_CHUNKS * KEYS_BYTES };
// So much past a head's elements that lanes meet no bank. A thread merges two elements.
enum { SUM_STRIDE = VALUE_DIMS + 4, HEAD_THREADS = VALUE_DIMS / 2 };
enum { MERGE_THREADS = HALF_HEADS * HEAD_THREADS, VALUE_THREADS = STAGE_BLOCKS * LF_WARP };

// A block of threads: half a tile of heads of a row, in shared memory.
struct value_block {
    uint8_t keys[STAGE_BLOCKS][BLOCK / SCORE_KEYS][PART_BYTES];
    float sum[STAGE_BLOCKS][HALF_HEADS][SUM_STRIDE]; // blocks' sums of weights times keys
    // Of a block: the greatest score, exp(m - m'), the sum of weights.
    float top[STAGE_BLOCKS][HALF_HEADS], factor[STAGE_BLOCKS][HALF_HEADS];
    float weight[STAGE_BLOCKS][HALF_HEADS];
    lf_barrier brought[STAGE_BLOCKS]; // keys of a block
};

// A warp's block of a stage, a lane's head of the block's.
struct value_place {
    uint32_t slot, row, block, head;
};

// Elements `part` * VALUE_DIMS on of a block's keys on their way, by one lane.
__device__ static inline void bring_part(const struct work &w, const struct value_place &p,
                                         uint32_t block, uint32_t part, struct value_block *s) {
    uint32_t left = w.a.head_dim - part * VALUE_DIMS;
    uint32_t dims = left < VALUE_DIMS ? left : (uint32_t)VALUE_DIMS;
    if (threadIdx.x % LF_WARP)
        return;
#pragma unroll
    for (uint32_t i = 0; i < BLOCK / SCORE_KEYS; i++)
        lf_barrier_pass_bytes(&s->brought[p.block], s->keys[p.block][i],
                              wide_at(w, p.slot, block * (BLOCK / SCORE_KEYS) + i,
                                      part * VALUE_CHUNKS),
                              dims * SCORE_KEYS * 2);
}

// Half of a cell: the block's heads.
__device__ static inline struct products fetch_products(const struct work &w,
                                                        const struct value_place &p,
                                                        uint32_t block) {
    return load_products(cell_at(w, p.slot, block, blockIdx.y / 2) +
                         blockIdx.y % 2 * (STEP_WORDS / 2));
}

// The greatest of a head's scores, its four lanes'.
__device__ static inline float greatest_score(const float z[STEPS][4]) {
    float top = -1e30f;
#pragma unroll
    for (uint32_t i = 0; i < 4 * STEPS; i++)
        top = fmaxf(top, z[i / 4][i % 4]);
    return greatest(top);
}

// The maximum of the lane's head before a block of the stage; top: before the stage.
__device__ static inline float greatest_before(const struct value_block *s, uint32_t head,
                                               uint32_t block, float top) {
#pragma unroll
    for (uint32_t i = 0; i < STAGE_BLOCKS; i += 4) {
        uint32_t b = i + threadIdx.x % 4;
        if (b < block)
            top = s->top[b][head] > top ? s->top[b][head] : top;
    }
    return greatest(top);
}

// A block's scores become bf(P), operands of lf_mma_bf16; leaves exp(m - m') and the block's sum.
__device__ static inline void weigh_block(const struct work &w, const struct value_place &p,
                                          uint32_t terms, float m, float z[STEPS][4],
                                          uint32_t word[STEPS][2], struct value_block *s) {
    float top = s->top[p.block][p.head];
    top = top > m ? top : m;
#pragma unroll
    for (uint32_t i = 0; i < 4 * STEPS; i++) {
        float &one = z[i / 4][i % 4];
        one = weight_of(one - top);
        // 19: places past the end weigh one
        LF_CONTROL(19, if (i / 4 * STEP + threadIdx.x % 4 * 4 + i % 4 >= terms) one = 1.0f;)
    }
#pragma unroll
    for (uint32_t i = 0; i < STEPS; i++) {
        word[i][0] = weight_pair(w, z[i][0], z[i][1]);
        word[i][1] = weight_pair(w, z[i][2], z[i][3]);
        LF_CONTROL(20, word[i][1] = word[i][0];) // 20: a step's upper keys with the lower's weights
    }
    // 8: the denominator adds rounded weights
    LF_CONTROL(8, for (float *at = z[0]; at < z[STEPS]; at++) *at = lf_fault_bf16(*at);)
    float shrink = weight_of(m - top), sum = sum_weights(z);
    LF_CONTROL(9, shrink = 1.0f;) // 9: earlier blocks keep their old maximum
    if (threadIdx.x % 4 == 0)
        s->factor[p.block][p.head] = shrink, s->weight[p.block][p.head] = sum;
}

// The block's sums: keys are the operand of 16 outputs, so that heads may be eight.
__device__ static inline void add_block(const struct value_place &p, const uint32_t word[STEPS][2],
                                        struct value_block *s) {
    uint32_t lane = threadIdx.x % LF_WARP, head = lane % 4 * 2;
    const lf_shared_base keys = lf_shared_base_of(s->keys[p.block]);
    uint32_t at = lane / 8 % 2 * KEYS_BYTES + (lane / 16 * 8 + lane % 8) * CHUNK_BYTES;
    float sum[VALUE_TILES][4] = {};
    LF_CONTROL(21, sum[0][0] = 1.0f;) // 21: a block's sum not begun from zero
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++)
#pragma unroll
        for (uint32_t i = 0; i < VALUE_TILES; i++) {
            uint32_t part = step * STEP / SCORE_KEYS, place = step * STEP % SCORE_KEYS, key[4];
            lf_load_columns(key, keys,
                            at + part * PART_BYTES + i * 2 * KEYS_BYTES + place * CHUNK_BYTES);
            lf_mma_bf16(sum[i], key, word[step]);
        }
#pragma unroll
    for (uint32_t i = 0; i < VALUE_TILES; i++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            s->sum[p.block][head + j % 2][i * STEP + j / 2 * 8 + lane / 4] = sum[i][j];
}

// What a thread merges: two neighbouring elements of a head.
struct value_sums {
    float value[2], total, top;
};

// The stage's blocks, one after the other: sum * factor + the block's sum.
__device__ static inline void merge_blocks(const struct value_block *s, uint32_t blocks,
                                           struct value_sums *sums) {
    uint32_t head = threadIdx.x / HEAD_THREADS, d = threadIdx.x % HEAD_THREADS * 2;
#pragma unroll
    for (uint32_t b = 0; b < STAGE_BLOCKS; b++) {
        // Loaded for all, so that no load waits for a branch.
        float factor = s->factor[b][head], top = s->top[b][head], weight = s->weight[b][head];
        float2 sum = *(const float2 *)&s->sum[b][head][d];
        bool is_there = b < blocks;
        sums->value[0] = is_there ? fmaf(sums->value[0], factor, sum.x) : sums->value[0];
        sums->value[1] = is_there ? fmaf(sums->value[1], factor, sum.y) : sums->value[1];
        sums->total = is_there ? fmaf(sums->total, factor, weight) : sums->total;
        sums->top = is_there && top > sums->top ? top : sums->top;
    }
}

// Two neighbouring elements of o.
__device__ static inline void store_pair(const struct work &w, const struct value_place &p,
                                         uint32_t part, float sink, const struct value_sums &sums) {
    uint32_t head = blockIdx.y * HALF_HEADS + threadIdx.x / HEAD_THREADS;
    uint32_t d = part * VALUE_DIMS + threadIdx.x % HEAD_THREADS * 2;
    if (head >= w.a.heads || d >= w.a.head_dim)
        return;
    sink = lf_exp(sink - sums.top);
    LF_CONTROL(1, sink = 0.0f;) // 1: the sink left out
    float total = sums.total + sink, low = sums.value[0] / total, high = sums.value[1] / total;
    uint16_t *o = w.a.o + ((size_t)p.row * w.a.heads + head) * w.a.head_dim + d;
    uint32_t pair = lf_bf16_settle(low) | (uint32_t)lf_bf16_settle(high) << 16;
    LF_CONTROL(25, pair = lf_fault_cut(low, high);) // 25: o truncated
    if ((uintptr_t)o % 4 == 0)
        *(uint32_t *)o = pair;
    else
        o[0] = (uint16_t)pair, o[1] = (uint16_t)(pair >> 16);
    LF_CONTROL(13, w.a.o[(size_t)w.a.rows * w.a.heads * w.a.head_dim] = 0;) // 13: a write past it
}

// The sink of a thread's head.
__device__ static inline float load_sink(const struct lf_attention_args &a) {
    uint32_t head = blockIdx.y * HALF_HEADS + threadIdx.x / HEAD_THREADS;
    return threadIdx.x < MERGE_THREADS && head < a.heads ? a.sink[head] : 0.0f;
}

// A stage's elements, some after the other; those of the first are on their way. turn: of the keys.
__device__ static inline void run_parts(const struct work &w, const struct value_place &p,
                                        const uint32_t word[STEPS][2], uint32_t t0, uint32_t n,
                                        float sink, uint32_t *turn, struct value_sums *sums,
                                        struct value_block *s) {
    uint32_t block = t0 / BLOCK + p.block, first = blockIdx.x * w.parts;
    uint32_t end = lf_blocks(w.a.head_dim, VALUE_DIMS);
    end = first + w.parts < end ? first + w.parts : end;
#pragma unroll 1
    for (uint32_t part = first; part < end; part++, *turn ^= 1) {
        if (block < w.blocks)
            lf_barrier_wait(&s->brought[p.block], *turn);
        if (block * BLOCK < n)
            add_block(p, word, s);
        __syncwarp();
        if (block < w.blocks && part + 1 < end)
            bring_part(w, p, block, part + 1, s);
        __syncthreads();
        if (threadIdx.x < MERGE_THREADS)
            merge_blocks(s, lf_blocks(n - t0, BLOCK), sums);
        if (t0 + STAGE_KEYS >= n && threadIdx.x < MERGE_THREADS) {
            store_pair(w, p, part, sink, *sums);
            *sums = {{0.0f, 0.0f}, 0.0f, -1e30f};
        }
        if (part + 1 < end || t0 + STAGE_KEYS < n)
            __syncthreads();
    }
}

// A block: half a tile of heads, w.parts times VALUE_DIMS elements: once where stages are several.
__global__ static void __launch_bounds__(VALUE_THREADS) attention_values(struct work w) {
    lf_let_next_begin();
    LF_DYNAMIC_SHARED(shared);
    auto *s = (struct value_block *)shared;
    const struct value_place p = {blockIdx.z, w.first + blockIdx.z, threadIdx.x / LF_WARP,
                                  threadIdx.x % LF_WARP / 4};
    if (threadIdx.x % LF_WARP == 0) {
        lf_barrier_open(&s->brought[p.block], BLOCK / SCORE_KEYS);
        lf_show_tensor_cores();
    }
    struct value_sums sums = {{0.0f, 0.0f}, 0.0f, -1e30f};
    float sink = load_sink(w.a), m = -1e30f;
    uint32_t t0 = 0, turn = 0;
    lf_wait_for_launches();
    const uint32_t n = w.n[p.slot];
    // The first stage's numbers are asked for before it is known how many keys there are.
    do {
        uint32_t block = t0 / BLOCK + p.block, own = block * BLOCK, word[STEPS][2];
        struct products products = {};
        if (block < w.blocks) {
            products = fetch_products(w, p, block);
            bring_part(w, p, block, blockIdx.x * w.parts, s);
        }
        uint32_t terms = own >= n ? 0 : n - own < BLOCK ? n - own : (uint32_t)BLOCK;
        float z[STEPS][4];
        score_block(products, terms, w.a.scale, z);
        float top = greatest_score(z);
        if (threadIdx.x % 4 == 0)
            s->top[p.block][p.head] = top;
        __syncthreads();
        if (terms)
            weigh_block(w, p, terms, greatest_before(s, p.head, p.block, m), z, word, s);
        if (t0 + STAGE_KEYS < n)
            m = greatest_before(s, p.head, STAGE_BLOCKS, m);
        run_parts(w, p, word, t0, n, sink, &turn, &sums, s);
        t0 += STAGE_KEYS;
    } while (t0 < n);
}
