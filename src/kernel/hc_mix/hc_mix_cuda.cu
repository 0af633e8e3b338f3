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

// Few rows: a block an output of a row. Rows longer than STRETCH_MAX numbers come in stretches.
enum { FEW_THREADS = 256, STRETCH_MAX = 24 * 1024, ON_THE_WAY = 10 };
static_assert(STRETCH_MAX % LF_CHAIN_STEP == 0, "partials begin anew with each stretch");

struct few {
    struct lf_hc_mix_args a;
    uint32_t stretch;
};

// One warp adds, a lane a partial: the lower half those of the dot, the upper one those of x^2.
template <bool wide>
__global__ static void __launch_bounds__(FEW_THREADS)
hc_mix_few(const __grid_constant__ struct few f) {
    LF_DYNAMIC_SHARED(shared);
    const struct lf_hc_mix_args &a = f.a;
    uint32_t row = blockIdx.y, out = blockIdx.x, n = a.streams * a.dim, length = f.stretch;
    float *fns = (float *)shared, *xs = fns + f.stretch, partial = 0;
    const uint16_t *x = a.x + (size_t)row * n;
    const float *fn = a.fn + (size_t)out * n;
    lf_let_next_begin();
    length = n < length ? n : length;
    lf_chain_bring<wide ? 4 : 1, ON_THE_WAY>(fn, length, 0.0f, fns); // no launch writes weights
    lf_wait_for_launches();
    for (uint32_t k = 0; k < n; k += f.stretch) {
        length = n - k < f.stretch ? n - k : f.stretch;
        if (k)
            lf_chain_bring<wide ? 4 : 1, ON_THE_WAY>(fn + k, length, 0.0f, fns);
        lf_chain_bring<wide ? 8 : 1, ON_THE_WAY>(x + k, length, -0.0f, xs);
        __syncthreads();
        LF_CONTROL(1, if (k + length == n) fns[lf_chain_place(length - 1, 0)] = 0;
                   __syncthreads();) // 1: the last product is not in the dots
        if (threadIdx.x < LF_WARP)
            partial = lf_chain_add(threadIdx.x < 16 ? fns : xs, xs, lf_chain_room(length), partial);
        __syncthreads();
    }
    if (threadIdx.x >= LF_WARP)
        return;
    float sum = lf_lanes_tree16(partial), square = __shfl_sync(LF_ALL_LANES, sum, 16);
    if (threadIdx.x == 0)
        store_output(a, row, out, sum, square);
}

static void launch_few(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t s = args->streams, n = s * args->dim, room = lf_chain_room(n);
    bool wide = lf_wide_fits(args->x, n) && (uintptr_t)args->fn % sizeof(float4) == 0;
    struct few few = {*args, room < STRETCH_MAX ? room : (uint32_t)STRETCH_MAX};
    lf_cuda_launch(device, "hc_mix", wide ? hc_mix_few<true> : hc_mix_few<false>,
                   dim3(s * (2 + s), args->rows), FEW_THREADS, few,
                   2 * few.stretch * (uint32_t)sizeof(float));
}

// Many rows: a block ROWS rows and OUTS outputs; a thread a partial of TILE_ROWS by TILE_OUTS.
enum { ROWS = 8, OUTS = 24, TILE_ROWS = 2, TILE_OUTS = 6, OUT_TILES = OUTS / TILE_OUTS };
enum { MANY_THREADS = 16 * (ROWS / TILE_ROWS) * OUT_TILES, PART = MANY_THREADS };

struct part {
    float fn[OUTS][PART], x[ROWS][PART];
};

// A thread's element of each row and output of a part, on its way.
struct column {
    float fn[OUTS];
    uint16_t x[ROWS];
};

__device__ static void fetch_column(const struct lf_hc_mix_args &a, uint32_t row, uint32_t out,
                                    uint32_t k, struct column *c) {
    uint32_t n = a.streams * a.dim, outs = a.streams * (2 + a.streams);
#pragma unroll
    for (uint32_t o = 0; o < OUTS; o++) {
        c->fn[o] = k < n && out + o < outs ? a.fn[(size_t)(out + o) * n + k] : 0.0f;
        LF_CONTROL(1, c->fn[o] = k + 1 < n ? c->fn[o] : 0;)
    }
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++)
        c->x[r] = k < n && row + r < a.rows ? a.x[(size_t)(row + r) * n + k] : 0;
}

