// Runs of launches that differ only in what lies at their addresses: kept as a device's graphs.
#pragma once
#include "device/cuda_graph.h"
#include "model/v41.h"

// Which launches; a run of each is told by the rows and tables of the call.
enum lf_run { LF_RUN_ROUND, LF_RUN_DRAFTS };

// Where kernels are on no device that keeps graphs, the model has none.
LF_CHECKED enum lf_status lf_graphs_open(struct lf_v41 *m, struct lf_error *err);
void lf_graphs_close(struct lf_v41 *m);
// The launches over the present call, which drops no rows: as they are, or as the graph they were.
void lf_graphs_run(struct lf_v41 *m, enum lf_run run, void (*launches)(struct lf_v41 *m));
// In a graph launches between aside and back run beside those that follow, up to the branch's join.
enum lf_branch { LF_BRANCH_KEYS, LF_BRANCH_MIX, LF_BRANCH_EXPERT, LF_BRANCHES };
void lf_graphs_aside(struct lf_v41 *m, enum lf_branch branch);
void lf_graphs_back(struct lf_v41 *m);
void lf_graphs_join(struct lf_v41 *m, enum lf_branch branch);
void lf_graphs_join_all(struct lf_v41 *m);
