#include "kernel/index_select/index_select.h"

#include "kernel/block.cuh"

// OWN: neighbouring items of a thread, read together.
enum { THREADS = 1024, OWN = 8, TURN = THREADS * OWN };

// Items in ascending order with one key each.
struct source {
    const float *score;
    uint32_t n;            // items
    uint32_t size;         // 0: an item has a score of its own; else a block of so many scores
    struct lf_items items; // what entries items are; of blocks: they are themselves
};

__device__ static uint32_t key_of(const struct source &s, uint32_t item) {
    if (!s.size)
        return lf_order_key(s.score[item]);
    if (item == s.n - 1)
        return UINT32_MAX; // the newest block is forced in (8.7); no score has this key
    uint32_t best = 0;
    for (uint32_t i = item * s.size; i < (item + 1) * s.size; i++) {
        uint32_t key = lf_order_key(s.score[i]);
        best = key > best ? key : best;
    }
    return best;
}

// The k-th greatest key, digit by digit from the top; *ties: how many items with it are chosen.
__device__ static uint32_t find_threshold(const struct source &s, uint32_t k, uint32_t *ties) {
    __shared__ struct lf_histogram h;
    uint32_t known = 0, prefix = 0;
    __syncthreads();
    if (threadIdx.x == 0)
        h.before = 0;
    for (int digit = 0; digit < LF_DIGITS; digit++) {
        uint32_t shift = lf_digit_shift(digit), mask = lf_digit_mask(digit);
        lf_histogram_clear(&h);
        for (uint32_t first = threadIdx.x; first < s.n; first += TURN) {
            uint32_t key[OWN];
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++)
                key[i] = first + i * THREADS < s.n ? key_of(s, first + i * THREADS) : 0;
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++)
                if (first + i * THREADS < s.n && (key[i] & known) == prefix)
                    atomicAdd(&h.bin[key[i] >> shift & mask], 1ull);
        }
        lf_histogram_sum(&h);
        lf_histogram_find(&h, k);
        prefix |= h.place << shift;
        known |= mask << shift;
    }
    *ties = k - (uint32_t)h.before;
    return prefix;
}

// Chosen among items before some place: all of greater keys, and the first `ties` tied ones.
__device__ static uint32_t chosen_before(uint32_t greater, uint32_t same, uint32_t ties) {
    return greater + (same < ties ? same : ties);
}

// The k items of greatest key, ties to the lower item, ascending; k <= n. Returns k.
__device__ static uint32_t select_best(const struct source &s, uint32_t k, uint32_t *out) {
    uint32_t ties, greater = 0, same = 0, total;
    if (k == 0)
        return 0;
    uint32_t threshold = find_threshold(s, k, &ties);
    for (uint32_t first = 0; first < s.n && chosen_before(greater, same, ties) < k; first += TURN) {
        uint32_t key[OWN], item = first + threadIdx.x * OWN, counts = 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            key[i] = item + i < s.n ? key_of(s, item + i) : 0;
        // Both counts in one number: neither passes 16 bits in a turn.
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            if (item + i < s.n)
                counts += key[i] > threshold ? 1 : key[i] == threshold ? 0x10000 : 0;
        uint32_t before = lf_block_sum_before(counts, &total);
        uint32_t above = greater + (before & 0xFFFF), tied = same + (before >> 16);
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (item + i >= s.n || key[i] < threshold)
                continue;
            if (key[i] > threshold || tied < ties)
                out[chosen_before(above, tied, ties)] = lf_item_entry(&s.items, item + i);
            above += key[i] > threshold;
            tied += key[i] == threshold;
        }
        greater += total & 0xFFFF;
        same += total >> 16;
    }
    return k;
}

__device__ static uint32_t list_all(uint32_t n, uint32_t *out) {
    for (uint32_t i = threadIdx.x; i < n; i += THREADS)
        out[i] = i;
    return n;
}

// Every block while they fit: then no score is read.
__device__ static void publish(const struct lf_index_select_args &a, uint32_t row) {
    uint32_t visible = a.visible[row], size = a.block_size, limit = a.topk_blocks;
    uint32_t *blocks = a.blocks + (size_t)row * limit;
    struct source s = {a.score + row * a.score_stride, visible / size + (visible % size != 0),
                       size};
    uint32_t n = s.n <= limit ? list_all(s.n, blocks) : select_best(s, limit, blocks);
    if (threadIdx.x == 0)
        a.n_blocks[row] = n;
}

__device__ static void choose(const struct lf_index_select_args &a, uint32_t row) {
    uint32_t visible = a.visible[row], *out = a.selected + (size_t)row * a.topk, n;
    struct source s = {a.score + row * a.score_stride, visible};
    if (visible <= a.topk) {
        n = list_all(visible, out);
    } else {
        if (a.mode == LF_CANDIDATES_RESTRICT) {
            struct lf_candidates candidates = {a.blocks, a.n_blocks, a.block_size, a.topk_blocks};
            s.items = lf_items_of(&candidates, row, visible);
            s.n = s.items.n;
        }
        n = select_best(s, s.n < a.topk ? s.n : a.topk, out);
    }
    if (threadIdx.x == 0)
        a.n_selected[row] = n;
}

__global__ static void __launch_bounds__(THREADS)
index_select_rows(struct lf_index_select_args a) {
    if (a.mode == LF_CANDIDATES_PUBLISH)
        publish(a, blockIdx.x);
    choose(a, blockIdx.x);
}

void lf_index_select_cuda(struct lf_device *device, const struct lf_index_select_args *args) {
    lf_cuda_launch(device, "index_select", index_select_rows, dim3(args->rows), THREADS, *args);
}
