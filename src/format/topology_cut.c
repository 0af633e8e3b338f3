#include "format/topology_cut.h"

#include <inttypes.h>
#include "format/engram_layout.h"

enum { CUT = UINT16_MAX };

// The ids of a list that remain, by their new numbers; how many.
static uint32_t renumber(uint32_t *list, uint32_t n, const uint16_t *number) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (number[list[i]] != CUT)
            list[kept++] = number[list[i]];
    return kept;
}

static enum lf_status renumber_sources(struct lf_topology *t, const uint32_t *layer, uint32_t n,
                                       const uint16_t *number, struct lf_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        int16_t kv = t->kv_source[layer[i]], index = t->index_source[layer[i]];
        if ((kv >= 0 && number[kv] == CUT) || (index >= 0 && number[index] == CUT))
            return lf_fail(err, LF_E_USAGE, "layer %u reads the cache of layer %d and the index of "
                                            "layer %d: keep both", layer[i], kv, index);
        t->ratio[i] = t->ratio[layer[i]];
        t->kv_source[i] = kv < 0 ? -1 : (int16_t)number[kv];
        t->index_source[i] = index < 0 ? -1 : (int16_t)number[index];
    }
    for (uint32_t i = n; i < LF_LAYERS_MAX; i++) {
        t->ratio[i] = 0;
        t->kv_source[i] = t->index_source[i] = -1;
    }
    return LF_OK;
}

static void cut_tables(struct lf_topology *t, const uint16_t *number) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->n_engram; i++)
        if (number[t->engram_layers[i]] != CUT) {
            t->engram_layers[kept] = number[t->engram_layers[i]];
            kept++;
        }
    t->n_engram = kept;
    lf_engram_layout_rows(t->engram_rows, t);
}

enum lf_status lf_topology_cut(struct lf_topology *t, const uint32_t *layer, uint32_t n,
                               struct lf_error *err) {
    uint16_t number[LF_LAYERS_MAX];
    for (uint32_t i = 0; i < LF_LAYERS_MAX; i++)
        number[i] = CUT;
    for (uint32_t i = 0; i < n; i++) {
        if (layer[i] >= t->layers || (i && layer[i] <= layer[i - 1]))
            return lf_fail(err, LF_E_USAGE, "layer %u: expected ascending ids of the %u layers of "
                                            "config.json", layer[i], t->layers);
        number[layer[i]] = (uint16_t)i;
    }
    LF_TRY(renumber_sources(t, layer, n, number, err));
    t->layers = n;
    t->n_kv_sources = renumber(t->kv_sources, t->n_kv_sources, number);
    t->n_index_sources = renumber(t->index_sources, t->n_index_sources, number);
    // No layer has this id: without its source nothing is restricted to candidates.
    t->candidate_source = number[t->candidate_source] == CUT ? UINT32_MAX
                                                             : number[t->candidate_source];
    cut_tables(t, number);
    uint32_t taps = t->n_draft_taps;
    t->n_draft_taps = renumber(t->draft_taps, taps, number);
    if (t->n_draft_taps < taps)
        t->draft_layers = t->n_draft_taps = 0;
    return LF_OK;
}

enum lf_status lf_topology_cut_tables(struct lf_topology *t, uint64_t rows, struct lf_error *err) {
    uint64_t columns = t->n_engram ? (uint64_t)(t->engram_ngram - 1) * t->engram_heads : 0;
    bool larger = false;
    for (uint32_t i = 0; i < t->n_engram; i++)
        larger = larger || t->engram_rows[i] > rows;
    if (!larger)
        return LF_OK;
    if (rows / columns < 2)
        return lf_fail(err, LF_E_USAGE, "%" PRIu64 " rows of an Engram table of %" PRIu64
                                        " columns: expected at least 2 a column", rows, columns);
    t->engram_vocab = rows / columns;
    lf_engram_layout_rows(t->engram_rows, t);
    return LF_OK;
}
