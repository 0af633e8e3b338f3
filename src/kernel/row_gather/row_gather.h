// row_gather: its arguments and its contract (model.md 12.3, 11.3).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"

#define LF_ROW_GATHER_CONTRACT                                                                     \
    "row r of a job's y becomes row index[r] of its x, byte for byte; several buffers in one "     \
    "launch. y may be x where index ascends (rows dropped between sublayers, model.md 12.3): a "   \
    "row is then read before another takes its place. Nothing else of y is written. No arithmetic."

struct lf_row_gather_job {
    uint32_t rows;
    const uint32_t *index; // [rows]; NULL: row r itself
    const void *x;         // any alignment
    size_t x_pitch;        // bytes from row to row
    void *y;               // the same as x, or apart from it
    size_t y_pitch;        // equal to x_pitch where y is x
    size_t row_bytes;
};

struct lf_row_gather_args {
    uint32_t n_jobs;
    const struct lf_row_gather_job *job; // of the host, whatever the device
};

LF_DECLARE_KERNEL(row_gather);
