// Launches that are kept and queued again at once: the same kernels with the same arguments.
#pragma once
#include "device/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lf_cuda_graph;

// Until its end launches are kept and not run; table_bytes: of their tables, as a plain run had.
void lf_cuda_graph_begin(struct lf_cuda *cuda, size_t table_bytes);
// NULL after a failure, which is kept.
struct lf_cuda_graph *lf_cuda_graph_end(struct lf_cuda *cuda);
// Launches between the first two run beside those that follow, a branch's in order, up to its join.
enum { LF_CUDA_BRANCHES = 3 };
void lf_cuda_graph_aside(struct lf_cuda *cuda, uint32_t branch);
void lf_cuda_graph_back(struct lf_cuda *cuda);
void lf_cuda_graph_join(struct lf_cuda *cuda, uint32_t branch); // nothing where it has no launches
// They run with what lies at their addresses by then.
void lf_cuda_graph_launch(struct lf_cuda *cuda, struct lf_cuda_graph *graph);
void lf_cuda_graph_free(struct lf_cuda *cuda, struct lf_cuda_graph *graph); // NULL is allowed
// Bytes of tables that launches have taken since the device was opened.
uint64_t lf_cuda_table_bytes(const struct lf_cuda *cuda);

#ifdef __cplusplus
}
#endif
