// Times linear maps one call at a time, as the lines of standard input ask (tools/peers).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/number.h"
#include "kernel/table.h"

enum {
    MATRICES_MAX = 64,
    THREADS_MAX = 2,
    ROWS_MAX = 512,
    SET_BYTES_MAX = 512 << 20,
    IN_MAX = 16384,
    OUT_MAX = 131072,
};

static const struct {
    const char *name;
    enum lf_weight_format format;
} formats[] = {{"bf16", LF_WEIGHT_BF16}, {"fp8", LF_WEIGHT_FP8}, {"mxfp4", LF_WEIGHT_MXFP4}};

struct calls {
    struct lf_kernels k;
    struct lf_pool *pool[THREADS_MAX];
    struct lf_matrix w[MATRICES_MAX];
    uint32_t n;
    uint8_t *weights, *scales;
    uint16_t *x;
    float *y;
};

static uint64_t dice(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state;
}

// No NaN code in any format, scales of ordinary size, normal rows of x as the map reads them.
static bool fill(struct calls *c) {
    c->weights = aligned_alloc(4096, SET_BYTES_MAX);
    c->scales = malloc((size_t)OUT_MAX * (IN_MAX / 32));
    c->x = malloc((size_t)ROWS_MAX * IN_MAX * sizeof *c->x);
    c->y = malloc((size_t)ROWS_MAX * OUT_MAX * sizeof *c->y);
    if (!c->weights || !c->scales || !c->x || !c->y)
        return false;
    uint64_t state = 1;
    for (size_t i = 0; i < SET_BYTES_MAX / 8; i++) {
        uint64_t d = dice(&state), bits = (d ^ d >> 29) & 0x8F8F8F8F8F8F8F8Fu;
        ((uint64_t *)(void *)c->weights)[i] = bits | 0x3030303030303030u;
    }
    memset(c->scales, 118, (size_t)OUT_MAX * (IN_MAX / 32));
    for (size_t i = 0; i < (size_t)ROWS_MAX * IN_MAX; i++) {
        double sum = -6.0;
        for (int k = 0; k < 12; k++)
            sum += (double)(dice(&state) >> 11) * 0x1p-53;
        c->x[i] = lf_bf16_from_f32((float)sum);
    }
    struct lf_act_quant_args args = {LF_ACT_QA8, ROWS_MAX, IN_MAX, c->x, IN_MAX, c->x, IN_MAX};
    c->k.act_quant(c->pool[THREADS_MAX - 1], &args);
    return true;
}

static bool set(struct calls *c, const char *name, uint32_t in, uint32_t out, uint32_t n) {
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        if (strcmp(name, formats[f].name))
            continue;
        struct lf_matrix m = {.format = formats[f].format, .in = in, .out = out};
        if (in % 32 || in > IN_MAX || out > OUT_MAX || !n || n > MATRICES_MAX ||
            lf_matrix_row_bytes(&m) * out > SET_BYTES_MAX / n)
            return false;
        c->n = n;
        for (uint32_t i = 0; i < n; i++) {
            c->w[i] = m;
            c->w[i].data = c->weights + i * lf_matrix_row_bytes(&m) * out;
            c->w[i].scale = c->scales;
        }
        return true;
    }
    return false;
}

static double seconds_since(const struct timespec *from, clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)(t.tv_sec - from->tv_sec) + 1e-9 * (double)(t.tv_nsec - from->tv_nsec);
}

// Wall and processor seconds of one launch.
static bool run(struct calls *c, const uint32_t ask[4], double seconds[2]) {
    static struct lf_linear_job job[MATRICES_MAX];
    uint32_t rows = ask[0], threads = ask[1], first = ask[2], count = ask[3];
    if (!c->n || rows > ROWS_MAX || !threads || threads > THREADS_MAX || count > c->n)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct lf_matrix *w = &c->w[(first + i) % c->n];
        // All write over one another: what they compute is thrown away.
        job[i] = (struct lf_linear_job){.w = w, .rows = rows, .x = c->x, .x_stride = w->in,
                                        .y = c->y, .y_stride = w->out, .y_f32 = 1};
    }
    struct lf_linear_args args = {.n_jobs = count, .job = job};
    struct timespec wall, cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    clock_gettime(CLOCK_MONOTONIC, &wall);
    c->k.linear(c->pool[threads - 1], &args);
    seconds[0] = seconds_since(&wall, CLOCK_MONOTONIC);
    seconds[1] = seconds_since(&cpu, CLOCK_PROCESS_CPUTIME_ID);
    return true;
}

static bool open_calls(struct calls *c) {
    struct lf_error err = LF_ERROR_INIT;
    enum lf_status status = lf_kernels_init(&c->k, LF_ISA_AUTO, &err);
    for (uint32_t t = 0; status == LF_OK && t < THREADS_MAX; t++)
        status = lf_pool_open(&c->pool[t], t + 1, LF_LINEAR_SCRATCH_BYTES, &err);
    if (status != LF_OK)
        fprintf(stderr, "linear_calls: %s\n", err.text);
    return status == LF_OK && fill(c);
}

int main(void) {
    static struct calls c;
    char line[200], name[40];
    uint32_t in, out, n, ask[4];
    bool good = open_calls(&c);
    while (good && fgets(line, sizeof line, stdin)) {
        double seconds[2] = {0};
        if (sscanf(line, "set %39s %u %u %u", name, &in, &out, &n) == 4)
            good = set(&c, name, in, out, n);
        else
            good = sscanf(line, "run %u %u %u %u", &ask[0], &ask[1], &ask[2], &ask[3]) == 4 &&
                   run(&c, ask, seconds);
        if (good)
            printf("%.9f %.9f\n", seconds[0], seconds[1]);
        else
            fprintf(stderr, "linear_calls: expected set FORMAT IN OUT N or run ROWS THREADS FIRST "
                            "COUNT within the limits, not %s", line);
        fflush(stdout);
    }
    for (uint32_t t = 0; t < THREADS_MAX; t++)
        lf_pool_close(c.pool[t]);
    return good ? 0 : 2;
}
