// One run of gates over one record: the kernel's functions, what was found, how much work to spend.
#pragma once
#include "contract/cuda.h"
#include "contract/record.h"
#include "device/pool.h"
#include "kernel/table.h"

typedef void lf_any_fn(void);
const char *lf_set_name(uint32_t set);
struct lf_trial;
// The sums of the trial's device at a shape where they are its own, or NULL.
const struct lf_own_sums *lf_trial_own_sums(const struct lf_trial *trial,
                                            const struct lf_shape *shape);
// A kernel of the launch table in a form that gates can call.
struct lf_entry {
    const char *name;
    lf_any_fn *fn[LF_SETS]; // NULL: not on this machine
    void (*call)(lf_any_fn *fn, struct lf_device *device, const void *args);
    void (*reference)(const void *args, double *out);
};

// What a trial found: plain data, sent from a child in one write.
struct lf_outcome {
    uint32_t asked, failed; // gates
    double worst;           // gate 1: |out - ref| / limit
    double worst_error, worst_limit; // the two numbers
    char worst_at[160];
    uint64_t differing, compared; // gate 2, in elements
    uint32_t shapes, findings;
    bool lost; // the device: nothing was shown after it
    uint32_t problems; // of the limits of launches
    size_t stack_bytes; // gate 3, most measured
    double ms;
    char text[900]; // the first failing element
};
_Static_assert(sizeof(struct lf_outcome) < 4096, "one write to a pipe");

// Steps a gate spends on one shape.
struct lf_effort {
    uint64_t bound, rows;
    uint64_t row_most; // shapes whose rows cost more steps are left out; 0: none
};
#define LF_EFFORT_FULL ((struct lf_effort){.bound = 4000000, .rows = 16000000})
#define LF_EFFORT_QUICK ((struct lf_effort){.bound = 50000, .rows = 100000})

enum { LF_TRIAL_THREADS = 5 };
struct lf_trial {
    const struct lf_record *record;
    const struct lf_entry *entry;
    const struct lf_shape *all; // [shapes]
    uint32_t shapes;
    uint32_t sets; // bits of those to try; portable is the base of gate 2
    bool plain_memory; // the device reaches all of the host's pages, as one does that is played
    uint64_t seed;
    struct lf_effort effort;
    struct lf_outcome *outcome;
    // While gates run:
    const struct lf_shape *shape;
    uint32_t gate;
    uint32_t set;
    uint32_t threads; // place in pool
    enum lf_check_style style;
    double error_squares, limit_squares; // of rms_limit
    size_t scratch_bytes;
    uint32_t thread_count[LF_TRIAL_THREADS];
    struct lf_pool *pool[LF_TRIAL_THREADS];
    struct lf_trial_cuda *device; // NULL: no set of the trial needs one
    struct lf_check_space *space; // where operands lie; NULL: pages of the host
};

// Runs the asked gates; each stops at its first failing element.
void lf_trial_run(struct lf_trial *trial, uint32_t gates);
// Whether the present gate failed already.
bool lf_trial_failed(const struct lf_trial *trial);
void lf_trial_fail(struct lf_trial *trial, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "demo 1280, normal, avx2, 3 threads"
const char *lf_trial_place(const struct lf_trial *trial, char *text, size_t bytes);
// Elements that a row's operands have, or what the shape says.
uint64_t lf_shape_work(const struct lf_record *record, const struct lf_shape *shape);
