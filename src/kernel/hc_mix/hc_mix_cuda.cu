#include "kernel/hc_mix/hc_mix.h"

#include "format/topology.h"
#include "kernel/chain.cuh"
#include "kernel/linear/stream.cuh"
#include "kernel/math.h"
#include "kernel/wide.cuh"

// Output `out` of a row: pre and post are ready, comb still has its softmax before it.
__device__ static void store_output(const struct lf_hc_mix_args &a, size_t row, uint32_t out,
                                    float dot, float square) {
    uint32_t s = a.streams;
    LF_CONTROL(10, if (row == 5) square = lf_fault_squares(a.x, s * a.dim);) // 10: the first row's
    float rho = 1.0f / sqrtf(square / (float)(s * a.dim) + a.norm_eps);
    LF_CONTROL(2, rho = 1.0f / sqrtf(square / (float)(s * a.dim));) // 2: rho without norm_eps
    LF_CONTROL(12, dot = lf_fault_finite(dot); rho = lf_fault_finite(rho);)
    float m = dot * rho * a.scale[out < s ? 0 : out < 2 * s ? 1 : 2] + a.base[out];
    LF_CONTROL(5, m = dot * rho * a.scale[0] + a.base[out];) // 5: all outputs take the scale of pre
    LF_CONTROL(6, m = m - a.base[out];) // 6: base left out
    if (out < s)
        a.pre[row * s + out] = lf_f32_settle(lf_sigmoid(m) + a.hc_eps);
    else if (out < 2 * s)
        a.post[row * s + (out - s)] = lf_f32_settle(2.0f * lf_sigmoid(m));
    else
        a.comb[row * s * s + (out - 2 * s)] = m;
    LF_CONTROL(3, if (out < s) a.pre[row * s + out] = lf_sigmoid(m);) // 3: pre without hc_eps
    LF_CONTROL(4, if (out >= s && out < 2 * s) a.post[row * s + (out - s)] = lf_sigmoid(m);)
}

// Few rows: a block an output of a row, a part of the row's numbers at a time.
enum { FEW_THREADS = 128, FEW_PART = 1024, FEW_OWN = FEW_PART / FEW_THREADS };
static_assert(FEW_PART % LF_CHAIN_STEP == 0, "partials begin anew with each part");

// A thread's numbers of a part.
template <bool wide>
struct few_share {
    struct lf_chain_share<float, wide ? 4 : 1, FEW_OWN / (wide ? 4 : 1)> fn;
    struct lf_chain_share<uint16_t, wide ? 8 : 1, FEW_OWN / (wide ? 8 : 1)> x;
};

__device__ static uint32_t few_left(uint32_t n, uint32_t k) {
    return k > n ? 0 : n - k < FEW_PART ? n - k : (uint32_t)FEW_PART;
}

// Two parts are on their way. One warp adds, its lower half the dot's partials, the upper x^2's.
template <bool wide>
__global__ static void __launch_bounds__(FEW_THREADS, 4)
hc_mix_few(const __grid_constant__ struct lf_hc_mix_args a) {
    __shared__ float4 stage[2][FEW_PART / 4]; // little, so that blocks find room beside maps
    float *fns = (float *)stage[0], *xs = (float *)stage[1], partial = 0;
    uint32_t row = blockIdx.y, out = blockIdx.x, n = a.streams * a.dim;
    const uint16_t *x = a.x + (size_t)row * n;
    const float *fn = a.fn + (size_t)out * n;
    struct few_share<wide> share[2];
    lf_let_next_begin();
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
        lf_chain_fetch(fn + i * FEW_PART, few_left(n, i * FEW_PART), &share[i].fn);
    lf_wait_for_launches(); // no launch writes fn
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
        lf_chain_fetch(x + i * FEW_PART, few_left(n, i * FEW_PART), &share[i].x);
    for (uint32_t first = 0; first < n; first += 2 * FEW_PART)
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t k = first + i * FEW_PART, next = k + 2 * FEW_PART, length = few_left(n, k);
            lf_chain_store(share[i].fn, length, 0.0f, fns);
            lf_chain_store(share[i].x, length, -0.0f, xs);
            LF_CONTROL(1, __syncthreads(); if (length && k + length == n)
                              fns[lf_chain_place(length - 1, 0)] = 0;) // 1: the last product
            lf_chain_fetch(fn + next, few_left(n, next), &share[i].fn);
            lf_chain_fetch(x + next, few_left(n, next), &share[i].x);
            __syncthreads();
            if (threadIdx.x < LF_WARP)
                partial = lf_chain_add(threadIdx.x < 16 ? fns : xs, xs, lf_chain_room(length),
                                       partial);
            __syncthreads();
        }
    if (threadIdx.x >= LF_WARP)
        return;
    float sum = lf_lanes_tree16(partial), square = __shfl_sync(LF_ALL_LANES, sum, 16);
    if (threadIdx.x == 0)
        store_output(a, row, out, sum, square);
}

