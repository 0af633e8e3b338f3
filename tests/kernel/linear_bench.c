// Speed of linear maps as fractions of the plain read and of the FMA peak, measured in turn.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/probe.h"
#include "bench/stats.h"
#include "linear_set.h"

enum {
    REPEATS_MAX = 31,
    TRIES_MAX = 20, // for each repeat that counts
    SET_BYTES = 128 << 20, // weights of one measurement: more than caches hold
    JOBS_MAX = 64,
    THREADS_MAX = 64,
};

// The release's maps, outputs and inputs (model.md): experts, projections, the head.
static const uint32_t shapes[][2] = {{2304, 5120}, {5120, 2304}, {1280, 5120},
                                     {32768, 1280}, {5120, 8192}, {129280, 5120}};
static const uint32_t row_counts[] = {1, 2, 4, 8, 64, LINEAR_SET_ROWS};
enum { SHAPES = sizeof shapes / sizeof *shapes, COUNTS = sizeof row_counts / sizeof *row_counts };
static const char *const names[] = {"bf16", "fp8", "mxfp4"};

// What FP8 and MXFP4 decode at one row is set for a core that reads so much (cpu-probe.md 7).
#define CORE_READ 20e9

// Of the read at 1 row, of the peak from 4 rows on (cpu-probe.md 7); 0: none was set.
static double target_of(enum lf_weight_format format, uint32_t rows) {
    if (rows == 1)
        return format == LF_WEIGHT_BF16 ? 0.95 : format == LF_WEIGHT_FP8 ? 0.70 : 0.60;
    return rows == 2 ? 0.0 : rows == 4 ? 0.55 : rows == 8 ? 0.65 : 0.75;
}

struct bench {
    struct lf_device device;
    struct lf_kernels k;
    struct lf_probe probe;
    uint32_t threads, repeats;
    double core_issue, best_read; // the most that a core began and that these threads read
    struct linear_set set;
};

// A repeat counts when others leave it so much of its cores and the memory before and after.
#define QUIET_CORE 0.95
#define QUIET_MEMORY 0.80

// What is chosen on the command line; 0 or NULL: all.
struct choice {
    const char *threads, *format, *isa;
    uint32_t rows, repeats;
};

// One thread is timed by what it ran, whatever else runs; of several, waiting is part of the time.
static double seconds(const struct bench *b) {
    return lf_probe_seconds(b->threads > 1, b->device.pool);
}

static double read_rate(struct bench *b) {
    double t = seconds(b);
    size_t bytes = lf_probe_read(b->device.pool, &b->probe);
    double rate = (double)bytes / (seconds(b) - t);
    b->best_read = rate > b->best_read ? rate : b->best_read;
    return rate;
}

static double peak_rate(struct bench *b) {
    double t = seconds(b);
    double flops = lf_probe_peak(b->device.pool, &b->probe);
    return flops / (seconds(b) - t);
}

// What a core begins a second, of the most that one ever did: the peak does not show who shares it.
static double issue_share(struct bench *b) {
    double t = seconds(b);
    double rate = lf_probe_issue(b->device.pool, &b->probe) / b->threads;
    rate /= seconds(b) - t;
    b->core_issue = rate > b->core_issue ? rate : b->core_issue;
    return rate / b->core_issue;
}

struct result {
    double rate, flops, of_read, of_peak; // medians: bytes/s, operations/s, fractions
    double read, peak;
    uint32_t quiet, tries; // repeats that count, of how many
};

static size_t scale_bytes(const struct lf_matrix *m) {
    if (m->format == LF_WEIGHT_FP8)
        return (size_t)(m->out + 31) / 32 * (m->in / 32);
    return m->format == LF_WEIGHT_MXFP4 ? (size_t)m->out * (m->in / 32) : 0;
}

