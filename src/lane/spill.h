// The disk thread of the prompt cache: a bounded line of states to write and to read (C-18, C-20).
#pragma once
#include <stdbool.h>
#include "lane/spill_dir.h"

enum { LF_SPILL_JOBS = 4 }; // that wait or are under way, at most

// The caller's, from submit until it comes back from take.
struct lf_spill_job {
    struct lf_spill_job *next;
    bool read;
    struct lf_spill_head head; // without the fingerprint
    struct lf_spill_parts parts; // what is written, or where it is read to
    enum lf_status status;       // of the job, when it came back
    void *owner;                 // the caller's
};

struct lf_spill;
LF_CHECKED enum lf_status lf_spill_open(struct lf_spill **out, struct lf_target *target,
                                        const struct lf_spill_options *options,
                                        struct lf_error *err);
void lf_spill_close(struct lf_spill *spill); // no job is out
// Any thread; none of these waits for the disk. submit: false when the line is full.
bool lf_spill_submit(struct lf_spill *spill, struct lf_spill_job *job);
struct lf_spill_job *lf_spill_take(struct lf_spill *spill); // one that is done, NULL: none
bool lf_spill_ready(struct lf_spill *spill);                // take would give one
struct lf_spill_dir *lf_spill_folder(struct lf_spill *spill);
// What reading so many bytes will take after the reads in line; 0: nothing was read yet.
double lf_spill_read_seconds(struct lf_spill *spill, uint64_t bytes);
// Waits until take would give one; false when seconds passed first.
bool lf_spill_wait(struct lf_spill *spill, double seconds);
