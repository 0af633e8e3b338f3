#include "model/state.h"

#include <stdlib.h>
#include <string.h>
#include "base/sha256.h"
#include "model/page.h"

static uint32_t power_of_two(uint32_t least) {
    uint32_t n = 1;
    while (n < least)
        n *= 2;
    return n;
}

void lf_state_shape_init(struct lf_state_shape *shape, const struct lf_topology *t,
                         uint64_t context) {
    *shape = (struct lf_state_shape){
        .t = t,
        .context = context,
#if LF_FAULT == 1
        .ring_rows = power_of_two(t->window), // 1: no room for rejected rows (L-15)
#else
        .ring_rows = power_of_two(t->window + LF_WINDOW_MAX - 1),
#endif
#if LF_FAULT == 2
        .open_rows = power_of_two(2), // 2: a rejected row overwrites the open half of a pair
#else
        .open_rows = power_of_two(LF_WINDOW_MAX + 2),
#endif
        .window_bytes = lf_qa8_row_bytes(t->head_dim),
        .entry_bytes = lf_qf4s_row_bytes(t->head_dim),
        .key_bytes = lf_qf4e_row_bytes(t->index_dim),
        .rings = t->layers,
        .pages_max = (uint32_t)((context + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS),
    };
}

void lf_state_shape_add_drafter(struct lf_state_shape *shape) {
    shape->rings = shape->t->layers + shape->t->draft_layers;
    shape->tap_size = shape->t->n_draft_taps * shape->t->hidden;
}

static uint32_t source_ratio(const struct lf_topology *t, uint32_t source) {
    return t->ratio[t->kv_sources[source]];
}

// Zeroed memory, counted.
static void *take(uint64_t *bytes, size_t count, size_t bytes_each) {
    *bytes += count * bytes_each;
    return calloc(count, bytes_each);
}

static bool sources_open(struct lf_state *state, const struct lf_state_shape *shape) {
    const struct lf_topology *t = shape->t;
    uint64_t *history = &state->history_bytes;
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        state->entry[s].page = take(history, shape->pages_max, sizeof *state->entry[s].page);
        state->key[s].page = take(history, shape->pages_max, sizeof *state->key[s].page);
        if (!state->entry[s].page || !state->key[s].page)
            return false;
        if (source_ratio(t, s) == 1)
            continue;
        state->open[s] = take(&state->bounded_bytes, (size_t)shape->open_rows * 2 * t->head_dim,
                              sizeof(float));
        if (!state->open[s])
            return false;
    }
    return true;
}

static bool buffers_open(struct lf_state *state, const struct lf_state_shape *shape) {
    const struct lf_topology *t = shape->t;
    uint64_t *bounded = &state->bounded_bytes;
    state->history = take(&state->history_bytes, shape->context, sizeof *state->history);
    state->last = take(bounded, t->vocab, sizeof *state->last);
    state->ring = take(bounded, shape->rings, sizeof *state->ring);
    state->taps = take(bounded, (size_t)shape->ring_rows * shape->tap_size + 1,
                       sizeof *state->taps);
    state->entry = take(bounded, t->n_kv_sources + 1, sizeof *state->entry);
    state->key = take(bounded, t->n_kv_sources + 1, sizeof *state->key);
    state->open = take(bounded, t->n_kv_sources + 1, sizeof *state->open);
    if (!state->history || !state->last || !state->ring || !state->taps || !state->entry ||
        !state->key || !state->open)
        return false;
    for (uint32_t l = 0; l < shape->rings; l++) {
        state->ring[l] = take(bounded, shape->ring_rows, shape->window_bytes);
        if (!state->ring[l])
            return false;
    }
    return sources_open(state, shape);
}

enum lf_status lf_state_open(struct lf_state *state, const struct lf_state_shape *shape,
                             struct lf_error *err) {
    *state = (struct lf_state){0};
    if (!buffers_open(state, shape)) {
        lf_state_close(state, shape);
        return lf_fail(err, LF_E_MEM, "out of memory for a slot of %llu positions",
                       (unsigned long long)shape->context);
    }
    lf_state_reset(state, shape);
    return LF_OK;
}

// Lets all pages go; a list has no holes.
static void pages_release(struct lf_paged *paged, uint32_t pages) {
    for (uint32_t i = 0; paged->page && i < pages && paged->page[i]; i++) {
        lf_page_release(paged->page[i]);
        paged->page[i] = NULL;
    }
}

static void paged_free(struct lf_paged *paged, uint32_t pages) {
    pages_release(paged, pages);
    free(paged->page);
}

void lf_state_close(struct lf_state *state, const struct lf_state_shape *shape) {
    const struct lf_topology *t = shape->t;
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        if (state->entry)
            paged_free(&state->entry[s], shape->pages_max);
        if (state->key)
            paged_free(&state->key[s], shape->pages_max);
        if (state->open)
            free(state->open[s]);
    }
    for (uint32_t l = 0; state->ring && l < shape->rings; l++)
        free(state->ring[l]);
    free(state->ring);
    free(state->taps);
    free(state->entry);
    free(state->key);
    free(state->open);
    free(state->history);
    free(state->last);
    *state = (struct lf_state){0};
}

