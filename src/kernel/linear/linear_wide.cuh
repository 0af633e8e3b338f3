// Many rows: weights are decoded into registers, rows lie in shared memory, products on wgmma.
#pragma once
#include "kernel/linear/linear.h"
#include "kernel/linear/linear_chunk.cuh"
#include "kernel/linear/stream.cuh"
#include "kernel/linear/wgmma.cuh"

// A block takes 128 outputs by `rows` rows: four warps 64 outputs, and lane l what mma.cuh says.
enum { WIDE_OUTS = 128, WIDE_THREADS = 256, WIDE_WARPS = WIDE_THREADS / LF_WARP };
enum { WIDE_SLAB_BYTES = 64, WIDE_STAGES = 5 }; // of a weight row; of codes on the way
enum { WIDE_TURN = 128, WIDE_PART_TURNS = LF_LINEAR_PART / WIDE_TURN }; // elements of eight steps

// A stage of K: some slabs of codes, and the rows in the order of the steps.
template <enum lf_weight_format format, int rows>
struct wide_shape {
    static const uint32_t elements = lf_chunk_elements(format), slab = 4 * elements;
    static const uint32_t slabs = format == LF_WEIGHT_BF16 ? 2 : 1, k = slabs * slab;
    static const uint32_t quarters = k / 64; // four steps each
    // Eight numbers of all rows make half a step; 16 bytes between halves spread them over banks.
    static const uint32_t half_bytes = rows * 16 + 16, rows_bytes = k / 8 * half_bytes;
    static const uint32_t codes_bytes = slabs * WIDE_OUTS * WIDE_SLAB_BYTES;
    static const uint32_t eights = rows / 8 / WIDE_WARPS; // of rows that a warp brings
    static const uint32_t vectors = k / 32; // of 16 bytes that a lane brings of a row
};

// Shared memory of a block: codes of stages on the way, and rows of three stages.
template <enum lf_weight_format format, int rows>
struct wide_block {
    typedef wide_shape<format, rows> shape;
    uint8_t codes[WIDE_STAGES][shape::codes_bytes];
    uint8_t rows_of[3][shape::rows_bytes];
    uint32_t end[LF_LINEAR_JOBS]; // lf_count_tiles
};

// A tile, and what a lane brings of its rows: chunk l%4 of row l/4 of eight.
template <enum lf_weight_format format, int rows>
struct wide_tile {
    typedef wide_shape<format, rows> shape;
    struct lf_linear_place place;
    uint32_t stages;
    const uint16_t *x[shape::eights];
    uint4 next[shape::eights][shape::vectors];
};

// Codes of a stage: 16 bytes a lane of each slab.
template <enum lf_weight_format format, int rows>
__device__ static void copy_codes(const struct lf_linear_place &place, uint32_t k0, uint8_t *to) {
    typedef wide_shape<format, rows> shape;
    const struct lf_linear_work &w = place.w;
#pragma unroll
    for (uint32_t i = threadIdx.x; i < shape::codes_bytes / 16; i += WIDE_THREADS) {
        uint32_t slab = i / (4 * WIDE_OUTS), o = place.out + i % (4 * WIDE_OUTS) / 4;
        uint32_t k = k0 + slab * shape::slab + i % 4 * shape::elements;
        o = o < w.out ? o : w.out - 1;
        bool is_there = k < w.in;
        lf_copy_16(to + 16 * i,
                   w.data + lf_chunk_at<format>((size_t)o * w.in + (is_there ? k : 0)), is_there);
    }
}

// The half step (two a step) that word q of a chunk of x belongs to.
template <enum lf_weight_format format>
__device__ static uint32_t half_of_word(uint32_t q) {
    return format == LF_WEIGHT_MXFP4 ? q / 4 * 4 + q % 2 * 2 + q % 4 / 2 : q;
}

// Where the lane's rows begin; those past the job's last are the last once more.
template <enum lf_weight_format format, int rows>
__device__ static void find_rows(struct wide_tile<format, rows> *tile) {
    typedef wide_shape<format, rows> shape;
    const struct lf_linear_work &w = tile->place.w;
    uint32_t warp = threadIdx.x / LF_WARP, lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (uint32_t e = 0; e < shape::eights; e++) {
        uint32_t r = tile->place.row + (warp + e * WIDE_WARPS) * 8 + lane / 4;
        r = r < w.rows ? r : w.rows - 1;
        tile->x[e] = w.x + (size_t)(w.x_index ? w.x_index[r] : r) * w.x_stride +
                     lane % 4 * shape::elements;
    }
}

// Rows of a stage are on their way to registers.
template <enum lf_weight_format format, int rows>
__device__ static void load_rows(struct wide_tile<format, rows> *tile, uint32_t s) {
    typedef wide_shape<format, rows> shape;
    uint32_t first = threadIdx.x % 4 * shape::elements;
#pragma unroll
    for (uint32_t v = 0; v < shape::vectors; v++) {
        uint32_t k = s * shape::k + v * 8 / shape::elements * shape::slab + v * 8 % shape::elements;
#pragma unroll
        for (uint32_t e = 0; e < shape::eights; e++) {
            tile->next[e][v] = {0, 0, 0, 0};
            if (k + first < tile->place.w.in)
                tile->next[e][v] = lf_load_16(tile->x[e] + k);
        }
    }
}

