// The folder of saved states: its files by key hash, its cap, the floor of free disk (C-18..C-21).
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include "lane/spill_file.h"

enum { LF_SPILL_NAME_BYTES = 72 };

struct lf_spill_options {
    const char *dir;
    const char *fingerprint; // letters, digits and _
    uint64_t cap_bytes;      // of all files, temporary ones too
    uint64_t floor_bytes;    // of free disk that stays
    double retry_s;          // a pause after too little disk; 0: 30
    uint64_t (*free_bytes)(void *ctx); // NULL: what the file system says
    void (*done)(void *ctx); // after each job, on the disk thread; or NULL
    void *ctx;
};

struct lf_spill_stats {
    uint64_t files, held_bytes, cap_bytes;
    uint64_t spilled, returned, damaged, removed; // totals; removed: for room
    bool paused;
};

struct lf_spilled; // one file of the list
struct lf_spill_dir {
    struct lf_spill_options options;
    int fd;
    pthread_mutex_t lock; // of what follows, held for list work only
    struct lf_spilled *file; // by rows; those of other models and versions last
    size_t n, room;
    uint64_t clock; // of the last use
    double paused_until;
    struct lf_spill_stats stats;
};

// Makes the folder (mode 0700), takes its lock, deletes temporary files and lists the rest.
LF_CHECKED enum lf_status lf_spill_dir_open(struct lf_spill_dir *dir,
                                            const struct lf_spill_options *options,
                                            struct lf_error *err);
void lf_spill_dir_close(struct lf_spill_dir *dir);
// LF_E_USAGE where dir is folder or lies in it (C-21); neither has to exist.
LF_CHECKED enum lf_status lf_spill_dir_check(const char *dir, const char *folder,
                                             struct lf_error *err);
// The longest file past more_than rows whose hash leads the keys, fit to resume (C-12).
bool lf_spill_dir_find(struct lf_spill_dir *dir, const struct lf_rowkeys *keys, uint64_t more_than,
                       struct lf_spill_head *out);
// Whether a file has these keys by their hash, with logits where they are asked for.
bool lf_spill_dir_holds(struct lf_spill_dir *dir, uint64_t rows, uint64_t hash, bool logits);
bool lf_spill_dir_paused(struct lf_spill_dir *dir);
void lf_spill_dir_stats(struct lf_spill_dir *dir, struct lf_spill_stats *out);

// The disk thread's. LF_E_TOO_LARGE: past the cap by itself; LF_E_IO: paused, and said so once.
LF_CHECKED enum lf_status lf_spill_dir_write(struct lf_spill_dir *dir, struct lf_target *target,
                                             const struct lf_spill_head *head,
                                             const struct lf_spill_parts *parts,
                                             struct lf_error *err);
// A damaged file is removed and said; parts as lf_spill_file_read.
LF_CHECKED enum lf_status lf_spill_dir_read(struct lf_spill_dir *dir, struct lf_target *target,
                                            const struct lf_spill_head *head,
                                            struct lf_spill_parts *parts, struct lf_error *err);
