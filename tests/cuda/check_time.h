// How the CUDA column is timed: medians of graphs of launches, operands from few regions.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cuda/check.h"
#include "device/cuda_graph.h"
#include "kernel/limits.h"

enum { HOLD_US = 100, BATCH = 8, BATCHES = 9, VARIANTS = 4, WEIGHT_BYTES = 1400 << 20 };

// Regions of the arena that operands are taken from: what they hold matters to no time.
struct regions {
    uint8_t *weight, *scale, *out; // codes; scale bytes of ordinary size; written
    uint16_t *x, *code; // code: what an indexer's queries are
    float *f;
    const struct lf_row *row; // of the present launches
    const struct lf_span *span;
};

static inline int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static inline void report_time(struct check *c, const char *text, float *ms, double bytes,
                               double operations) {
    struct lf_error err = LF_ERROR_INIT;
    qsort(ms, BATCHES, sizeof *ms, by_value);
    double us = (double)ms[BATCHES / 2] * 1e3 / BATCH;
    if (lf_cuda_wait(c->on.cuda, &err) != LF_OK)
        printf("%-52s %s\n", text, err.text);
    else
        printf("%-52s %9.1f us %7.0f GB/s %7.1f TFLOP/s\n", text, us, bytes / us * 1e-3,
               operations / us * 1e-6);
}

// call: launches once, i-th of a graph as rounds have them; i: so that no weight is in a cache.
#define TIME_CALLS(c, label_, bytes, operations, call)                                             \
    do {                                                                                           \
        float ms[BATCHES];                                                                         \
        struct lf_error err = LF_ERROR_INIT;                                                       \
        uint64_t tables = lf_cuda_table_bytes((c)->on.cuda);                                       \
        for (int i = 0; i < BATCH; i++)                                                            \
            call;                                                                                  \
        lf_cuda_graph_begin((c)->on.cuda, lf_cuda_table_bytes((c)->on.cuda) - tables);             \
        for (int i = 0; i < BATCH; i++)                                                            \
            call;                                                                                  \
        struct lf_cuda_graph *graph = lf_cuda_graph_end((c)->on.cuda);                             \
        for (int batch = -1; graph && batch < BATCHES; batch++) {                                  \
            lf_limit_hold(&(c)->on, HOLD_US);                                                      \
            lf_cuda_mark((c)->on.cuda, 0);                                                         \
            lf_cuda_graph_launch((c)->on.cuda, graph);                                             \
            lf_cuda_mark((c)->on.cuda, 1);                                                         \
            if (lf_cuda_wait((c)->on.cuda, &err) == LF_OK && batch >= 0)                           \
                ms[batch] = lf_cuda_between_ms((c)->on.cuda, 0, 1);                                \
        }                                                                                          \
        lf_cuda_graph_free((c)->on.cuda, graph);                                                   \
        report_time(c, err.status == LF_OK ? (label_) : err.text, ms, bytes, operations);          \
    } while (0)

static inline bool is_timed(const struct check *c, const char *kernel) {
    return !c->only || strstr(c->only, kernel);
}

// args: VARIANTS of them, taken in turn.
#define TIME(c, label_, kernel, args, bytes)                                                       \
    if (is_timed(c, #kernel))                                                                      \
    TIME_CALLS(c, label_, bytes, 0, lf_cuda_kernels.kernel(&(c)->on, &(args)[i % VARIANTS]))

// Linear maps beside a plain read and plain products.
void check_linear_times(struct check *c, const struct regions *g);