// Maps of one shape that fill the set, or as many outputs as half a second allows.
static uint32_t make_jobs(struct bench *b, struct lf_matrix *m, struct lf_linear_job *job,
                          enum lf_weight_format format, const uint32_t shape[2], uint32_t rows) {
    struct lf_matrix one = {.format = format, .out = shape[0], .in = shape[1]};
    size_t row_bytes = lf_matrix_row_bytes(&one);
    double most = rows < 64 ? 1e18 : 3e9 * b->threads / rows / shape[1];
    if (one.out > most)
        one.out = (uint32_t)most / 96 * 96;
    if (one.out * row_bytes > SET_BYTES)
        one.out = (uint32_t)(SET_BYTES / row_bytes) / 96 * 96;
    uint32_t n = (uint32_t)(SET_BYTES / (row_bytes * one.out));
    n = rows >= 64 ? 1 : n > JOBS_MAX ? JOBS_MAX : n;
    linear_set_maps(&b->set, one, m, n);
    for (uint32_t i = 0; i < n; i++)
        job[i] = linear_set_job(&b->set, &m[i], rows);
    return n;
}

static struct result measure(struct bench *b, enum lf_weight_format format,
                             const uint32_t shape[2], uint32_t rows) {
    static struct lf_matrix m[JOBS_MAX];
    static struct lf_linear_job job[JOBS_MAX];
    double v[6][REPEATS_MAX];
    uint32_t n = make_jobs(b, m, job, format, shape, rows);
    double bytes = n * (double)(lf_matrix_row_bytes(m) * m->out + scale_bytes(m));
    double flops = 2.0 * n * m->out * m->in * rows;
    struct lf_linear_args args = {.n_jobs = n, .job = job};
    b->k.linear(&b->device, &args);
    uint32_t quiet = 0, tries = 0;
    for (; quiet < b->repeats && tries < TRIES_MAX * b->repeats; tries++) {
        double peak = peak_rate(b), read = read_rate(b), core = issue_share(b), t = seconds(b);
        b->k.linear(&b->device, &args);
        t = seconds(b) - t;
        double core_after = issue_share(b), read_after = read_rate(b);
        double all[] = {bytes / t, flops / t, bytes / t / read, flops / t / peak, read, peak};
        for (int i = 0; i < 6; i++)
            v[i][quiet] = all[i];
        quiet += fmin(core, core_after) >= QUIET_CORE &&
                 fmin(read, read_after) >= QUIET_MEMORY * b->best_read;
    }
    // Where none counts the last is shown, and misses.
    for (int i = 0; i < 6; i++)
        v[i][0] = lf_stats_median(v[i], quiet ? quiet : 1);
    return (struct result){v[0][0], v[1][0], v[2][0], v[3][0], v[4][0], v[5][0], quiet, tries};
}

// One format and row count over all shapes; false when the target was set and missed.
static bool measure_shapes(struct bench *b, const char *name, uint32_t rows) {
    enum lf_weight_format format;
    bool known = linear_set_format(&format, name);
    LF_ASSERT(known);
    double target = target_of(format, rows), product = 1, least = 1e9;
    uint32_t quiet = b->repeats;
    for (uint32_t s = 0; s < SHAPES; s++) {
        struct result r = measure(b, format, shapes[s], rows);
        double fraction = rows == 1 ? r.of_read : r.of_peak;
        if (rows == 1 && format != LF_WEIGHT_BF16 && r.read > CORE_READ * b->threads)
            fraction = r.rate / (CORE_READ * b->threads);
        printf("%-5s %u threads %3u rows %6ux%-5u %6.2f GB/s %5.2f of the read %7.1f GFLOP/s "
               "%5.2f of the peak (read %.1f, peak %.1f; %u of %u repeats quiet)\n",
               name, b->threads, rows, shapes[s][1], shapes[s][0], r.rate * 1e-9,
               r.of_read, r.flops * 1e-9, r.of_peak, r.read * 1e-9, r.peak * 1e-9,
               r.quiet, r.tries);
        quiet = r.quiet < quiet ? r.quiet : quiet;
        fflush(stdout);
        product *= fraction;
        least = fraction < least ? fraction : least;
    }
    double mean = pow(product, 1.0 / SHAPES);
    bool decided = quiet == b->repeats;
    bool met = decided && mean >= target && least >= 0.7 * target;
    printf("%-5s %u threads %3u rows geometric mean %.2f of the %s, least %.2f, target %.2f: %s\n",
           name, b->threads, rows, mean,
           rows > 1 ? "peak" : format == LF_WEIGHT_BF16 ? "read" : "read, at most 20 GB/s a core",
           least, target,
           target == 0 ? "none set" : met ? "pass" : decided ? "MISS" : "NOT QUIET");
    fflush(stdout);
    return met || target == 0;
}

static void no_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)ctx;
    (void)i;
    (void)worker;
}

