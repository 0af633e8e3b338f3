// The CPU thread pool: outputs are partitioned among threads, never sums (engine.md X-7).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct lf_pool;
struct lf_placement;

// threads >= 1, the caller's included. Each worker owns scratch_bytes of 64-byte aligned scratch.
LF_CHECKED enum lf_status lf_pool_open(struct lf_pool **out, uint32_t threads, size_t scratch_bytes,
                                       struct lf_error *err);
// The same with workers where the placement puts them, each one's scratch on its own node.
LF_CHECKED enum lf_status lf_pool_open_at(struct lf_pool **out, const struct lf_placement *at,
                                          size_t scratch_bytes, struct lf_error *err);
void lf_pool_close(struct lf_pool *pool); // NULL is allowed
uint32_t lf_pool_threads(const struct lf_pool *pool);
// Scratch of one worker as it is allocated for scratch_bytes asked for.
size_t lf_pool_scratch_bytes(size_t scratch_bytes);
// Scratch of all workers.
size_t lf_pool_bytes(const struct lf_pool *pool);
// Runs task(ctx, i, worker) for all i < tasks, a worker's mostly in turn; one caller, not nested.
typedef void lf_task_fn(void *ctx, uint32_t i, uint32_t worker);
void lf_pool_run(struct lf_pool *pool, uint32_t tasks, lf_task_fn *task, void *ctx);
// Processor time of caller and workers, exact while they run: the process' clock is a tick behind.
double lf_pool_busy_seconds(const struct lf_pool *pool);
// The scratch of one worker; asserts that bytes fit.
void *lf_pool_scratch(struct lf_pool *pool, uint32_t worker, size_t bytes);
