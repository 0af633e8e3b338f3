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

// Many rows: eight threads share ROWS rows by OUTS outputs, each two neighbouring partials of all.
template <uint32_t ROWS_, uint32_t OUTS_, uint32_t OUT_WARPS_, uint32_t PART_, uint32_t STAGES_>
struct form {
    // Of a thread; a warp has four times the rows, and a block the outputs of OUT_WARPS warps.
    static constexpr uint32_t ROWS = ROWS_, OUTS = OUTS_, OUT_WARPS = OUT_WARPS_;
    // Elements of a part; parts on their way or read.
    static constexpr uint32_t PART = PART_, STAGES = STAGES_;
    static constexpr uint32_t THREADS = LF_WARP * OUT_WARPS;
    static constexpr uint32_t ALL_ROWS = 4 * ROWS, ALL_OUTS = OUTS * OUT_WARPS;
    // Of a thread's rows, whose squares its warp adds: other warps have the rest.
    static constexpr uint32_t SQUARES = ROWS > OUT_WARPS ? ROWS / OUT_WARPS : 1;
    static_assert(ROWS % SQUARES == 0 && SQUARES * OUT_WARPS >= ROWS, "each row's by a warp");
    // Words of a row in shared memory: four neighbours meet no bank twice.
    static constexpr uint32_t ROW_STEP = PART / 2 + 8;
};

template <class F>
struct stage {
    float fn[F::STAGES][F::ALL_OUTS][F::PART];
    uint32_t x[F::STAGES][F::ALL_ROWS][F::ROW_STEP];
};

// How a block shares out COUNT lines of LINE pieces: LENGTH neighbours of a line, STEP lines.
template <class F, uint32_t COUNT, uint32_t LINE>
struct lines {
    static constexpr uint32_t LENGTH = LINE < F::THREADS ? LINE : F::THREADS;
    static constexpr uint32_t STEP = F::THREADS / LENGTH;
    static_assert(LINE % LENGTH == 0 && F::THREADS % LENGTH == 0, "no thread is idle");
    static_assert(COUNT % STEP == 0, "nor has a line too many");
};

// Sends a part of fn, zeros where there is none.
template <class F, bool wide>
__device__ static void send_fn(const struct lf_hc_mix_args &a, uint32_t out, uint32_t k,
                               float (*to)[F::PART]) {
    constexpr uint32_t N = wide ? 4 : 1, LINE = F::PART / N;
    typedef lines<F, F::ALL_OUTS, LINE> share;
    uint32_t n = a.streams * a.dim, outs = a.streams * (2 + a.streams);
    uint32_t own = threadIdx.x / share::LENGTH, first = threadIdx.x % share::LENGTH * N;
    uint32_t left = outs > out + own ? outs - out - own : 0;
    const float *from = a.fn + (size_t)(out + own) * n + k + first;
#pragma unroll
    for (uint32_t o = 0; o < F::ALL_OUTS; o += share::STEP, from += (size_t)share::STEP * n)
#pragma unroll
        for (uint32_t at = 0; at < F::PART; at += share::LENGTH * N) {
            bool is_there = o < left && k + first + at < n;
            float *place = &to[own + o][first + at];
            if (wide)
                lf_copy_16(place, from + at, is_there);
            else
                lf_copy_word(place, from + at, is_there);
        }
}

// A part of the rows.
template <class F, bool wide>
__device__ static void send_x(const struct lf_hc_mix_args &a, uint32_t row, uint32_t k,
                              uint32_t (*to)[F::ROW_STEP]) {
    constexpr uint32_t N = wide ? 8 : 2, LINE = F::PART / N;
    typedef lines<F, F::ALL_ROWS, LINE> share;
    uint32_t n = a.streams * a.dim;
    uint32_t own = threadIdx.x / share::LENGTH, first = threadIdx.x % share::LENGTH * N;
    uint32_t left = a.rows > row + own ? a.rows - row - own : 0;
    const uint16_t *from = a.x + (size_t)(row + own) * n + k + first;
#pragma unroll
    for (uint32_t r = 0; r < F::ALL_ROWS; r += share::STEP, from += (size_t)share::STEP * n)
#pragma unroll
        for (uint32_t at = 0; at < F::PART; at += share::LENGTH * N) {
            uint32_t there = r < left && k + first + at < n ? n - k - first - at : 0;
            uint32_t *place = &to[own + r][(first + at) / 2];
            if (wide)
                lf_copy_16(place, from + at, there);
            else
                *place = (there ? from[at] : 0u) | (there > 1 ? (uint32_t)from[at + 1] << 16 : 0u);
        }
}