// And from there, word by word, to where the steps read them.
template <enum lf_weight_format format, int rows>
__device__ static void store_rows(const struct wide_tile<format, rows> &tile, uint8_t *to) {
    typedef wide_shape<format, rows> shape;
    const uint32_t words = shape::elements / 2; // of a chunk
    uint32_t warp = threadIdx.x / LF_WARP, lane = threadIdx.x % LF_WARP;
    to += (warp * 8 + lane / 4) * 16 + lane % 4 * 4;
#pragma unroll
    for (uint32_t v = 0; v < shape::vectors; v++)
#pragma unroll
        for (uint32_t e = 0; e < shape::eights; e++) {
            uint4 all = tile.next[e][v];
            uint32_t word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t q = 4 * v + i;
                uint32_t half = q / words * words + half_of_word<format>(q % words);
                *(uint32_t *)(to + half * shape::half_bytes + e * WIDE_WARPS * 128) = word[i];
            }
        }
}

// Scales of the lane's chunks of a stage: of its two outputs, 8 apart.
template <enum lf_weight_format format, int rows>
__device__ static void load_scales(const struct lf_linear_place &place, uint32_t s,
                                   uint32_t scale[2]) {
    typedef wide_shape<format, rows> shape;
    const struct lf_linear_work &w = place.w;
    uint32_t lane = threadIdx.x % LF_WARP, k = s * shape::k + lane % 4 * shape::elements;
    uint32_t out = place.out + threadIdx.x / LF_WARP * 16 + lane / 4;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t o = out + 8 * side < w.out ? out + 8 * side : w.out - 1;
        scale[side] = 127;
        if (format != LF_WEIGHT_BF16 && k < w.in)
            scale[side] = w.scale[lf_scale_at<format>(w.in, o, k)];
    }
}

// Four steps' words of a lane's output: 8 of BF16, 4 of FP8, 2 of MXFP4.
template <enum lf_weight_format format>
__device__ static void load_codes(const uint8_t *codes, uint32_t quarter, uint32_t *word) {
    if (format == LF_WEIGHT_MXFP4) {
        uint2 two = *(const uint2 *)(codes + 8 * quarter);
        word[0] = two.x, word[1] = two.y;
        return;
    }
    const uint32_t slabs = format == LF_WEIGHT_BF16 ? 2 : 1;
#pragma unroll
    for (uint32_t slab = 0; slab < slabs; slab++) {
        uint4 four = *(const uint4 *)(codes + slab * WIDE_OUTS * WIDE_SLAB_BYTES);
        word[4 * slab] = four.x, word[4 * slab + 1] = four.y;
        word[4 * slab + 2] = four.z, word[4 * slab + 3] = four.w;
    }
}

// Four steps' operands of both outputs. MXFP4's pairs are made neighbours, as the rows are.
template <enum lf_weight_format format>
__device__ static void decode_quarter(const uint8_t *codes, uint32_t quarter,
                                      const uint32_t scale[2], uint32_t a[16]) {
    const uint32_t words = format == LF_WEIGHT_BF16 ? 8 : format == LF_WEIGHT_FP8 ? 4 : 2;
    uint32_t lane = threadIdx.x % LF_WARP, out = threadIdx.x / LF_WARP * 16 + lane / 4;
    uint32_t word[2 * words], pair[16];
#pragma unroll
    for (uint32_t side = 0; side < 2; side++)
        load_codes<format>(codes + (out + 8 * side) * WIDE_SLAB_BYTES + lane % 4 * 16, quarter,
                           word + side * words);
    lf_decode_words<format, words, 2>(word, scale, pair);
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t side = i / 8, p = i % 8, other = pair[i ^ 1];
        if (format == LF_WEIGHT_MXFP4)
            a[p / 2 * 4 + p % 2 * 2 + side] =
                p % 2 ? __byte_perm(other, pair[i], 0x7632) : __byte_perm(pair[i], other, 0x5410);
        else
            a[p / 2 * 4 + p % 2 * 2 + side] = pair[i];
    }
}

// What a lane holds of a tile: the present part's sums and those of the parts before.
template <int rows>
struct wide_sums {
    float part[rows / 2], total[rows / 2];
};

// The next part begins: until its first product is done its sums hold the one before.
template <int rows>
__device__ static void end_part(bool is_first, struct wide_sums<rows> *sums) {
    lf_wgmma_wait<0>();
    lf_wgmma_settle(sums->part);
#pragma unroll
    for (int i = 0; i < rows / 2; i++)
        sums->total[i] = is_first ? sums->part[i] : sums->total[i] + sums->part[i];
}

