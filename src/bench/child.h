// A server that a tool starts itself: its own process group, its URL line, its end.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include "bench/options.h"

struct lf_child {
    pid_t pid; // 0: none
    int out;   // its output, read to the end so that it never blocks
    pthread_t reader;
    pthread_mutex_t lock;
    char url[256]; // "" until the line with it came
    struct lf_bench_server server;
    char model[256];
};

// Runs COMMAND with more appended; returns when /health answers 200 and the model's name is known.
LF_CHECKED enum lf_status lf_child_start(struct lf_child *child, const char *command,
                                         const char *more, const char *key, double start_s,
                                         struct lf_error *err);
// SIGTERM, then waits for the exit; a server that has to be killed is a failure.
LF_CHECKED enum lf_status lf_child_stop(struct lf_child *child, struct lf_error *err);
