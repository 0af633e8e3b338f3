// Tables by lane that stay the same from open to close: where each slot keeps what kernels read.
#include <stdlib.h>
#include "model/v41.h"

// Rings: layers and draft blocks, then open rows by source, then taps by place.
static uint8_t *ring_of(const struct lf_v41 *m, uint32_t ring, uint32_t slot) {
    const struct lf_state *s = &m->state[slot];
    uint32_t rings = m->shape.rings, sources = m->t->n_kv_sources;
    if (ring < rings)
        return s->ring[ring];
    if (ring < rings + sources)
        return (uint8_t *)s->open[ring - rings];
    return (uint8_t *)(s->taps + (size_t)(ring - rings - sources) * m->t->hidden);
}

static uint32_t ring_count(const struct lf_v41 *m) {
    return m->shape.rings + m->t->n_kv_sources + (m->shape.tap_size ? m->t->n_draft_taps : 0);
}

uint64_t lf_lanes_bytes(const struct lf_state_shape *shape, uint32_t slots) {
    const struct lf_topology *t = shape->t;
    uint64_t rings = shape->rings + t->n_kv_sources + (shape->tap_size ? t->n_draft_taps : 0);
    return slots * (rings * sizeof(uint8_t *) + 2 * t->n_kv_sources * sizeof(struct lf_paged)) +
           5 * LF_ARENA_ALIGN;
}

enum lf_status lf_lanes_open(struct lf_v41 *m, struct lf_error *err) {
    uint32_t slots = m->info.slots, rings = ring_count(m), sources = m->t->n_kv_sources;
    size_t paged = (size_t)sources * slots * sizeof(struct lf_paged);
    if (!lf_tables_open(&m->lanes, m->device.memory, lf_lanes_bytes(&m->shape, slots)))
        return lf_fail(err, LF_E_MEM, "out of memory for the tables of %u slots", slots);
    struct lf_table ring = lf_tables_take(&m->lanes, (size_t)rings * slots * sizeof(uint8_t *));
    struct lf_table entry = lf_tables_take(&m->lanes, paged);
    struct lf_table key = lf_tables_take(&m->lanes, paged);
    for (uint32_t i = 0; i < rings * slots; i++)
        ((uint8_t **)ring.host)[i] = ring_of(m, i / slots, i % slots);
    for (uint32_t i = 0; i < sources * slots; i++) {
        const struct lf_state *s = &m->state[i % slots];
        ((struct lf_paged *)key.host)[i] = s->key[i / slots];
#if LF_FAULT == 1
        s = m->state; // 1: every lane reads the first's entries
#endif
        ((struct lf_paged *)entry.host)[i] = s->entry[i / slots];
    }
    lf_tables_send(&m->lanes);
    m->lane_ring = ring.seen;
    m->lane_entry = entry.seen;
    m->lane_key = key.seen;
    return LF_OK;
}

uint8_t *const *lf_lane_rings(const struct lf_v41 *m, uint32_t layer) {
    return m->lane_ring + (size_t)layer * m->info.slots;
}

uint8_t *const *lf_lane_open(const struct lf_v41 *m, uint32_t source) {
    return lf_lane_rings(m, m->shape.rings + source);
}

uint8_t *const *lf_lane_taps(const struct lf_v41 *m, uint32_t place) {
    return lf_lane_rings(m, m->shape.rings + m->t->n_kv_sources + place);
}

// The source whose caches a layer reads.
static uint32_t source_of(const struct lf_v41 *m, const struct lf_layer *layer) {
    uint32_t s = 0;
    while (s < m->t->n_kv_sources && (int)m->t->kv_sources[s] != m->t->kv_source[layer->id])
        s++;
    LF_ASSERT(s < m->t->n_kv_sources);
    return s;
}

const struct lf_paged *lf_lane_entries(const struct lf_v41 *m, const struct lf_layer *layer) {
    return m->lane_entry + (size_t)source_of(m, layer) * m->info.slots;
}

const struct lf_paged *lf_lane_keys(const struct lf_v41 *m, const struct lf_layer *layer) {
    return m->lane_key + (size_t)source_of(m, layer) * m->info.slots;
}