// Both page lists of one source up to pages pages; false when memory ran out.
static bool source_grow(struct lf_state *state, const struct lf_state_shape *shape, uint32_t s,
                        uint64_t pages) {
    for (uint64_t i = 0; i < pages; i++) {
        if (!state->entry[s].page[i])
            state->entry[s].page[i] = lf_page_new(shape->entry_bytes);
        if (!state->key[s].page[i])
            state->key[s].page[i] = lf_page_new(shape->key_bytes);
        if (!state->entry[s].page[i] || !state->key[s].page[i])
            return false;
    }
    return true;
}

enum lf_status lf_state_grow(struct lf_state *state, const struct lf_state_shape *shape,
                             uint64_t positions, struct lf_error *err) {
    const struct lf_topology *t = shape->t;
    if (positions > shape->context)
        return lf_fail(err, LF_E_POS, "%llu positions asked for, a slot has %llu",
                       (unsigned long long)positions, (unsigned long long)shape->context);
    if (positions <= state->grown)
        return LF_OK;
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        uint64_t entries = positions / source_ratio(t, s);
        if (!source_grow(state, shape, s, (entries + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS))
            return lf_fail(err, LF_E_MEM, "out of memory for %llu positions of a slot",
                           (unsigned long long)positions);
    }
    state->grown = positions;
    return LF_OK;
}

uint64_t lf_state_bounded_bytes(const struct lf_state_shape *shape) {
    const struct lf_topology *t = shape->t;
    uint64_t ring = (uint64_t)shape->ring_rows * shape->window_bytes + sizeof(uint8_t *);
    uint64_t sources = t->n_kv_sources + 1, open = 0;
    for (uint32_t s = 0; s < t->n_kv_sources; s++)
        if (source_ratio(t, s) > 1)
            open += (uint64_t)shape->open_rows * 2 * t->head_dim * sizeof(float);
    uint64_t taps = ((uint64_t)shape->ring_rows * shape->tap_size + 1) * sizeof(uint16_t);
    return shape->rings * ring + taps + open + t->vocab * sizeof(float) +
           sources * (2 * sizeof(struct lf_paged) + sizeof(float *));
}

uint64_t lf_state_history_bytes(const struct lf_state_shape *shape) {
    return shape->context * sizeof(uint32_t) +
           (uint64_t)shape->t->n_kv_sources * 2 * shape->pages_max * sizeof(uint8_t *);
}

uint64_t lf_state_pages(const struct lf_state_shape *shape, uint64_t positions) {
    uint64_t pages = 0;
    for (uint32_t s = 0; s < shape->t->n_kv_sources; s++)
        pages += (positions / source_ratio(shape->t, s) + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS;
    return pages;
}

uint64_t lf_state_kv_bytes(const struct lf_state_shape *shape, uint64_t positions) {
    return lf_state_pages(shape, positions) *
           (lf_page_bytes(shape->entry_bytes) + lf_page_bytes(shape->key_bytes));
}

uint64_t lf_state_position_bytes(const struct lf_state_shape *shape) {
    uint64_t halves = 0;
    for (uint32_t s = 0; s < shape->t->n_kv_sources; s++)
        halves += 2 / source_ratio(shape->t, s);
    return halves * (shape->entry_bytes + shape->key_bytes) / 2;
}

void lf_state_reset(struct lf_state *state, const struct lf_state_shape *shape) {
    for (uint32_t s = 0; s < shape->t->n_kv_sources; s++) {
        pages_release(&state->entry[s], shape->pages_max);
        pages_release(&state->key[s], shape->pages_max);
    }
    state->grown = 0;
    state->length = 0;
    state->complete = true;
    state->logits_ready = false;
    state->n_plan = 0;
    state->pending_rows = 0;
    state->taps_from = state->draft_from = state->draft_end = 0;
}

static void digest_number(struct lf_sha256 *sha, uint64_t n) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(n >> 8 * i);
    lf_sha256_add(sha, bytes, sizeof bytes);
}

void lf_state_digest(const struct lf_state *state, const struct lf_state_shape *shape,
                     uint8_t out[32]) {
    const struct lf_topology *t = shape->t;
    uint64_t n = state->length;
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    digest_number(&sha, n);
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        uint32_t ratio = source_ratio(t, s);
        for (uint64_t j = 0; j < n / ratio; j++) {
            lf_sha256_add(&sha, lf_paged_row(&state->entry[s], j, shape->entry_bytes),
                          shape->entry_bytes);
            lf_sha256_add(&sha, lf_paged_row(&state->key[s], j, shape->key_bytes),
                          shape->key_bytes);
        }
        if (ratio == 2 && n % 2)
            lf_sha256_add(&sha,
                          state->open[s] + (n - 1) % shape->open_rows * 2 * t->head_dim,
                          2 * t->head_dim * sizeof(float));
    }
    uint64_t first = n > t->window - 1 ? n - (t->window - 1) : 0;
    for (uint32_t l = 0; l < shape->rings; l++)
        for (uint64_t p = first; p < n; p++)
            lf_sha256_add(&sha, state->ring[l] + p % shape->ring_rows * shape->window_bytes,
                          shape->window_bytes);
    uint64_t back = t->engram_ngram - 1 < n ? t->engram_ngram - 1 : n;
    for (uint64_t p = n - back; p < n; p++)
        digest_number(&sha, state->history[p]);
    lf_sha256_finish(&sha, out);
}
