// What rounds on a device came to: a row each, beside what the device does at most.
#pragma once
#include "bench/report.h"
#include "bench/round_measure.h"

// Slots of some length: what they should take of the device, and what they took.
struct lf_lanes_memory {
    uint32_t lanes;
    uint64_t positions, position_bytes; // of a position, in all sources together
    uint64_t planned, held;             // bytes that grow with positions
    uint64_t fixed;                     // bytes of weights, workspace and all slots before
};

LF_CHECKED enum lf_status lf_round_report_open(struct lf_report *report,
                                               const struct lf_bench_options *o,
                                               const struct lf_round_bench *bench,
                                               struct lf_error *err);
LF_CHECKED enum lf_status lf_round_report_row(struct lf_report *report,
                                              const struct lf_round_bench *bench,
                                              const struct lf_round *round, struct lf_error *err);
LF_CHECKED enum lf_status lf_round_report_memory(struct lf_report *report,
                                                 const struct lf_lanes_memory *memory,
                                                 struct lf_error *err);
// Writes the file; the line names what the first round of one row came to.
LF_CHECKED enum lf_status lf_round_report_end(struct lf_report *report,
                                              const struct lf_round_bench *bench,
                                              uint32_t rounds, struct lf_error *err);
