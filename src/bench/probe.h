// What a machine can do at most: plain reads, fused multiply-adds in registers, operations begun.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/pool.h"

enum { LF_PROBE_TASKS = 256 };

struct lf_probe {
    const uint8_t *data; // read by lf_probe_read, aligned to 64 bytes
    size_t bytes;
    uint64_t sink[LF_PROBE_TASKS];
};

// Reads all bytes once with every thread of the pool; returns how many.
size_t lf_probe_read(struct lf_pool *pool, struct lf_probe *probe);
// Independent chains of fused multiply-adds on the widest registers; returns the operations.
double lf_probe_peak(struct lf_pool *pool, struct lf_probe *probe);
// Integer operations of all threads, as cores begin them: slower where others run on the same.
double lf_probe_issue(struct lf_pool *pool, struct lf_probe *probe);
// The wall's clock, or the pool's processor time a thread: others' time does not count in it.
double lf_probe_seconds(bool wall, const struct lf_pool *pool);
