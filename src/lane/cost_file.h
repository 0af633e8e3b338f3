// Launch times kept between starts: a file for each model, build and setting (engine.md D-8).
#pragma once
#include "base/error.h"
#include "lane/cost.h"

enum { LF_COST_PATH = 4352 };

// A table for a start: the kept one where a sample agrees with it, else measured and kept.
void lf_cost_start(struct lf_cost *cost, struct lf_target *target, const char *folder,
                   lf_clock_fn *clock, void *ctx);

// What it consists of.

// false: nowhere (no folder, a target without a name, a path that is too long).
bool lf_cost_path(char path[LF_COST_PATH], const char *folder, const struct lf_target_info *info);
// false: there is no such file, or not one that lf_cost_write wrote whole.
bool lf_cost_read(struct lf_cost *cost, const char *path);
// Makes the folder where it is missing; written beside the name and renamed.
LF_CHECKED enum lf_status lf_cost_write(const struct lf_cost *cost, const char *path,
                                        struct lf_error *err);
