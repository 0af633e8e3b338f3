// Engram hash layout: primes, offsets and multipliers from the configuration (model.md 6.2).
#pragma once
#include <stdint.h>
#include "base/error.h"
#include "format/topology.h"

enum { LF_ENGRAM_COLUMNS_MAX = 256 };

// One table; column c = (n - 2) * heads + h for n-gram order n = 2 .. N and head h.
struct lf_engram_columns {
    uint64_t rows; // the sum of the primes
    uint32_t prime[LF_ENGRAM_COLUMNS_MAX];
    uint64_t offset[LF_ENGRAM_COLUMNS_MAX];
    uint64_t multiplier[LF_NGRAM_MAX]; // N of them
};

struct lf_engram_layout {
    uint32_t tables, columns;
    uint32_t ngram, heads; // columns = (ngram - 1) * heads
    struct lf_engram_columns *table; // [tables], in the order of engram_layers
};

// Reads only the engram_ fields; refuses row counts that are not the sums of the primes.
LF_CHECKED enum lf_status lf_engram_layout_build(struct lf_engram_layout *out,
                                                 const struct lf_topology *topology,
                                                 struct lf_error *err);
// Rows of each table [n_engram]: what engram_num_embeddings has to be, of checked engram_ fields.
void lf_engram_layout_rows(uint64_t *rows, const struct lf_topology *topology);
void lf_engram_layout_free(struct lf_engram_layout *layout);
