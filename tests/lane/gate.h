// A target's calls that wait until the test lets them go on, as on a disk that hangs.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include "model/target.h"

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool shut;
    struct lf_target_ops passed, ops; // the target's own, and what it has meanwhile
};

// The target calls gate->ops from here on; the test puts its own functions there.
static inline void gate_shut(struct gate *gate, struct lf_target *of) {
    *gate = (struct gate){.shut = true, .passed = *of->ops, .ops = *of->ops};
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->opened, NULL);
    of->ops = &gate->ops;
}

static inline void gate_wait(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    while (gate->shut)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->shut = false;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}
