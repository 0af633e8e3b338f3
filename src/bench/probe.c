#include "bench/probe.h"

#include "base/clock.h"
#include "kernel/table.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { CHAINS = 12, PEAK_STEPS = 1 << 16, READ_TASKS = 64, ISSUE_STEPS = 1 << 16 };

// Two streams, which the processor fetches ahead by itself.
static void read_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    struct lf_probe *probe = ctx;
    size_t words = probe->bytes / READ_TASKS / 16;
    const uint64_t *p = (const uint64_t *)(const void *)probe->data + 2 * i * words, *q = p + words;
    uint64_t sum[8] = {0}, all = 0;
    for (size_t k = 0; k + 8 <= words; k += 8)
        for (int j = 0; j < 8; j++)
            sum[j] += p[k + j] + q[k + j];
    for (int j = 0; j < 8; j++)
        all += sum[j];
    probe->sink[i] = all;
}

size_t lf_probe_read(struct lf_pool *pool, struct lf_probe *probe) {
    lf_pool_run(pool, READ_TASKS, read_task, probe);
    return probe->bytes / READ_TASKS / 128 * 128 * READ_TASKS;
}

#ifdef __x86_64__
// Named chains: compilers keep arrays of them in memory.
#define EACH_CHAIN(act) act(0) act(1) act(2) act(3) act(4) act(5) act(6) act(7) act(8) act(9)      \
    act(10) act(11)
#define START_8(n) __m256 c##n = _mm256_set1_ps((float)(n + i % 7));
#define STEP_8(n) c##n = _mm256_fmadd_ps(c##n, half, one);
#define SUM_8(n) one = _mm256_add_ps(one, c##n);
#define START_16(n) __m512 c##n = _mm512_set1_ps((float)(n + i % 7));
#define STEP_16(n) c##n = _mm512_fmadd_ps(c##n, half, one);
#define SUM_16(n) one = _mm512_add_ps(one, c##n);

static __attribute__((target("avx2,fma"))) void peak_8(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    __m256 half = _mm256_set1_ps(0.5f), one = _mm256_set1_ps(1.0f);
    EACH_CHAIN(START_8)
    for (int s = 0; s < PEAK_STEPS; s++) {
        EACH_CHAIN(STEP_8)
    }
    EACH_CHAIN(SUM_8)
    ((struct lf_probe *)ctx)->sink[i] = (uint64_t)_mm256_cvtss_f32(one);
}

static __attribute__((target("avx512f"))) void peak_16(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1.0f);
    EACH_CHAIN(START_16)
    for (int s = 0; s < PEAK_STEPS; s++) {
        EACH_CHAIN(STEP_16)
    }
    EACH_CHAIN(SUM_16)
    ((struct lf_probe *)ctx)->sink[i] = (uint64_t)_mm512_cvtss_f32(one);
}
#endif

double lf_probe_peak(struct lf_pool *pool, struct lf_probe *probe) {
    uint32_t tasks = 4 * lf_pool_threads(pool);
    double chain = 2.0 * tasks * PEAK_STEPS * CHAINS;
#ifdef __x86_64__
    if (lf_isa_present(LF_ISA_AVX512)) {
        lf_pool_run(pool, tasks, peak_16, probe);
        return 16 * chain;
    }
    if (lf_isa_present(LF_ISA_AVX2)) {
        lf_pool_run(pool, tasks, peak_8, probe);
        return 8 * chain;
    }
#endif
    (void)probe;
    return chain;
}

// Eight chains of two operations each: no core begins more of them than its integer units take.
static void issue_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    uint64_t v[8], all = 0;
    for (uint32_t j = 0; j < 8; j++)
        v[j] = i + j;
    for (int s = 0; s < ISSUE_STEPS; s++) {
        for (int j = 0; j < 8; j++)
            v[j] = v[j] >> 1 ^ 0x9E3779B97F4A7C15u;
        // Steps stay apart, and numbers in registers.
        __asm__ volatile("" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]), "+r"(v[4]),
                              "+r"(v[5]), "+r"(v[6]), "+r"(v[7]));
    }
    for (int j = 0; j < 8; j++)
        all ^= v[j];
    ((struct lf_probe *)ctx)->sink[i] = all;
}

double lf_probe_issue(struct lf_pool *pool, struct lf_probe *probe) {
    uint32_t threads = lf_pool_threads(pool);
    lf_pool_run(pool, threads, issue_task, probe);
    return 16.0 * ISSUE_STEPS * threads;
}

double lf_probe_seconds(bool wall, const struct lf_pool *pool) {
    return wall ? lf_clock_s() : lf_pool_busy_seconds(pool) / lf_pool_threads(pool);
}
