#include "kernel/index_score/index_score.h"

#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// A block works on KEYS entries of a row and HEADS heads at a time; a thread on one entry and four.
enum { KEYS = 32, HEADS = 16, FOUR = 4, THREADS = KEYS * HEADS / FOUR, DIM_MAX = 128 };
// Rows of keys and queries are padded: threads of a warp read different banks.
enum { STRIDE = DIM_MAX + 4, BLOCKS_MAX = 8192 };

struct stage {
    float key[KEYS][STRIDE];
    float q[HEADS][STRIDE];
    float product[HEADS][KEYS]; // weight not yet on it
    float weight[HEADS];
};

__device__ static void load_keys(const struct lf_index_score_args &a, uint32_t row,
                                 const struct lf_items &items, uint32_t first, uint32_t n,
                                 struct stage *stage) {
    const struct lf_paged *keys = &a.keys[a.row[row].lane];
    uint32_t row_bytes = lf_qf4e_row_bytes(a.dim);
    for (uint32_t i = threadIdx.x; i < n * a.dim; i += THREADS) {
        uint32_t t = i / a.dim, at = lf_item_entry(&items, first + t);
        const uint8_t *key = keys->page[at / LF_PAGE_ROWS] + at % LF_PAGE_ROWS * row_bytes;
        stage->key[t][i % a.dim] = lf_qf4e_at(key, a.dim, i % a.dim);
    }
}

__device__ static void load_heads(const struct lf_index_score_args &a, uint32_t row,
                                  uint32_t head, uint32_t n, struct stage *stage) {
    size_t at = (size_t)row * a.heads + head;
    for (uint32_t i = threadIdx.x; i < n * a.dim; i += THREADS)
        stage->q[i / a.dim][i % a.dim] = lf_bf16_to_f32(a.q[at * a.dim + i]);
    if (threadIdx.x < n)
        stage->weight[threadIdx.x] =
            lf_bf16_to_f32(a.head_weight[at + threadIdx.x]) * a.weight_scale;
}

// Dot products of one key and four heads, 16 partials each, through the ReLU.
__device__ static void multiply(const struct lf_index_score_args &a, struct stage *stage) {
    uint32_t t = threadIdx.x % KEYS, h = threadIdx.x / KEYS * FOUR;
    float partial[FOUR][16] = {};
    for (uint32_t d = 0; d < a.dim; d += 16)
#pragma unroll
        for (uint32_t i = 0; i < 16; i++) {
            float key = stage->key[t][d + i];
#pragma unroll
            for (uint32_t j = 0; j < FOUR; j++)
                partial[j][i] = fmaf(stage->q[h + j][d + i], key, partial[j][i]);
        }
    for (uint32_t j = 0; j < FOUR; j++) {
        float z = lf_own_tree16(partial[j]);
        stage->product[h + j][t] = z < 0.0f ? 0.0f : z;
    }
}

__global__ static void index_score_entries(struct lf_index_score_args a) {
    __shared__ struct stage stage;
    uint32_t row = blockIdx.x;
    struct lf_items items = lf_items_of(&a.candidates, row, a.visible[row]);
    for (uint32_t first = blockIdx.y * KEYS; first < items.n; first += gridDim.y * KEYS) {
        uint32_t n = items.n - first < KEYS ? items.n - first : KEYS;
        float total = 0;
        load_keys(a, row, items, first, n, &stage);
        for (uint32_t head = 0; head < a.heads; head += HEADS) {
            uint32_t heads = a.heads - head < HEADS ? a.heads - head : HEADS;
            load_heads(a, row, head, heads, &stage);
            __syncthreads();
            multiply(a, &stage);
            __syncthreads();
            for (uint32_t h = 0; threadIdx.x < n && h < heads; h++)
                total = fmaf(stage.weight[h], stage.product[h][threadIdx.x], total);
            __syncthreads();
        }
        if (threadIdx.x < n)
            a.score[row * a.score_stride + first + threadIdx.x] = lf_f32_settle(total);
    }
}

// How many entries are visible is device memory: blocks share out what the stride has room for.
void lf_index_score_cuda(struct lf_device *device, const struct lf_index_score_args *args) {
    LF_ASSERT(args->dim % 32 == 0 && args->dim <= DIM_MAX);
    uint32_t blocks = lf_blocks(args->score_stride, KEYS);
    dim3 grid(args->rows, blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
    lf_cuda_launch(device, "index_score", index_score_entries, grid, THREADS, *args);
}
