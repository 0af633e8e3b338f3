#include "device/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include "device/bind.h"
#include "device/placement.h"

enum {
    CACHE_LINE = 64,
    SPINS = 400,      // pauses before the first yield
    YIELDS = 200,     // yields before a worker sleeps
    CLOSED = 1 << 30, // bit of active: no worker may join the job any more
};

struct worker {
    // Its tasks that nobody took: the first in the low half, their end in the high one.
    _Alignas(CACHE_LINE) atomic_uint_fast64_t left;
    struct lf_pool *pool;
    pthread_t thread;
    clockid_t clock; // of the thread's processor time
    uint32_t id;
    bool bound;
    uint32_t cpu; // the system's number, if bound
    uint8_t *scratch;
};

struct lf_pool {
    uint32_t threads, started; // started: workers with a running thread, the caller's not counted
    size_t scratch_bytes;
    struct worker *worker;
    uint64_t node_mask; // as of the placement
    bool running;
    // The job: written while no worker has joined, read between join and leave.
    lf_task_fn *task;
    void *ctx;
    _Alignas(CACHE_LINE) atomic_int active; // workers inside the job, or CLOSED
    _Alignas(CACHE_LINE) atomic_uint epoch; // counts jobs
    atomic_uint sleepers;
    atomic_uint settled; // workers whose scratch is written
    atomic_bool closing;
    pthread_mutex_t lock; // for sleeping only
    pthread_cond_t wake;
};

static void pause_cpu(void) {
#ifdef __x86_64__
    _mm_pause();
#endif
}

// A waiter gives its processor away: another program's time slice is never waited out.
static void back_off(uint32_t *turns) {
    if ((*turns)++ < SPINS)
        pause_cpu();
    else
        sched_yield();
}

static uint64_t span_of(uint32_t first, uint32_t end) {
    return (uint64_t)end << 32 | first;
}

// Tasks are dealt in spans: what one fetches ahead is mostly its worker's own next.
static void deal_tasks(struct lf_pool *pool, uint32_t tasks) {
    uint32_t first = 0;
    for (uint32_t id = 0; id < pool->threads; id++) {
        uint32_t end = (uint32_t)(((uint64_t)tasks * (id + 1) + pool->threads - 1) / pool->threads);
        atomic_store_explicit(&pool->worker[id].left, span_of(first, end), memory_order_relaxed);
        first = end;
    }
}

static bool take_first(struct worker *worker, uint32_t *task) {
    uint_fast64_t left = atomic_load(&worker->left);
    while ((uint32_t)left < left >> 32)
        if (atomic_compare_exchange_weak(&worker->left, &left, left + 1)) {
            *task = (uint32_t)left;
            return true;
        }
    return false;
}

// The second half of what another worker has left becomes this one's.
static bool take_half(struct worker *worker) {
    struct lf_pool *pool = worker->pool;
    for (uint32_t i = 1; i < pool->threads; i++) {
        struct worker *from = &pool->worker[(worker->id + i) % pool->threads];
        uint_fast64_t left = atomic_load(&from->left);
        while ((uint32_t)left < left >> 32) {
            uint32_t first = (uint32_t)left, end = left >> 32, middle = first + (end - first) / 2;
            if (!atomic_compare_exchange_weak(&from->left, &left, span_of(first, middle)))
                continue;
            atomic_store(&worker->left, span_of(middle, end));
            return true;
        }
    }
    return false;
}

static void take_tasks(struct worker *worker) {
    struct lf_pool *pool = worker->pool;
    do {
        for (uint32_t i; take_first(worker, &i);)
            pool->task(pool->ctx, i, worker->id);
    } while (take_half(worker));
}

// A worker that wakes late finds the job closed and goes back to waiting: nobody waits for it.
static bool join(struct lf_pool *pool) {
    int active = atomic_load(&pool->active);
    while (!(active & CLOSED))
        if (atomic_compare_exchange_weak(&pool->active, &active, active + 1))
            return true;
    return false;
}

// Returns the new epoch; sleeping and waking agree through epoch and sleepers, both seq_cst.
static unsigned wait_epoch(struct lf_pool *pool, unsigned seen) {
    for (uint32_t turns = 0; turns < SPINS + YIELDS;) {
        unsigned epoch = atomic_load(&pool->epoch);
        if (epoch != seen)
            return epoch;
        back_off(&turns);
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->epoch) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load(&pool->epoch);
}

// Scratch lies where its worker runs; what all workers read goes round the nodes.
static void settle(struct worker *worker) {
    struct lf_pool *pool = worker->pool;
    if (worker->bound)
        lf_bind_cpu(worker->cpu);
    lf_bind_local(pool->node_mask);
    // NaN in every format: a kernel that reads what it did not write shows it.
    memset(worker->scratch, 0xFF, pool->scratch_bytes);
    lf_bind_interleave(pool->node_mask);
    atomic_fetch_add(&pool->settled, 1);
}

static void *worker_main(void *arg) {
    struct worker *worker = arg;
    struct lf_pool *pool = worker->pool;
    unsigned seen = 0;
    settle(worker);
    for (;;) {
        seen = wait_epoch(pool, seen);
        if (atomic_load(&pool->closing))
            return NULL;
        if (join(pool)) {
            take_tasks(worker);
            atomic_fetch_sub(&pool->active, 1);
        }
    }
}