// What a launch costs that has nothing to do: the least of some, always by the wall clock.
static void measure_dispatch(struct bench *b) {
    enum { LAUNCHES = 1000, ROUNDS = 20 };
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec a, z;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < LAUNCHES; i++)
            lf_pool_run(b->device.pool, 2 * b->threads, no_task, NULL);
        clock_gettime(CLOCK_MONOTONIC, &z);
        double ns = 1e9 * (double)(z.tv_sec - a.tv_sec) + (double)(z.tv_nsec - a.tv_nsec);
        least = ns < least ? ns : least;
    }
    printf("%u threads: %.0f ns a launch of %u empty tasks\n", b->threads, least / LAUNCHES,
           2 * b->threads);
}

static bool open_pool(struct bench *b, uint32_t threads) {
    struct lf_error err = LF_ERROR_INIT;
    b->threads = threads;
    if (lf_pool_open(&b->device.pool, threads, LF_LINEAR_SCRATCH_BYTES, &err) == LF_OK)
        return true;
    fprintf(stderr, "linear_bench: %s\n", err.text);
    return false;
}

// The set, and what a core begins at most.
static bool open_bench(struct bench *b) {
    if (!open_pool(b, 1))
        return false;
    if (!linear_set_open(&b->set, SET_BYTES, &b->k, &b->device)) {
        fprintf(stderr, "linear_bench: no memory for weights and rows\n");
        lf_pool_close(b->device.pool);
        return false;
    }
    b->probe = (struct lf_probe){.data = b->set.weights, .bytes = SET_BYTES};
    for (int i = 0; i < REPEATS_MAX; i++)
        issue_share(b);
    lf_pool_close(b->device.pool);
    return true;
}

static bool run_threads(struct bench *b, uint32_t threads, const struct choice *choice) {
    bool met = true;
    if (!open_pool(b, threads))
        return false;
    b->best_read = 0;
    for (int i = 0; i < REPEATS_MAX; i++)
        read_rate(b);
    measure_dispatch(b);
    for (uint32_t f = 0; f < 3; f++)
        for (uint32_t r = 0; r < COUNTS; r++)
            if ((!choice->format || !strcmp(choice->format, names[f])) &&
                (!choice->rows || choice->rows == row_counts[r]))
                met &= measure_shapes(b, names[f], row_counts[r]);
    lf_pool_close(b->device.pool);
    return met;
}

static uint32_t number(const char *text, uint32_t most) {
    unsigned long n = strtoul(text, NULL, 10);
    return n > most ? most : (uint32_t)n;
}

// linear_bench [threads=1,2] [format=fp8] [rows=4] [isa=avx2] [repeats=5]
int main(int argc, char **argv) {
    struct choice choice = {.threads = "1,2", .isa = "auto", .repeats = 5};
    struct lf_error err = LF_ERROR_INIT;
    static struct bench b;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        value = value ? value + 1 : "";
        if (!strncmp(argv[i], "threads=", 8))
            choice.threads = value;
        else if (!strncmp(argv[i], "format=", 7))
            choice.format = value;
        else if (!strncmp(argv[i], "rows=", 5))
            choice.rows = number(value, LINEAR_SET_ROWS);
        else if (!strncmp(argv[i], "isa=", 4))
            choice.isa = value;
        else if (!strncmp(argv[i], "repeats=", 8))
            choice.repeats = number(value, REPEATS_MAX);
        else {
            fprintf(stderr, "linear_bench: %s: expected threads=, format=, rows=, isa= or "
                            "repeats=\n", argv[i]);
            return 2;
        }
    }
    enum lf_isa isa;
    if (lf_isa_parse(&isa, choice.isa, &err) != LF_OK ||
        lf_kernels_init(&b.k, isa, &err) != LF_OK) {
        fprintf(stderr, "linear_bench: %s\n", err.text);
        return 2;
    }
    b.repeats = choice.repeats ? choice.repeats : 1;
    if (!open_bench(&b))
        return 2;
    bool met = true;
    printf("set %s\n", lf_isa_name(isa == LF_ISA_AUTO ? lf_isa_best() : isa));
    for (const char *at = choice.threads; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        uint32_t threads = number(at, THREADS_MAX);
        met &= run_threads(&b, threads ? threads : 1, &choice);
    }
    return met ? 0 : 1;
}