// Past the `left` numbers that there are -0, whose products with the zeros there change no sum.
template <class F>
__device__ static void fill_part(uint32_t left, uint32_t (*x)[F::ROW_STEP]) {
    for (uint32_t i = threadIdx.x; i < F::ALL_ROWS * F::PART / 2; i += F::THREADS) {
        uint32_t at = i % (F::PART / 2), *word = &x[i / (F::PART / 2)][at];
        if (2 * at >= left)
            *word = 0x80008000u;
        else if (2 * at + 1 >= left)
            *word = (*word & 0xFFFFu) | 0x80000000u;
    }
    __syncthreads();
}

// A thread's sums.
template <class F>
struct tile {
    float dot[F::ROWS][F::OUTS][2], square[F::SQUARES][2];
};

// A thread's rows in the block, those first whose squares it adds.
template <class F>
__device__ static uint32_t row_at(uint32_t r) {
    uint32_t own = (r + threadIdx.x / LF_WARP * F::SQUARES) % F::ROWS;
    return own * 4 + threadIdx.x / 8 % 4;
}

template <class F>
__device__ static void add_part(const float (*fn)[F::PART], const uint32_t (*x)[F::ROW_STEP],
                                struct tile<F> *t) {
    const uint32_t *own[F::ROWS];
    fn += threadIdx.x / LF_WARP * F::OUTS;
#pragma unroll
    for (uint32_t r = 0; r < F::ROWS; r++)
        own[r] = x[row_at<F>(r)];
#pragma unroll(F::ROWS * F::OUTS > 8 ? 4 : 8)
    for (uint32_t k = threadIdx.x % 8; k < F::PART / 2; k += 8) {
        float v[F::ROWS][2];
#pragma unroll
        for (uint32_t r = 0; r < F::ROWS; r++) {
            uint32_t word = own[r][k];
            v[r][0] = lf_f32_from_bits(word << 16);
            v[r][1] = lf_f32_from_bits(word & 0xFFFF0000u);
        }
#pragma unroll
        for (uint32_t o = 0; o < F::OUTS; o++) {
            float2 weight = *(const float2 *)&fn[o][2 * k];
#pragma unroll
            for (uint32_t r = 0; r < F::ROWS; r++) {
                t->dot[r][o][0] = fmaf(weight.x, v[r][0], t->dot[r][o][0]);
                t->dot[r][o][1] = fmaf(weight.y, v[r][1], t->dot[r][o][1]);
            }
        }
#pragma unroll
        for (uint32_t r = 0; r < F::SQUARES; r++) {
            t->square[r][0] = fmaf(v[r][0], v[r][0], t->square[r][0]);
            t->square[r][1] = fmaf(v[r][1], v[r][1], t->square[r][1]);
        }
    }
}

// The tree of 16 partials, two a lane.
__device__ static float tree_of_pairs(const float pair[2]) {
    float even = pair[0], odd = pair[1];
#pragma unroll
    for (uint32_t other = 4; other; other /= 2) {
        even = even + __shfl_xor_sync(LF_ALL_LANES, even, other);
        odd = odd + __shfl_xor_sync(LF_ALL_LANES, odd, other);
    }
    return even + odd;
}

// The tile's sums to their outputs, once all have come.
template <class F>
__device__ static void store_tile(const struct lf_hc_mix_args &a, const struct tile<F> &t) {
    __shared__ float dot[F::ALL_ROWS][F::ALL_OUTS], square[F::ALL_ROWS];
    uint32_t first_row = blockIdx.x * F::ALL_ROWS, first_out = blockIdx.y * F::ALL_OUTS;
    uint32_t outs = a.streams * (2 + a.streams), warp = threadIdx.x / LF_WARP;
#pragma unroll
    for (uint32_t r = 0; r < F::ROWS; r++)
#pragma unroll
        for (uint32_t o = 0; o < F::OUTS; o++) {
            float sum = tree_of_pairs(t.dot[r][o]);
            if (threadIdx.x % 8 == 0)
                dot[row_at<F>(r)][warp * F::OUTS + o] = sum;
        }
#pragma unroll
    for (uint32_t r = 0; r < F::SQUARES; r++) {
        float sum = tree_of_pairs(t.square[r]);
        if (threadIdx.x % 8 == 0 && warp * F::SQUARES < F::ROWS)
            square[row_at<F>(r)] = sum;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < F::ALL_ROWS * F::ALL_OUTS; i += F::THREADS) {
        uint32_t row = i / F::ALL_OUTS, out = i % F::ALL_OUTS;
        if (first_row + row < a.rows && first_out + out < outs)
            store_output(a, first_row + row, first_out + out, dot[row][out], square[row]);
    }
}

