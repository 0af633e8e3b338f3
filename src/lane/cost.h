// What launches and draft passes take, by size and context, measured and corrected (engine.md D-8).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "model/target.h"

enum { LF_COST_ROWS = 64, LF_COST_BUCKETS = 11 };

struct lf_cost {
    double rows[LF_COST_BUCKETS][LF_COST_ROWS + 1]; // seconds of a launch of so many rows
    bool used[LF_COST_BUCKETS];
    double pass[LF_COST_ROWS + 1]; // seconds of a draft pass for so many streams
    double window;                 // seconds of each further window of a launch
    bool measured;
};

typedef double lf_clock_fn(void *ctx);
// The target must be idle; its slots are left reset. A failure leaves the table unmeasured.
LF_CHECKED enum lf_status lf_cost_measure(struct lf_cost *cost, struct lf_target *target,
                                          lf_clock_fn *clock, void *ctx, struct lf_error *err);
// Times a few sizes of a table kept from an earlier start: measured turns false if one is far off.
LF_CHECKED enum lf_status lf_cost_sample(struct lf_cost *cost, struct lf_target *target,
                                         lf_clock_fn *clock, void *ctx, struct lf_error *err);
// A table from n ascending sizes: straight lines between, past the last in proportion; monotone.
void lf_cost_fill(double *table, const uint32_t *size, const double *seconds, uint32_t n);
uint32_t lf_cost_bucket(uint64_t length); // of the longest stream of a launch
// The bucket's table, [LF_COST_ROWS + 1]; a bucket used for the first time starts as the one below.
const double *lf_cost_rows(struct lf_cost *cost, uint32_t bucket);
// A launch of rows in n windows took seconds.
void lf_cost_launch(struct lf_cost *cost, uint32_t bucket, uint32_t rows, uint32_t n,
                    double seconds);
void lf_cost_pass(struct lf_cost *cost, uint32_t streams, double seconds);
double lf_cost_plain(struct lf_cost *cost, uint32_t bucket, uint32_t streams); // a plain round
