#include "bench/layer_kinds.h"

#include <stdio.h>

uint32_t lf_layer_kinds(const struct lf_topology *t, struct lf_layer_kind kind[LF_KINDS]) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < t->layers; l++) {
        uint32_t bits = lf_topology_kind(t, l), at = 0;
        while (at < n && kind[at].kind != bits)
            at++;
        if (at == n)
            kind[n++] = (struct lf_layer_kind){.kind = bits, .first = l};
        kind[at].layers++;
    }
    return n;
}

void lf_layer_kind_name(uint32_t kind, char *name, size_t bytes) {
    uint32_t ratio = kind & LF_KIND_RATIO;
    bool index = kind & LF_KIND_INDEX_SOURCE;
    const char *source = kind & LF_KIND_KV_SOURCE ? "-source" : index ? "-index" : "";
    const char *choice = kind & LF_KIND_CANDIDATES           ? "-candidates"
                         : index && kind & LF_KIND_RESTRICTED ? "-restricted"
                                                             : "";
    const char *engram = kind & LF_KIND_ENGRAM ? "-engram" : "";
    static const char *const caches[] = {"window", "ratio1", "ratio2", "ratio3"};
    snprintf(name, bytes, "%s%s%s%s", caches[ratio], source, choice, engram);
}

void lf_layer_needs(const struct lf_topology *t, uint32_t layer, bool needed[LF_LAYERS_MAX]) {
    needed[layer] = true;
    if (!t->ratio[layer])
        return;
    needed[t->kv_source[layer]] = true;
    needed[t->index_source[layer]] = true;
    if (t->index_source[layer] > (int)t->candidate_source)
        needed[t->candidate_source] = true;
}