// Many rows: a block OUTS outputs, a warp TILE_OUTS of them; a lane a partial, halves rows in turn.
enum { OUTS = 24, TILE_OUTS = 6, OUT_TILES = OUTS / TILE_OUTS, MANY_THREADS = LF_WARP * OUT_TILES };
// Elements of a part; parts of fn on their way or read; rows lie so that halves share no bank.
enum { PART = 256, STAGES = 3, ROW_STEP = PART + 16 };

template <uint32_t TILE_ROWS>
struct stage {
    float fn[STAGES][OUTS][PART], x[2][2 * TILE_ROWS][ROW_STEP];
};

// Sends a part of fn, zeros where there is none.
template <bool wide>
__device__ static void send_part(const struct lf_hc_mix_args &a, uint32_t out, uint32_t k,
                                 float (*to)[PART]) {
    const uint32_t N = wide ? 4 : 1, STEP = MANY_THREADS * N;
    uint32_t n = a.streams * a.dim, outs = a.streams * (2 + a.streams);
    uint32_t own = threadIdx.x * N / PART, first = threadIdx.x * N % PART;
    const float *fn = a.fn + (size_t)(out + own) * n + k + first;
#pragma unroll
    for (uint32_t i = 0; i < OUTS * PART / STEP; i++) {
        uint32_t o = i * STEP / PART, at = i * STEP % PART;
        bool is_there = out + own + o < outs && k + first + at < n;
        if (wide)
            lf_copy_16(&to[own + o][first + at], fn + (size_t)o * n + at, is_there);
        else
            lf_copy_word(&to[own + o][first + at], fn + (size_t)o * n + at, is_there);
    }
    lf_copies_commit();
}

// A thread's numbers of a part's rows, on their way.
template <bool wide, uint32_t TILE_ROWS>
struct share {
    static const uint32_t N = wide ? LF_WIDE : 1, OWN = 2 * TILE_ROWS * PART / MANY_THREADS / N;
    struct lf_wide<N> at[OWN];
};

template <bool wide, uint32_t TILE_ROWS>
__device__ static void fetch_part(const struct lf_hc_mix_args &a, uint32_t row, uint32_t k,
                                  struct share<wide, TILE_ROWS> *s) {
    uint32_t n = a.streams * a.dim;
#pragma unroll
    for (uint32_t i = 0; i < s->OWN; i++) {
        uint32_t at = (i * MANY_THREADS + threadIdx.x) * s->N, r = row + at / PART;
        s->at[i] = {};
        if (r < a.rows && k + at % PART < n)
            s->at[i] = lf_wide_load<share<wide, TILE_ROWS>::N>(a.x + (size_t)r * n + k + at % PART);
    }
}

// Past the `left` numbers that there are -0, whose products with the zeros there change no sum.
template <bool wide, uint32_t TILE_ROWS>
__device__ static void place_part(const struct share<wide, TILE_ROWS> &s, uint32_t left,
                                  float (*x)[ROW_STEP]) {
#pragma unroll
    for (uint32_t i = 0; i < s.OWN; i++) {
        uint32_t at = (i * MANY_THREADS + threadIdx.x) * s.N;
        bool is_there = at % PART < left;
#pragma unroll
        for (uint32_t e = 0; e < s.N; e++)
            x[at / PART][at % PART + e] = is_there ? lf_bf16_to_f32(s.at[i].at[e]) : -0.0f;
    }
}

// Of a thread's tile; of its rows' squares it has a share, other warps have the rest.
template <uint32_t TILE_ROWS>
struct tile {
    static const uint32_t SQUARES = TILE_ROWS / OUT_TILES;
    float dot[TILE_ROWS][TILE_OUTS], square[SQUARES];
};

// A row of the tile among the block's.
__device__ static uint32_t row_at(uint32_t r) {
    return 2 * r + threadIdx.x / 16 % 2;
}

template <uint32_t TILE_ROWS>
__device__ static void add_part(const float (*fn)[PART], const float (*x)[ROW_STEP],
                                struct tile<TILE_ROWS> *t) {
    uint32_t lane = threadIdx.x % 16, warp = threadIdx.x / LF_WARP;
    fn += warp * TILE_OUTS;
#pragma unroll 8
    for (uint32_t k = lane; k < PART + lane; k += 16) {
        float v[TILE_ROWS];
#pragma unroll
        for (uint32_t r = 0; r < TILE_ROWS; r++)
            v[r] = x[row_at(r)][k];
#pragma unroll
        for (uint32_t o = 0; o < TILE_OUTS; o++) {
            float weight = fn[o][k];
#pragma unroll
            for (uint32_t r = 0; r < TILE_ROWS; r++)
                t->dot[r][o] = fmaf(weight, v[r], t->dot[r][o]);
        }
#pragma unroll
        for (uint32_t i = 0; i < t->SQUARES; i++) {
            float own = x[row_at(warp * t->SQUARES + i)][k];
            t->square[i] = fmaf(own, own, t->square[i]);
        }
    }
}

