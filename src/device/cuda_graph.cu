// Graphs of launches. Their tables stay on the device as long as the graph does.
#include "device/cuda_graph.h"

#include <stdlib.h>
#include "device/cuda_state.cuh"

struct lf_cuda_graph {
    cudaGraphExec_t exec;
    uint8_t *tables, *host; // tables of the launches: there, and here until the end
    size_t bytes, used;
    uint64_t launches;
};

static const char graph_what[] = "a graph of launches";

// What launches that run beside others need, before any is kept.
static void open_branches(struct lf_cuda *cuda) {
    if (cuda->fork)
        return;
    lf_cuda_note(cuda, cudaEventCreate(&cuda->fork), graph_what);
    for (struct lf_cuda_branch *b = cuda->branch; b < cuda->branch + LF_CUDA_BRANCHES; b++) {
        lf_cuda_note(cuda, cudaEventCreate(&b->done), graph_what);
        lf_cuda_note(cuda, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking),
                     graph_what);
    }
}

void lf_cuda_graph_begin(struct lf_cuda *cuda, size_t table_bytes) {
    struct lf_error err = LF_ERROR_INIT;
    LF_ASSERT(!cuda->kept);
    // Tables of the ring that no launch has sent yet are not the graph's to send.
    if (!lf_cuda_begin(cuda))
        return;
    struct lf_cuda_graph *graph = (struct lf_cuda_graph *)calloc(1, sizeof *graph);
    uint8_t *host = (uint8_t *)malloc(table_bytes + 1);
    void *tables = NULL;
    if (!graph || !host ||
        lf_cuda_alloc(cuda, &tables, table_bytes, "tables of a graph", &err) != LF_OK) {
        free(graph);
        free(host);
        lf_fail(&cuda->failure, LF_E_MEM, "CUDA: no memory for tables of a graph: %zu bytes",
                table_bytes);
        return;
    }
    *graph = {NULL, (uint8_t *)tables, host, table_bytes, 0, cuda->launches};
    open_branches(cuda);
    lf_cuda_note(cuda, cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal),
                 graph_what);
    if (lf_cuda_ready(cuda))
        cuda->kept = graph;
    else
        lf_cuda_graph_free(cuda, graph);
}

void *lf_cuda_graph_room(struct lf_cuda *cuda, size_t bytes, const void **at) {
    struct lf_cuda_graph *graph = cuda->kept;
    if (bytes > graph->bytes - graph->used) {
        lf_fail(&cuda->failure, LF_E_TOO_LARGE, "CUDA: tables of a graph of more than %zu bytes",
                graph->bytes);
        return NULL;
    }
    size_t place = graph->used;
    graph->used += bytes;
    *at = graph->tables + place;
    return graph->host + place;
}

struct lf_cuda_graph *lf_cuda_graph_end(struct lf_cuda *cuda) {
    struct lf_cuda_graph *graph = cuda->kept;
    cudaGraph_t launches = NULL;
    if (!graph)
        return NULL;
    cuda->kept = NULL;
    cuda->waits = false;
    for (uint32_t branch = 0; branch < LF_CUDA_BRANCHES; branch++)
        cuda->branch[branch].is_open = false;
    graph->launches = cuda->launches - graph->launches;
    cuda->launches -= graph->launches;
    lf_cuda_note(cuda, cudaStreamEndCapture(cuda->stream, &launches), graph_what);
    if (lf_cuda_ready(cuda))
        lf_cuda_note(cuda, cudaGraphInstantiate(&graph->exec, launches, 0), graph_what);
    if (launches)
        lf_cuda_note(cuda, cudaGraphDestroy(launches), graph_what);
    lf_cuda_upload(cuda, graph->tables, graph->host, graph->used);
    free(graph->host);
    graph->host = NULL;
    if (lf_cuda_ready(cuda))
        return graph;
    lf_cuda_graph_free(cuda, graph);
    return NULL;
}

void lf_cuda_graph_aside(struct lf_cuda *cuda, uint32_t branch) {
    LF_ASSERT(branch < LF_CUDA_BRANCHES && !cuda->aside);
    if (!cuda->kept || lf_cuda_has_failed(cuda))
        return;
    cuda->aside = &cuda->branch[branch];
    lf_cuda_note(cuda, cudaEventRecord(cuda->fork, cuda->stream), graph_what);
    lf_cuda_note(cuda, cudaStreamWaitEvent(cuda->aside->stream, cuda->fork, 0), graph_what);
    cuda->waits = true;
}

void lf_cuda_graph_back(struct lf_cuda *cuda) {
    if (!cuda->aside)
        return;
    lf_cuda_note(cuda, cudaEventRecord(cuda->aside->done, cuda->aside->stream), graph_what);
    cuda->aside->is_open = true;
    cuda->aside = NULL;
    cuda->waits = false;
}

void lf_cuda_graph_join(struct lf_cuda *cuda, uint32_t branch) {
    struct lf_cuda_branch *own = &cuda->branch[branch];
    LF_ASSERT(branch < LF_CUDA_BRANCHES && !cuda->aside);
    if (!cuda->kept || !own->is_open || lf_cuda_has_failed(cuda))
        return;
    lf_cuda_note(cuda, cudaStreamWaitEvent(cuda->stream, own->done, 0), graph_what);
    own->is_open = false;
    cuda->waits = true;
}

void lf_cuda_graph_launch(struct lf_cuda *cuda, struct lf_cuda_graph *graph) {
    if (!lf_cuda_begin(cuda))
        return;
    lf_cuda_note(cuda, cudaGraphLaunch(graph->exec, cuda->stream), graph_what);
    cuda->launches += graph->launches - 1;
}

void lf_cuda_graph_free(struct lf_cuda *cuda, struct lf_cuda_graph *graph) {
    if (!graph)
        return;
    // A launch on its way still reads it.
    lf_cuda_drain(cuda);
    if (graph->exec)
        lf_cuda_note(cuda, cudaGraphExecDestroy(graph->exec), graph_what);
    lf_cuda_free(cuda, graph->tables);
    free(graph->host);
    free(graph);
}

uint64_t lf_cuda_table_bytes(const struct lf_cuda *cuda) {
    return cuda->table_bytes;
}
