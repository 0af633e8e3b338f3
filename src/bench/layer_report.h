// What the kinds of layers came to: a row a kind and phase, and the whole model's figures.
#pragma once
#include "bench/layer_measure.h"

// One kind of layer; the last of a list is embedding and head, which have no chunk.
struct lf_layer_part {
    char name[48];
    uint32_t layers;
    bool measured;
    struct lf_layer_sample chunk, decode;
};

// LF_OK only when the limits of the options hold.
LF_CHECKED enum lf_status lf_layer_report(const struct lf_bench_options *o,
                                          const struct lf_layer_part *part, uint32_t n,
                                          struct lf_error *err);