__device__ static void place_column(const struct column &c, struct part *p) {
#pragma unroll
    for (uint32_t o = 0; o < OUTS; o++)
        p->fn[o][threadIdx.x] = c.fn[o];
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++)
        p->x[r][threadIdx.x] = lf_bf16_to_f32(c.x[r]);
}

// Of a thread's tile; square is that of one of its rows, the same in several tiles.
struct tile {
    float dot[TILE_ROWS][TILE_OUTS], square;
};

__device__ static void add_part(const struct part *p, uint32_t row, uint32_t out, struct tile *t) {
    uint32_t lane = threadIdx.x % 16, own = row + out / TILE_OUTS % TILE_ROWS;
#pragma unroll
    for (uint32_t k = 0; k < PART; k += 16) {
        float x[TILE_ROWS], square = p->x[own][k + lane];
#pragma unroll
        for (uint32_t r = 0; r < TILE_ROWS; r++)
            x[r] = p->x[row + r][k + lane];
#pragma unroll
        for (uint32_t o = 0; o < TILE_OUTS; o++) {
            float fn = p->fn[out + o][k + lane];
#pragma unroll
            for (uint32_t r = 0; r < TILE_ROWS; r++)
                t->dot[r][o] = fmaf(fn, x[r], t->dot[r][o]);
        }
        t->square = fmaf(square, square, t->square);
    }
}

__global__ static void __launch_bounds__(MANY_THREADS) hc_mix_many(struct lf_hc_mix_args a) {
    lf_take_turn();
    __shared__ struct part part;
    __shared__ float dot[ROWS][OUTS], square[ROWS];
    static_assert(OUT_TILES >= TILE_ROWS, "out tiles add the squares of a row each");
    uint32_t first_row = blockIdx.x * ROWS, first_out = blockIdx.y * OUTS, t = threadIdx.x;
    uint32_t n = a.streams * a.dim, outs = a.streams * (2 + a.streams);
    uint32_t out = t / 16 % OUT_TILES * TILE_OUTS, row = t / 16 / OUT_TILES * TILE_ROWS;
    struct tile tile = {};
    struct column column;
    fetch_column(a, first_row, first_out, t, &column);
    for (uint32_t k = 0; k < n; k += PART) {
        place_column(column, &part);
        __syncthreads();
        fetch_column(a, first_row, first_out, k + PART + t, &column);
        add_part(&part, row, out, &tile);
        __syncthreads();
    }
#pragma unroll
    for (uint32_t r = 0; r < TILE_ROWS; r++)
#pragma unroll
        for (uint32_t o = 0; o < TILE_OUTS; o++)
            dot[row + r][out + o] = lf_lanes_tree16(tile.dot[r][o]);
    square[row + out / TILE_OUTS % TILE_ROWS] = lf_lanes_tree16(tile.square);
    __syncthreads();
    for (uint32_t i = t; i < ROWS * OUTS; i += MANY_THREADS)
        if (first_row + i / OUTS < a.rows && first_out + i % OUTS < outs)
            store_output(a, first_row + i / OUTS, first_out + i % OUTS, dot[i / OUTS][i % OUTS],
                         square[i / OUTS]);
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

// From here on reading fn once for several rows gains more than sums side by side lose.
enum { ROWS_MANY = 112 };

void lf_hc_mix_cuda(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t s = args->streams, outs = s * (2 + s);
    LF_ASSERT(s >= 1 && s <= LF_STREAMS_MAX);
    if (args->rows < ROWS_MANY)
        launch_few(device, args);
    else
        lf_cuda_launch(device, "hc_mix", hc_mix_many,
                       dim3(lf_blocks(args->rows, ROWS), lf_blocks(outs, OUTS)), MANY_THREADS,
                       *args);
    lf_cuda_launch(device, "hc_mix", combs[s].kernel, dim3(lf_blocks(args->rows, combs[s].rows)),
                   LF_WARP, *args);
}