static void wake_all(struct lf_pool *pool) {
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static enum lf_status start_worker(struct lf_pool *pool, uint32_t id,
                                   const struct lf_placement *at, struct lf_error *err) {
    struct worker *worker = &pool->worker[id];
    size_t bytes = pool->scratch_bytes;
    *worker = (struct worker){.pool = pool, .id = id};
    worker->bound = at && at->bound;
    worker->cpu = worker->bound ? at->cpu[id] : 0;
    worker->scratch = aligned_alloc(CACHE_LINE, bytes);
    if (!worker->scratch)
        return lf_fail(err, LF_E_MEM, "no memory for %zu bytes of scratch of thread %u", bytes, id);
    // The caller's thread is not the pool's: it stays as it is, and its core is left to it.
    if (id == 0) {
        worker->clock = CLOCK_THREAD_CPUTIME_ID;
        memset(worker->scratch, 0xFF, bytes);
        return LF_OK;
    }
    int cause = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (cause)
        return lf_fail(err, LF_E_MEM, "thread %u of %u did not start: %s", id, pool->threads,
                       strerror(cause));
    pool->started++;
    LF_ASSERT(pthread_getcpuclockid(worker->thread, &worker->clock) == 0);
    return LF_OK;
}

static enum lf_status open_pool(struct lf_pool **out, uint32_t threads,
                                const struct lf_placement *at, size_t scratch_bytes,
                                struct lf_error *err) {
    LF_ASSERT(threads >= 1 && scratch_bytes < SIZE_MAX - CACHE_LINE);
    *out = NULL;
    struct lf_pool *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    struct worker *worker = aligned_alloc(CACHE_LINE, threads * sizeof *worker);
    if (!pool || !worker) {
        free(pool);
        free(worker);
        return lf_fail(err, LF_E_MEM, "no memory for a pool of %u threads", threads);
    }
    memset(pool, 0, sizeof *pool);
    memset(worker, 0, threads * sizeof *worker);
    pool->threads = threads;
    pool->worker = worker;
    pool->node_mask = at ? at->node_mask : 0;
    pool->scratch_bytes = lf_pool_scratch_bytes(scratch_bytes);
    atomic_init(&pool->active, CLOSED);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (uint32_t id = 0; id < threads; id++) {
        enum lf_status status = start_worker(pool, id, at, err);
        if (status != LF_OK) {
            lf_pool_close(pool);
            return status;
        }
    }
    for (uint32_t turns = 0; atomic_load(&pool->settled) < pool->started;)
        back_off(&turns);
    *out = pool;
    return LF_OK;
}

enum lf_status lf_pool_open(struct lf_pool **out, uint32_t threads, size_t scratch_bytes,
                            struct lf_error *err) {
    return open_pool(out, threads, NULL, scratch_bytes, err);
}

enum lf_status lf_pool_open_at(struct lf_pool **out, const struct lf_placement *at,
                               size_t scratch_bytes, struct lf_error *err) {
    return open_pool(out, at->threads, at, scratch_bytes, err);
}

void lf_pool_close(struct lf_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->closing, true);
    wake_all(pool);
    for (uint32_t id = 1; id <= pool->started; id++)
        pthread_join(pool->worker[id].thread, NULL);
    for (uint32_t id = 0; id < pool->threads; id++)
        free(pool->worker[id].scratch);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->worker);
    free(pool);
}

uint32_t lf_pool_threads(const struct lf_pool *pool) {
    return pool->threads;
}

size_t lf_pool_scratch_bytes(size_t scratch_bytes) {
    return (scratch_bytes / CACHE_LINE + 1) * CACHE_LINE;
}

size_t lf_pool_bytes(const struct lf_pool *pool) {
    return pool->threads * pool->scratch_bytes;
}

void lf_pool_run(struct lf_pool *pool, uint32_t tasks, lf_task_fn *task, void *ctx) {
    LF_ASSERT(!pool->running);
    pool->running = true;
    if (tasks <= 1 || pool->threads == 1) {
        for (uint32_t i = 0; i < tasks; i++)
            task(ctx, i, 0);
        pool->running = false;
        return;
    }
    pool->task = task;
    pool->ctx = ctx;
    deal_tasks(pool, tasks);
    atomic_store(&pool->active, 0);
    wake_all(pool);
    take_tasks(&pool->worker[0]);
    atomic_fetch_or(&pool->active, CLOSED);
    for (uint32_t turns = 0; atomic_load(&pool->active) != CLOSED;)
        back_off(&turns);
    pool->running = false;
}

double lf_pool_busy_seconds(const struct lf_pool *pool) {
    double seconds = 0;
    for (uint32_t id = 0; id < pool->threads; id++) {
        struct timespec t;
        LF_ASSERT(clock_gettime(pool->worker[id].clock, &t) == 0);
        seconds += (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    }
    return seconds;
}

void *lf_pool_scratch(struct lf_pool *pool, uint32_t worker, size_t bytes) {
    LF_ASSERT(worker < pool->threads && bytes <= pool->scratch_bytes);
    return pool->worker[worker].scratch;
}
