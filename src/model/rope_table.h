// The rotation tables of a topology: frequencies, and cos and sin of positions (model.md 3.5).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "format/topology.h"

enum { LF_ROPE_PAIRS_MAX = LF_ROPE_DIM_MAX / 2 };

struct lf_rope_table {
    uint32_t pairs; // rope_dim / 2
    float freq[LF_ROPE_PAIRS_MAX];
};

// compressed: layers of ratio > 0, with YaRN when the topology has a rope scaling.
void lf_rope_table_init(struct lf_rope_table *out, const struct lf_topology *topology,
                        bool compressed);
// cos and sin [n][pairs] of float32(position) * freq rounded to float32, each rounded once.
void lf_rope_rows(const struct lf_rope_table *table, const uint64_t *positions, size_t n,
                  float *cos_rows, float *sin_rows);