// The tile's sums to their outputs, once all have come.
template <uint32_t TILE_ROWS>
__device__ static void store_tile(const struct lf_hc_mix_args &a, const struct tile<TILE_ROWS> &t) {
    const uint32_t ROWS = 2 * TILE_ROWS;
    __shared__ float dot[ROWS][OUTS], square[ROWS];
    uint32_t first_row = blockIdx.x * ROWS, first_out = blockIdx.y * OUTS;
    uint32_t outs = a.streams * (2 + a.streams), warp = threadIdx.x / LF_WARP;
#pragma unroll
    for (uint32_t r = 0; r < TILE_ROWS; r++)
#pragma unroll
        for (uint32_t o = 0; o < TILE_OUTS; o++)
            dot[row_at(r)][warp * TILE_OUTS + o] = lf_lanes_tree16(t.dot[r][o]);
#pragma unroll
    for (uint32_t i = 0; i < t.SQUARES; i++)
        square[row_at(warp * t.SQUARES + i)] = lf_lanes_tree16(t.square[i]);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < ROWS * OUTS; i += MANY_THREADS)
        if (first_row + i / OUTS < a.rows && first_out + i % OUTS < outs)
            store_output(a, first_row + i / OUTS, first_out + i % OUTS, dot[i / OUTS][i % OUTS],
                         square[i / OUTS]);
}

template <bool wide, uint32_t TILE_ROWS>
__global__ static void __launch_bounds__(MANY_THREADS, 2) hc_mix_many(struct lf_hc_mix_args a) {
    LF_DYNAMIC_SHARED(shared);
    struct stage<TILE_ROWS> *s = (struct stage<TILE_ROWS> *)shared;
    uint32_t row = blockIdx.x * 2 * TILE_ROWS, out = blockIdx.y * OUTS, n = a.streams * a.dim;
    struct tile<TILE_ROWS> tile = {};
    struct share<wide, TILE_ROWS> share;
    lf_let_next_begin();
#pragma unroll
    for (uint32_t i = 0; i < STAGES - 1; i++)
        send_part<wide>(a, out, i * PART, s->fn[i]); // no launch writes weights
    lf_wait_for_launches();
    fetch_part(a, row, 0, &share);
    for (uint32_t k = 0, turn = 0; k < n; k += PART, turn++) {
        const uint32_t now = turn % STAGES, ahead = (turn + STAGES - 1) % STAGES;
        place_part(share, n - k, s->x[turn % 2]);
        lf_copies_wait<STAGES - 2>();
        __syncthreads();
        LF_CONTROL(1, for (uint32_t o = threadIdx.x; o < OUTS && k + PART >= n; o += MANY_THREADS)
                          s->fn[now][o][n - 1 - k] = 0; __syncthreads();)
        send_part<wide>(a, out, k + (STAGES - 1) * PART, s->fn[ahead]);
        fetch_part(a, row, k + PART, &share);
        add_part(s->fn[now], s->x[turn % 2], &tile);
    }
    store_tile(a, tile);
}

template <bool wide, uint32_t TILE_ROWS>
static void launch_many(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t outs = args->streams * (2 + args->streams);
    dim3 grid(lf_blocks(args->rows, 2 * TILE_ROWS), lf_blocks(outs, OUTS));
    lf_cuda_launch(device, "hc_mix", hc_mix_many<wide, TILE_ROWS>, grid, MANY_THREADS, *args,
                   (uint32_t)sizeof(struct stage<TILE_ROWS>));
}

// comb: a thread OWN neighbouring elements of a matrix's row, so that a warp holds all of it.
template <uint32_t S>
struct matrix {
    static const uint32_t own = S <= 5 ? 1 : S % 2 ? S : 2, row_lanes = S / own;
    static const uint32_t lanes = row_lanes * S, fit = LF_WARP / lanes;
};

// Element j of the thread's row.
template <uint32_t S>
__device__ static float in_row(const float c[matrix<S>::own], uint32_t j) {
    uint32_t lane = threadIdx.x / matrix<S>::row_lanes * matrix<S>::row_lanes;
    return __shfl_sync(LF_ALL_LANES, c[j % matrix<S>::own], lane + j / matrix<S>::own);
}

template <uint32_t S>
__device__ static void normalize_rows(float c[matrix<S>::own], float eps) {
    float sum = 0;
#pragma unroll
    for (uint32_t j = 0; j < S; j++)
        sum = sum + in_row<S>(c, j);
    LF_CONTROL(13, eps = 0;) // 13: scaling without hc_eps in the sum
    sum = sum + eps;
#pragma unroll
    for (uint32_t j = 0; j < matrix<S>::own; j++)
        c[j] = c[j] / sum;
}

