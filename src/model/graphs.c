#include "model/graphs.h"

#include <string.h>

enum { GRAPHS = 16 };

// All that the host puts into launches of a call, but for what never changes while a model is open.
struct key {
    enum lf_run run;
    uint32_t rows, rows_all, n_wanted, entries[2];
    size_t score_room[2]; // by ratio - 1
    const float *cos[2], *sin[2]; // of entries
    const float *pre, *pre_next;
    struct lf_seen seen;
};

struct graph {
    struct key key;
    uint64_t used; // the run that last asked for it; 0: none
    uint64_t table_bytes;
    struct lf_cuda_graph *launches; // NULL: run once as they are
};

struct lf_graphs {
    struct lf_kernels k; // the device's own: others may not only launch
    uint64_t runs;
    bool off; // a graph failed
    struct graph graph[GRAPHS];
};

enum lf_status lf_graphs_open(struct lf_v41 *m, struct lf_error *err) {
    if (!m->device.cuda)
        return LF_OK;
    m->graphs = lf_arena_alloc(&m->arena, 1, sizeof *m->graphs);
    if (!m->graphs)
        return lf_fail(err, LF_E_MEM, "out of memory for graphs of launches");
    *m->graphs = (struct lf_graphs){.k = m->k};
    return LF_OK;
}

void lf_graphs_close(struct lf_v41 *m) {
    for (int i = 0; m->graphs && i < GRAPHS; i++)
        lf_cuda_graph_free(m->device.cuda, m->graphs->graph[i].launches);
}

static void set_key(const struct lf_v41 *m, enum lf_run run, struct key *key) {
    const struct lf_work *w = &m->work;
    memset(key, 0, sizeof *key); // compared as bytes
    key->run = run;
    key->rows = w->rows;
    key->rows_all = w->rows_all;
    key->n_wanted = w->n_wanted;
    key->pre = w->pre;
    key->pre_next = w->pre_next;
    memcpy(&key->seen, &w->seen, sizeof w->seen);
    for (uint32_t i = 0; i < 2; i++) {
        key->entries[i] = w->entries[i].n;
        key->score_room[i] = lf_indexer_room(m, i + 1);
        key->cos[i] = w->entries[i].cos;
        key->sin[i] = w->entries[i].sin;
    }
}

// The graph of the key, or the one that was not asked for longest in its place.
static struct graph *find(struct lf_v41 *m, const struct key *key) {
    struct graph *oldest = m->graphs->graph;
    for (struct graph *g = m->graphs->graph; g < m->graphs->graph + GRAPHS; g++) {
        if (g->used && !memcmp(&g->key, key, sizeof *key))
            return g;
        oldest = g->used < oldest->used ? g : oldest;
    }
    lf_cuda_graph_free(m->device.cuda, oldest->launches);
    memset(oldest, 0, sizeof *oldest);
    memcpy(&oldest->key, key, sizeof *key);
    return oldest;
}

// A key that comes once is not worth a graph; its first run says what its tables take.
static void run_plain(struct lf_v41 *m, struct graph *g, void (*launches)(struct lf_v41 *m)) {
    uint64_t before = lf_cuda_table_bytes(m->device.cuda);
    launches(m);
    g->table_bytes = lf_cuda_table_bytes(m->device.cuda) - before;
}

static void run_graph(struct lf_v41 *m, struct graph *g, void (*launches)(struct lf_v41 *m)) {
    struct lf_cuda *cuda = m->device.cuda;
    if (!g->launches) {
        lf_cuda_graph_begin(cuda, g->table_bytes);
        launches(m);
        g->launches = lf_cuda_graph_end(cuda);
    }
    if (g->launches)
        lf_cuda_graph_launch(cuda, g->launches);
    m->graphs->off = !g->launches;
}

_Static_assert((int)LF_BRANCHES == (int)LF_CUDA_BRANCHES, "a graph has all of them");

void lf_graphs_aside(struct lf_v41 *m, enum lf_branch branch) {
    if (m->device.cuda)
        lf_cuda_graph_aside(m->device.cuda, branch);
}

void lf_graphs_back(struct lf_v41 *m) {
    if (m->device.cuda)
        lf_cuda_graph_back(m->device.cuda);
}

void lf_graphs_join(struct lf_v41 *m, enum lf_branch branch) {
    if (m->device.cuda)
        lf_cuda_graph_join(m->device.cuda, branch);
}

void lf_graphs_join_all(struct lf_v41 *m) {
    for (enum lf_branch branch = 0; branch < LF_BRANCHES; branch++)
        lf_graphs_join(m, branch);
}

void lf_graphs_run(struct lf_v41 *m, enum lf_run run, void (*launches)(struct lf_v41 *m)) {
    struct key key;
    LF_ASSERT(!m->work.n_drops);
    if (!m->graphs || m->graphs->off || memcmp(&m->k, &m->graphs->k, sizeof m->k) != 0) {
        launches(m);
        return;
    }
    set_key(m, run, &key);
    struct graph *g = find(m, &key);
    if (g->used)
        run_graph(m, g, launches);
    else
        run_plain(m, g, launches);
    // What failed half-way says nothing about its tables.
    if (!lf_cuda_has_failed(m->device.cuda))
        g->used = ++m->graphs->runs;
}
