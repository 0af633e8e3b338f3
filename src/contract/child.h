// Work in a child process, so that a wild write or a hang cannot take the tool down.
#pragma once
#include <sys/types.h>
#include "contract/trial.h"

typedef void lf_child_fn(void *ctx, struct lf_outcome *outcome);

struct lf_child {
    pid_t pid; // 0: not running
    int pipe;
};
enum lf_child_end { LF_CHILD_DONE, LF_CHILD_CRASHED, LF_CHILD_HUNG };

// Starts work(ctx, ...) in a child that is ended after limit_s seconds.
LF_CHECKED enum lf_status lf_child_fork(struct lf_child *child, uint32_t limit_s,
                                        lf_child_fn *work, void *ctx, struct lf_error *err);
// Index of a running child that has ended or has written its outcome; blocks.
uint32_t lf_child_next(const struct lf_child *child, uint32_t n);
// Takes the outcome; after a crash or a hang the outcome's text says which signal ended it.
enum lf_child_end lf_child_take(struct lf_child *child, struct lf_outcome *outcome);