template <class F, bool wide>
__global__ static void __launch_bounds__(F::THREADS, 1) hc_mix_many(struct lf_hc_mix_args a) {
    LF_DYNAMIC_SHARED(shared);
    struct stage<F> *s = (struct stage<F> *)shared;
    uint32_t row = blockIdx.x * F::ALL_ROWS, out = blockIdx.y * F::ALL_OUTS;
    uint32_t n = a.streams * a.dim;
    struct tile<F> tile = {};
    lf_let_next_begin();
#pragma unroll
    for (uint32_t i = 0; i < F::STAGES - 1; i++)
        send_fn<F, wide>(a, out, i * F::PART, s->fn[i]); // no launch writes weights
    lf_wait_for_launches();
#pragma unroll
    for (uint32_t i = 0; i < F::STAGES - 1; i++) {
        send_x<F, wide>(a, row, i * F::PART, s->x[i]);
        lf_copies_commit();
    }
    for (uint32_t k = 0, now = 0; k < n; k += F::PART, now = (now + 1) % F::STAGES) {
        const uint32_t ahead = (now + F::STAGES - 1) % F::STAGES;
        const uint32_t next = k + (F::STAGES - 1) * F::PART;
        lf_copies_wait<F::STAGES - 2>();
        __syncthreads();
        if (n - k < F::PART)
            fill_part<F>(n - k, s->x[now]);
        LF_CONTROL(1, for (uint32_t o = threadIdx.x; o < F::ALL_OUTS && k + F::PART >= n;
                           o += F::THREADS)
                          s->fn[now][o][n - 1 - k] = 0; __syncthreads();)
        send_fn<F, wide>(a, out, next, s->fn[ahead]);
        send_x<F, wide>(a, row, next, s->x[ahead]);
        lf_copies_commit();
        add_part<F>(s->fn[now], s->x[now], &tile);
    }
    store_tile<F>(a, tile);
}

template <class F, bool wide>
static void launch_many(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t outs = args->streams * (2 + args->streams);
    dim3 grid(lf_blocks(args->rows, F::ALL_ROWS), lf_blocks(outs, F::ALL_OUTS));
    lf_cuda_launch(device, "hc_mix", hc_mix_many<F, wide>, grid, F::THREADS, *args,
                   (uint32_t)sizeof(struct stage<F>));
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

// Up to ROWS_FEW rows a sum has a block; then tiles as large as leave no multiprocessor idle.
enum { ROWS_FEW = 16, ROWS_SOME = 128, ROWS_MORE = 512, ROWS_MOST = 1024 };

template <bool wide>
static void launch_dots(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t outs = args->streams * (2 + args->streams);
    // On a graph's branch it is waited for by nobody, and costs what it keeps from others.
    uint32_t rows = lf_cuda_scratch(device->cuda) ? args->rows : ROWS_MOST + 1;
    if (args->rows <= ROWS_FEW)
        lf_cuda_launch(device, "hc_mix", hc_mix_few<wide>, dim3(outs, args->rows), FEW_THREADS,
                       *args);
    else if (rows <= ROWS_SOME)
        launch_many<form<1, 1, 3, 384, 4>, wide>(device, args);
    else if (rows <= ROWS_MORE)
        launch_many<form<2, 3, 4, 256, 4>, wide>(device, args);
    else if (rows <= ROWS_MOST)
        launch_many<form<4, 3, 4, 256, 4>, wide>(device, args);
    else
        launch_many<form<4, 6, 4, 256, 3>, wide>(device, args);
}

void lf_hc_mix_cuda(struct lf_device *device, const struct lf_hc_mix_args *args) {
    uint32_t s = args->streams;
    bool wide = lf_wide_fits(args->x, s * args->dim) && (uintptr_t)args->fn % sizeof(float4) == 0;
    LF_ASSERT(s >= 1 && s <= LF_STREAMS_MAX);
    wide ? launch_dots<true>(device, args) : launch_dots<false>(device, args);
    lf_cuda_launch(device, "hc_mix", combs[s].kernel, dim3(lf_blocks(args->rows, combs[s].rows)),
                   LF_WARP, *args);
}
