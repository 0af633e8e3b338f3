// The kinds of layers a model has, and the layers that one of a kind needs beside it to run.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "format/topology.h"

struct lf_layer_kind {
    uint32_t kind, first, layers; // lf_topology_kind, the first layer of it, how many there are
};

// In the order of their first layers; how many.
uint32_t lf_layer_kinds(const struct lf_topology *t, struct lf_layer_kind kind[LF_KINDS]);
// Such as ratio2-source-engram: letters, digits and dashes.
void lf_layer_kind_name(uint32_t kind, char *name, size_t bytes);
// Marks a layer and those whose caches, index and candidates it reads.
void lf_layer_needs(const struct lf_topology *t, uint32_t layer, bool needed[LF_LAYERS_MAX]);