template <enum lf_weight_format format, int rows>
__device__ static void store_tile(const struct lf_linear_place &place,
                                  const float total[rows / 2]) {
    uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t out = place.out + threadIdx.x / LF_WARP * 16 + lane / 4;
#pragma unroll
    for (uint32_t i = 0; i < rows / 2; i++)
        lf_store_sum(place.w, place.row + i / 4 * 8 + lane % 4 * 2 + i % 2, out + i % 4 / 2 * 8,
                     total[i]);
}

// What stages to come need: the rows of the next, those of the one after it, and a last's codes.
template <enum lf_weight_format format, int rows>
__device__ static void bring_stages(struct wide_block<format, rows> *block, uint32_t s,
                                    struct wide_tile<format, rows> *tile) {
    store_rows<format, rows>(*tile, block->rows_of[(s + 1) % 3]);
    lf_show_tensor_cores();
    if (s + 2 < tile->stages)
        load_rows<format, rows>(tile, s + 2);
    if (s + WIDE_STAGES - 1 < tile->stages)
        copy_codes<format, rows>(tile->place, (s + WIDE_STAGES - 1) * wide_shape<format, rows>::k,
                                 block->codes[(s + WIDE_STAGES - 1) % WIDE_STAGES]);
    lf_copies_commit();
}

// Four steps of a stage begin. Others may still be under way.
template <enum lf_weight_format format, int rows>
__device__ static void add_quarter(const uint8_t *codes, const uint8_t *rows_of, uint32_t quarter,
                                   const uint32_t scale[2], bool is_sum, float (&sum)[rows / 2]) {
    typedef wide_shape<format, rows> shape;
    uint32_t a[16];
    const uint8_t *half = rows_of + quarter * 8 * shape::half_bytes;
    decode_quarter<format>(codes, quarter, scale, a);
    lf_wgmma_begin();
#pragma unroll
    for (uint32_t step = 0; step < 4; step++)
        lf_wgmma_bf16(sum, a + 4 * step,
                      lf_shared_rows_at(half + 2 * step * shape::half_bytes, shape::half_bytes),
                      step || is_sum);
    lf_wgmma_commit();
}

// Before the first stage.
template <enum lf_weight_format format, int rows>
__device__ static void begin_tile(struct wide_block<format, rows> *block,
                                  struct wide_tile<format, rows> *tile) {
    typedef wide_shape<format, rows> shape;
    tile->stages = (tile->place.w.in + WIDE_TURN - 1) / WIDE_TURN * WIDE_TURN / shape::k;
    for (uint32_t s = 0; s < WIDE_STAGES - 1; s++) {
        if (s < tile->stages)
            copy_codes<format, rows>(tile->place, s * shape::k, block->codes[s]);
        lf_copies_commit();
    }
    find_rows<format, rows>(tile);
    load_rows<format, rows>(tile, 0);
    store_rows<format, rows>(*tile, block->rows_of[0]);
    lf_show_tensor_cores();
    load_rows<format, rows>(tile, 1);
}

// All of K: two times four steps a turn, five turns a part.
template <enum lf_weight_format format, int rows>
__device__ static void run_tile(struct wide_block<format, rows> *block,
                                struct wide_tile<format, rows> *tile) {
    typedef wide_shape<format, rows> shape;
    uint32_t turns = (lf_same(tile->place.w.in) + WIDE_TURN - 1) / WIDE_TURN, s = 0, scale[2];
    struct wide_sums<rows> sums = {};
    begin_tile<format, rows>(block, tile);
    load_scales<format, rows>(tile->place, 0, scale);
    for (uint32_t done = 0; done < turns; done += WIDE_PART_TURNS) {
        uint32_t n = turns - done < WIDE_PART_TURNS ? turns - done : WIDE_PART_TURNS;
        for (uint32_t turn = 0; turn < n; turn++) {
#pragma unroll
            for (uint32_t q = 0; q < 2; q++) {
                if (q % shape::quarters == 0) {
                    lf_copies_wait<WIDE_STAGES - 2>();
                    __syncthreads();
                }
                add_quarter<format, rows>(block->codes[s % WIDE_STAGES], block->rows_of[s % 3],
                                          q % shape::quarters, scale, q || turn, sums.part);
                if (q % shape::quarters == 0)
                    bring_stages<format, rows>(block, s, tile);
                if ((q + 1) % shape::quarters == 0)
                    load_scales<format, rows>(tile->place, ++s, scale);
                lf_wgmma_wait<1>();
            }
        }
        end_part<rows>(done == 0, &sums);
    }
    store_tile<format, rows>(tile->place, sums.total);
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <enum lf_weight_format format, int rows>
__global__ static void __launch_bounds__(WIDE_THREADS, 1)
linear_wide(const __grid_constant__ struct lf_linear_launch launch) {
    LF_DYNAMIC_SHARED(shared);
    struct wide_block<format, rows> *block = (struct wide_block<format, rows> *)shared;
    struct wide_tile<format, rows> tile;
    uint32_t tiles = lf_count_tiles(launch, rows, WIDE_OUTS, block->end);
    for (uint32_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        tile.place = lf_find_tile(launch, block->end, t, rows, WIDE_OUTS);
        run_tile<format, rows>(block, &tile);
        __syncthreads();
    }
}
