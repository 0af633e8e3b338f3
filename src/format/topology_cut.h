// A topology with fewer layers or smaller Engram tables, to run a model's shapes where it is small.
#pragma once
#include "base/error.h"
#include "format/topology.h"

// Keeps n ascending layers, numbered anew (docs/exactness.md); refuses one whose sources are cut.
LF_CHECKED enum lf_status lf_topology_cut(struct lf_topology *t, const uint32_t *layer, uint32_t n,
                                          struct lf_error *err);
// Lowers engram_vocab until no table has much more than rows rows.
LF_CHECKED enum lf_status lf_topology_cut_tables(struct lf_topology *t, uint64_t rows,
                                                 struct lf_error *err);
