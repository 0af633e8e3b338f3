// Speed of linear maps as fractions of the plain read and of the FMA peak of the same run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif
#include "device/pool.h"
#include "kernel/linear/linear.h"

enum { REPEATS = 5, MATRICES_MAX = 64, MATRIX_SET_BYTES = 96 << 20, ROWS_MAX = 512 };

// Processor time: what another program takes of a shared machine does not count.
static double seconds(uint32_t threads) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) / threads;
}

struct probe {
    const uint8_t *data;
    size_t bytes;
    uint64_t sink[64];
};

enum { READ_TASKS = 64, PEAK_STEPS = 1 << 18 };

static void read_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    struct probe *probe = ctx;
    size_t part = probe->bytes / READ_TASKS / 8;
    const uint64_t *p = (const uint64_t *)probe->data + i * part;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t k = 0; k + 16 <= part; k += 16)
        for (size_t j = 0; j < 4; j++) {
            a += p[k + j];
            b += p[k + 4 + j];
            c += p[k + 8 + j];
            d += p[k + 12 + j];
        }
    probe->sink[i] = a + b + c + d;
}

// Twelve independent chains of eight fused multiply-adds.
static void peak_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    struct probe *probe = ctx;
#ifdef __AVX2__
    __m256 a[12], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1.0f);
    for (int k = 0; k < 12; k++)
        a[k] = _mm256_set1_ps((float)(k + (int)i));
    for (int s = 0; s < PEAK_STEPS; s++)
        for (int k = 0; k < 12; k++)
            a[k] = _mm256_fmadd_ps(a[k], x, y);
    for (int k = 1; k < 12; k++)
        a[0] = _mm256_add_ps(a[0], a[k]);
    probe->sink[i] = (uint64_t)_mm256_cvtss_f32(a[0]);
#else
    probe->sink[i] = i;
#endif
}

struct bench {
    struct lf_pool *pool;
    struct probe probe;
    double read, peak;
    uint8_t *weights, *scales;
    uint16_t *x;
    float *y;
    void (*run)(struct lf_pool *, const struct lf_linear_args *);
};

// The least disturbed repeat.
static double best(const double *times) {
    double least = times[0];
    for (int r = 1; r < REPEATS; r++)
        least = times[r] < least ? times[r] : least;
    return least;
}

static void measure_machine(struct bench *b) {
    double read[REPEATS], peak[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        uint32_t threads = lf_pool_threads(b->pool);
        double t = seconds(threads);
        lf_pool_run(b->pool, READ_TASKS, read_task, &b->probe);
        read[r] = seconds(threads) - t;
        t = seconds(threads);
        lf_pool_run(b->pool, 4 * threads, peak_task, &b->probe);
        peak[r] = seconds(threads) - t;
    }
    double rate = (double)b->probe.bytes / best(read);
    double flops = 4.0 * lf_pool_threads(b->pool) * PEAK_STEPS * 12 * 16 / best(peak);
    b->read = rate > b->read ? rate : b->read;
    b->peak = flops > b->peak ? flops : b->peak;
}

static const char *const names[] = {"bf16", "f16", "f32", "fp8", "mxfp4"};

static void measure(struct bench *b, enum lf_weight_format format, uint32_t out, uint32_t in,
                    uint32_t rows) {
    struct lf_matrix m[MATRICES_MAX];
    struct lf_linear_job job[MATRICES_MAX];
    struct lf_matrix one = {.format = format, .out = out, .in = in};
    size_t bytes = lf_matrix_row_bytes(&one) * out, scales = (size_t)out * (in / 32);
    if (format == LF_WEIGHT_FP8)
        scales = (size_t)(out + 31) / 32 * (in / 32);
    uint32_t n = (uint32_t)(MATRIX_SET_BYTES / bytes);
    n = n > MATRICES_MAX ? MATRICES_MAX : n;
    n = rows < 64 ? n : 1;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = one;
        m[i].data = b->weights + i * bytes;
        m[i].scale = b->scales;
        job[i] = (struct lf_linear_job){.w = &m[i], .rows = rows, .x = b->x, .x_stride = in,
                                        .y = b->y, .y_stride = out, .y_f32 = 1};
    }
    struct lf_linear_args args = {n, job};
    double times[REPEATS];
    measure_machine(b);
    for (int r = 0; r < REPEATS; r++) {
        double t = seconds(lf_pool_threads(b->pool));
        b->run(b->pool, &args);
        times[r] = seconds(lf_pool_threads(b->pool)) - t;
    }
    double t = best(times);
    size_t quantized = format == LF_WEIGHT_FP8 || format == LF_WEIGHT_MXFP4 ? scales : 0;
    double rate = n * (double)(bytes + quantized) / t, flops = 2.0 * n * out * in * rows / t;
    printf("%-6s %5ux%-5u rows %3u  %6.2f GB/s %5.2f of read  %6.1f GFLOP/s %5.2f of peak\n",
           names[format], out, in, rows, rate * 1e-9, rate / b->read, flops * 1e-9,
           flops / b->peak);
    fflush(stdout);
}

static uint32_t number(const char *text) {
    return (uint32_t)strtoul(text, NULL, 10);
}

// linear_bench [threads [format|all [rows]]]
int main(int argc, char **argv) {
    static const uint32_t shapes[][2] = {{2304, 5120}, {5120, 2304}, {256, 256}};
    static const uint32_t rows[] = {1, 2, 4, 8, 64, ROWS_MAX};
    struct lf_error err = LF_ERROR_INIT;
    struct bench b = {.run = lf_linear_portable};
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        b.run = lf_linear_avx2;
#endif
    uint32_t threads = argc > 1 ? number(argv[1]) : 1;
    if (threads == 0 || lf_pool_open(&b.pool, threads, LF_LINEAR_SCRATCH_BYTES, &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    size_t bytes = MATRIX_SET_BYTES;
    b.weights = aligned_alloc(4096, bytes);
    b.scales = malloc(5120 * 160);
    b.x = malloc((size_t)ROWS_MAX * 5120 * 2);
    b.y = malloc((size_t)ROWS_MAX * 5120 * 4);
    if (!b.weights || !b.scales || !b.x || !b.y)
        return 1;
    for (size_t i = 0; i < bytes; i++)
        b.weights[i] = (uint8_t)((i * 2654435761u >> 13) % 61); // no format's NaN
    memset(b.scales, 118, 5120 * 160);
    for (size_t i = 0; i < (size_t)ROWS_MAX * 5120; i++)
        b.x[i] = (uint16_t)(0x3F00 + (i * 40503u >> 3) % 8 * 16);
    b.probe = (struct probe){.data = b.weights, .bytes = bytes};
    measure_machine(&b);
    printf("%u threads: read %.1f GB/s, peak %.1f GFLOP/s\n", threads, b.read * 1e-9,
           b.peak * 1e-9);
    for (uint32_t f = 0; f <= LF_WEIGHT_MXFP4; f++)
        for (uint32_t s = 0; s < 3; s++)
            for (uint32_t r = 0; r < 6; r++)
                if ((argc < 3 || !strcmp(argv[2], "all") || !strcmp(argv[2], names[f])) &&
                    (argc < 4 || number(argv[3]) == rows[r]))
                    measure(&b, f, shapes[s][0], shapes[s][1], rows[r]);
    free(b.weights);
    free(b.scales);
    free(b.x);
    free(b.y);
    lf_pool_close(b.pool);
    return 0;
}
