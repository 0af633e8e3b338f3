#include "kernel/hc_mix/hc_mix.h"

#include "device/pool.h"
#include "format/topology.h"
#include "kernel/hc_mix/hc_mix_dot.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"

enum { ROWS = 16, OUTS = 12, OUTS_FEW_ROWS = 3, CHUNK = 512 };

struct job {
    const struct lf_hc_mix_args *args;
    uint32_t outs, group, groups; // outputs in all, a task, and tasks a block of rows
};

// Where output o of a row waits for its finish: pre, post, then comb.
static float *place_of(const struct lf_hc_mix_args *a, uint32_t row, uint32_t o) {
    uint32_t s = a->streams;
    if (o < s)
        return a->pre + (size_t)row * s + o;
    if (o < 2 * s)
        return a->post + (size_t)row * s + (o - s);
    return a->comb + (size_t)row * s * s + (o - 2 * s);
}

// The products fn . x of one block of rows and one group of outputs.
static void dot_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct job *job = ctx;
    const struct lf_hc_mix_args *a = job->args;
    uint32_t row = i / job->groups * ROWS, out = i % job->groups * job->group;
    size_t n = (size_t)a->streams * a->dim;
    float partial[ROWS * OUTS * 16] = {0};
    struct hc_tile t = {.n = n, .partial = partial};
    t.rows = a->rows - row < ROWS ? a->rows - row : ROWS;
    t.outs = job->outs - out < job->group ? job->outs - out : job->group;
    size_t chunk = t.rows < 4 ? n : CHUNK;
    (void)worker;
    for (size_t k = 0; k < n; k += chunk) {
        t.x = a->x + row * n + k;
        t.fn = (const char *)a->fn + (out * n + k) * sizeof(float);
        t.length = n - k < chunk ? n - k : chunk;
#if LF_FAULT == 1
        t.length -= k + t.length == n; // 1: the last product is not in the dots
#endif
        hc_dot_block(&t);
    }
    for (uint32_t r = 0; r < t.rows; r++)
        for (uint32_t o = 0; o < t.outs; o++)
            *place_of(a, row + r, out + o) = lf_tree16(hc_partial(&t, r, o));
}

static float small_load(const float *x, uint32_t i) {
    float value;
    memcpy(&value, (const char *)x + 4 * (size_t)i, sizeof value);
    return value;
}

// Softmax of one row of comb, then eps on every element.
static void softmax_row(float *c, uint32_t s, float eps) {
    float max = c[0], sum = 0;
    for (uint32_t j = 1; j < s; j++)
        max = c[j] > max ? c[j] : max;
    for (uint32_t j = 0; j < s; j++) {
        c[j] = lf_exp(c[j] - max);
        sum = sum + c[j];
    }
#if LF_FAULT == 7
    eps = 0.0f; // 7: the softmax without hc_eps
#endif
    for (uint32_t j = 0; j < s; j++)
        c[j] = c[j] / sum + eps;
}

// Divides the s elements c[0], c[step], ... by their sum and eps.
static void normalize(float *c, uint32_t step, uint32_t s, float eps) {
    float sum = 0;
    for (uint32_t j = 0; j < s; j++)
        sum = sum + c[j * step];
#if LF_FAULT == 13
    eps = 0.0f; // 13: scaling without hc_eps in the sum
#endif
    sum = sum + eps;
    for (uint32_t j = 0; j < s; j++)
        c[j * step] = c[j * step] / sum;
}

static void sinkhorn(float *c, uint32_t s, uint32_t iters, float eps) {
    for (uint32_t i = 0; i < s; i++)
        softmax_row(c + i * s, s, eps);
    uint32_t without_rows = 1; // the softmax was the first pass by rows
#if LF_FAULT == 8
    iters--; // 8: one pass too few
#elif LF_FAULT == 9
    without_rows = 0; // 9: rows are scaled after the softmax too
#endif
    for (uint32_t iter = 0; iter < iters; iter++) {
        for (uint32_t i = 0; i < s && iter >= without_rows; i++)
            normalize(c + i * s, 1, s, eps);
        for (uint32_t j = 0; j < s; j++)
            normalize(c + j, s, s, eps);
    }
}

static float mean_square(const uint16_t *x, size_t n) {
    lf_lanes8 low = {0}, high = {0}, v;
    float partial[16];
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
        lf_lanes8_load_bf16(&v, x + k);
        lf_lanes8_fma(&low, &v, &v);
        lf_lanes8_load_bf16(&v, x + k + 8);
        lf_lanes8_fma(&high, &v, &v);
    }
    memcpy(partial, &low, sizeof low);
    memcpy(partial + 8, &high, sizeof high);
    for (; k < n; k++) {
        float one = lf_bf16_to_f32(x[k]);
        partial[k % 16] = fmaf(one, one, partial[k % 16]);
    }
    return lf_tree16(partial) / (float)n;
}

// Turns the products that wait in pre, post and comb into the mixes.
static void finish_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct job *job = ctx;
    const struct lf_hc_mix_args *a = job->args;
    uint32_t s = a->streams;
    size_t n = (size_t)s * a->dim;
    const uint16_t *x = a->x + row * n;
    float norm_eps = a->norm_eps, pre_eps = a->hc_eps, post_factor = 2.0f;
#if LF_FAULT == 2
    norm_eps = 0.0f; // 2: rho without norm_eps
#elif LF_FAULT == 3
    pre_eps = 0.0f; // 3: pre without hc_eps
#elif LF_FAULT == 4
    post_factor = 1.0f; // 4: post without its factor of 2
#elif LF_FAULT == 10
    x = row == 5 ? a->x : x; // 10: the row at place 5 takes the first row's rho
#endif
    float rho = 1.0f / sqrtf(mean_square(x, n) + norm_eps);
    (void)worker;
    for (uint32_t o = 0; o < job->outs; o++) {
        float *place = place_of(a, row, o);
        float scale = small_load(a->scale, o < s ? 0 : o < 2 * s ? 1 : 2);
        float base = small_load(a->base, o);
#if LF_FAULT == 5
        scale = small_load(a->scale, 0); // 5: all outputs take the scale of pre
#elif LF_FAULT == 6
        base = 0.0f; // 6: base left out
#elif LF_FAULT == 12
        *place = *place - *place == 0.0f ? *place : 0.0f; // 12: not finite counts as 0
        rho = rho - rho == 0.0f ? rho : 0.0f;
#endif
        float m = *place * rho * scale + base;
        *place = o < s ? lf_sigmoid(m) + pre_eps : o < 2 * s ? post_factor * lf_sigmoid(m) : m;
    }
#if LF_FAULT == 11
    a->comb[(size_t)(row + 1) * s * s] = 0; // 11: a write past comb
#endif
    sinkhorn(a->comb + (size_t)row * s * s, s, a->sinkhorn_iters, a->hc_eps);
    for (uint32_t o = 0; o < job->outs; o++)
        *place_of(a, row, o) = lf_f32_settle(*place_of(a, row, o));
}

void LF_KERNEL_NAME(lf_hc_mix)(struct lf_device *device, const struct lf_hc_mix_args *args) {
    struct job job = {.args = args, .outs = args->streams * (2 + args->streams)};
    job.group = args->rows <= ROWS ? OUTS_FEW_ROWS : OUTS;
    job.groups = (job.outs + job.group - 1) / job.group;
    uint32_t blocks = (args->rows + ROWS - 1) / ROWS;
    lf_pool_run(device->pool, blocks * job.groups, dot_task, &job);
    lf_pool_run(device->pool, args->rows, finish_row, &job);
}
