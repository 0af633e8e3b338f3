// Gate 1: every element within its limit of float64, in every style (kernel-contract.md 2).
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "contract/gates.h"
#include "contract/launch.h"

// Few rows go through forms of their own, which no kernel takes for as many as ROWS_MAX.
enum { ROWS_MAX = 17, ROWS_FEW = 8 };

static uint32_t rows_for(const struct lf_trial *trial, const struct lf_shape *shape) {
    uint64_t rows = trial->effort.bound / lf_shape_work(trial->record, shape);
    rows = rows > ROWS_MAX ? ROWS_MAX : rows ? rows : 1;
    return rows > shape->rows ? shape->rows : (uint32_t)rows;
}

static void check_rms(struct lf_trial *trial) {
    double most = trial->record->rms_limit;
    if (most > 0.0 && !lf_trial_failed(trial) &&
        !(sqrt(trial->error_squares) <= most * sqrt(trial->limit_squares)))
        lf_trial_fail(trial, "root mean square of errors %.3g of that of limits, allowed %.3g",
                      sqrt(trial->error_squares / trial->limit_squares), most);
    trial->error_squares = trial->limit_squares = 0.0;
}

// The reference of one problem serves all instruction sets.
static void run_style(struct lf_trial *trial, const struct lf_shape *shape,
                      enum lf_check_style style, uint32_t rows) {
    struct lf_problem *problem = lf_problem_open(trial, shape, rows, style);
    struct lf_launch *first = lf_launch_open(problem, rows, NULL, LF_LAYOUT_PLAIN);
    lf_launch_reference(first);
    for (uint32_t set = LF_ISA_PORTABLE; set < LF_SETS; set++) {
        if (!(trial->sets >> set & 1) || lf_trial_failed(trial))
            continue;
        struct lf_launch *launch = lf_launch_open(problem, rows, NULL, LF_LAYOUT_PLAIN);
        size_t bytes = (first->columns * rows + 1) * sizeof(double);
        trial->set = set;
        launch->columns = first->columns;
        launch->ref = malloc(bytes);
        launch->error = malloc(bytes);
        LF_ASSERT(launch->ref && launch->error);
        memcpy(launch->ref, first->ref, bytes);
        memcpy(launch->error, first->error, bytes);
        lf_launch_run(launch);
        lf_launch_judge(launch);
        check_rms(trial);
        lf_launch_close(launch);
    }
    lf_launch_close(first);
    lf_problem_close(problem);
}

void lf_gate_bound(struct lf_trial *trial, const struct lf_shape *shape) {
    uint32_t rows = rows_for(trial, shape);
    trial->threads = 1;
    for (uint32_t style = 0; style < LF_STYLES && !lf_trial_failed(trial); style++)
        run_style(trial, shape, style, rows);
    if (rows > ROWS_FEW && !lf_trial_failed(trial))
        run_style(trial, shape, LF_STYLE_NORMAL, ROWS_FEW);
}
