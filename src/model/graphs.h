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
// In a graph launches between aside and back run beside those that follow, up to that end's join.
void lf_graphs_aside(struct lf_v41 *m);
void lf_graphs_back(struct lf_v41 *m, enum lf_cuda_end end);
void lf_graphs_join(struct lf_v41 *m, enum lf_cuda_end end);