template <uint32_t S>
__device__ static void normalize_columns(float c[matrix<S>::own], float eps) {
    uint32_t first = threadIdx.x / matrix<S>::lanes * matrix<S>::lanes +
                     threadIdx.x % matrix<S>::row_lanes;
    LF_CONTROL(13, eps = 0;)
#pragma unroll
    for (uint32_t j = 0; j < matrix<S>::own; j++) {
        float sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < S; i++)
            sum = sum + __shfl_sync(LF_ALL_LANES, c[j], first + i * matrix<S>::row_lanes);
        c[j] = c[j] / (sum + eps);
    }
}

template <uint32_t S>
__device__ static void softmax_rows(float c[matrix<S>::own], float eps) {
    float max = in_row<S>(c, 0), sum = 0;
#pragma unroll
    for (uint32_t j = 1; j < S; j++) {
        float other = in_row<S>(c, j);
        max = other > max ? other : max;
    }
#pragma unroll
    for (uint32_t j = 0; j < matrix<S>::own; j++)
        c[j] = lf_exp(c[j] - max);
#pragma unroll
    for (uint32_t j = 0; j < S; j++)
        sum = sum + in_row<S>(c, j);
    LF_CONTROL(7, eps = 0;) // 7: the softmax without hc_eps
#pragma unroll
    for (uint32_t j = 0; j < matrix<S>::own; j++)
        c[j] = c[j] / sum + eps;
}

// A warp as many matrices as fit. The softmax is the first pass by rows.
template <uint32_t S>
__global__ static void hc_mix_comb(struct lf_hc_mix_args a) {
    lf_take_turn();
    const uint32_t own = matrix<S>::own, lanes = matrix<S>::lanes, slot = threadIdx.x / lanes;
    uint32_t row = blockIdx.x * matrix<S>::fit + slot;
    bool is_there = slot < matrix<S>::fit && row < a.rows;
    float *at = a.comb + (size_t)row * S * S + threadIdx.x % lanes * own, c[own];
#pragma unroll
    for (uint32_t j = 0; j < own; j++)
        c[j] = is_there ? at[j] : 0.0f;
    softmax_rows<S>(c, a.hc_eps);
    LF_CONTROL(8, a.sinkhorn_iters--;) // 8: one pass too few
    LF_CONTROL(9, normalize_rows<S>(c, a.hc_eps);) // 9: rows are scaled after the softmax too
    LF_CONTROL(11, a.comb[(size_t)a.rows * S * S] = 0;) // 11: a write past comb
    for (uint32_t iter = 0; iter < a.sinkhorn_iters; iter++) {
        if (iter >= 1)
            normalize_rows<S>(c, a.hc_eps);
        normalize_columns<S>(c, a.hc_eps);
    }
#pragma unroll
    for (uint32_t j = 0; j < own; j++)
        if (is_there)
            at[j] = lf_f32_settle(c[j]);
}

// The kernel for each number of streams, and how many rows a warp of it takes.
struct comb {
    void (*kernel)(struct lf_hc_mix_args a);
    uint32_t rows;
};
#define COMB(s) {hc_mix_comb<s>, matrix<s>::fit}
static const struct comb combs[LF_STREAMS_MAX + 1] = {
    {NULL, 1}, COMB(1), COMB(2), COMB(3), COMB(4), COMB(5), COMB(6), COMB(7), COMB(8)};

// Up to ROWS_FEW rows a sum has a block; up to ROWS_SOME small tiles leave no multiprocessor idle.
enum { ROWS_FEW = 32, ROWS_SOME = 1024 };

template <bool wide>
static void launch_dots(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t outs = args->streams * (2 + args->streams);
    if (args->rows <= ROWS_FEW)
        lf_cuda_launch(device, "hc_mix", hc_mix_few<wide>, dim3(outs, args->rows), FEW_THREADS,
                       *args);
    else if (args->rows <= ROWS_SOME)
        launch_many<wide, OUT_TILES>(device, args);
    else
        launch_many<wide, 2 * OUT_TILES>(device, args);
}

void lf_hc_mix_cuda(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t s = args->streams;
    bool wide = lf_wide_fits(args->x, s * args->dim) && (uintptr_t)args->fn % sizeof(float4) == 0;
    LF_ASSERT(s >= 1 && s <= LF_STREAMS_MAX);
    wide ? launch_dots<true>(device, args) : launch_dots<false>(device, args);
    lf_cuda_launch(device, "hc_mix", combs[s].kernel, dim3(lf_blocks(args->rows, combs[s].rows)),
                   LF_WARP, *args);
}
