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

// Zeroed memory of the host, counted.
static void *take(uint64_t *bytes, size_t count, size_t bytes_each) {
    *bytes += count * bytes_each;
    return calloc(count, bytes_each);
}

// The same where kernels work.
static void *take_seen(const struct lf_state_shape *shape, uint64_t *bytes, size_t count,
                       size_t bytes_each) {
    *bytes += count * bytes_each;
    return lf_mem_alloc(shape->memory, count * bytes_each);
}

static bool source_open(struct lf_state *state, const struct lf_state_shape *shape, uint32_t s) {
    const struct lf_topology *t = shape->t;
    uint64_t *history = &state->history_bytes;
    size_t pages = shape->pages_max;
    state->entry[s].page = take_seen(shape, history, pages, sizeof *state->entry[s].page);
    state->key[s].page = take_seen(shape, history, pages, sizeof *state->key[s].page);
    state->entry_page[s] = take(history, pages, sizeof **state->entry_page);
    state->key_page[s] = take(history, pages, sizeof **state->key_page);
    if (source_ratio(t, s) > 1)
        state->open[s] = take_seen(shape, &state->bounded_bytes,
                                   (size_t)shape->open_rows * 2 * t->head_dim, sizeof(float));
    return state->entry[s].page && state->key[s].page && state->entry_page[s] &&
           state->key_page[s] && (source_ratio(t, s) == 1 || state->open[s]);
}

static bool buffers_open(struct lf_state *state, const struct lf_state_shape *shape) {
    const struct lf_topology *t = shape->t;
    uint64_t *bounded = &state->bounded_bytes;
    uint32_t sources = t->n_kv_sources;
    state->history = take(&state->history_bytes, shape->context, sizeof *state->history);
    state->last = take_seen(shape, bounded, t->vocab, sizeof *state->last);
    state->ring = take(bounded, shape->rings, sizeof *state->ring);
    state->taps = take_seen(shape, bounded, (size_t)shape->ring_rows * shape->tap_size + 1,
                            sizeof *state->taps);
    state->entry = take(bounded, sources + 1, sizeof *state->entry);
    state->key = take(bounded, sources + 1, sizeof *state->key);
    state->entry_page = take(bounded, sources + 1, sizeof *state->entry_page);
    state->key_page = take(bounded, sources + 1, sizeof *state->key_page);
    state->open = take(bounded, sources + 1, sizeof *state->open);
    if (!state->history || !state->last || !state->ring || !state->taps || !state->entry ||
        !state->key || !state->entry_page || !state->key_page || !state->open)
        return false;
    for (uint32_t l = 0; l < shape->rings; l++) {
        state->ring[l] = take_seen(shape, bounded, shape->ring_rows, shape->window_bytes);
        if (!state->ring[l])
            return false;
    }
    for (uint32_t s = 0; s < sources; s++)
        if (!source_open(state, shape, s))
            return false;
    return true;
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

struct lf_page **lf_state_pages_of(const struct lf_state *state, int which, uint32_t source) {
    return (which ? state->key_page : state->entry_page)[source];
}

void lf_state_show_pages(struct lf_state *state, const struct lf_state_shape *shape, int which,
                         uint32_t source, uint64_t first, uint64_t end) {
    enum { PART = 256 };
    struct lf_page *const *list = lf_state_pages_of(state, which, source);
    uint8_t **seen = (which ? state->key : state->entry)[source].page, *rows[PART];
    for (uint64_t i = first; i < end; i++) {
        uint64_t place = (i - first) % PART;
        rows[place] = list[i] ? list[i]->rows : NULL;
        if (place + 1 == PART || i + 1 == end)
            lf_mem_upload(shape->memory, seen + (i - place), rows, (place + 1) * sizeof *rows);
    }
}

// Lets all pages go; a list has no holes.
static void pages_release(struct lf_state *state, const struct lf_state_shape *shape, uint32_t s) {
    for (int which = 0; which < 2 && state->entry_page && state->key_page; which++) {
        struct lf_page **list = lf_state_pages_of(state, which, s);
        uint32_t n = 0;
        for (; list && n < shape->pages_max && list[n]; n++) {
            lf_page_release(list[n]);
            list[n] = NULL;
        }
        lf_state_show_pages(state, shape, which, s, 0, n);
    }
}

static void source_close(struct lf_state *state, const struct lf_state_shape *shape, uint32_t s) {
    pages_release(state, shape, s);
    if (state->entry)
        lf_mem_free(shape->memory, state->entry[s].page);
    if (state->key)
        lf_mem_free(shape->memory, state->key[s].page);
    if (state->entry_page)
        free(state->entry_page[s]);
    if (state->key_page)
        free(state->key_page[s]);
    if (state->open)
        lf_mem_free(shape->memory, state->open[s]);
}

void lf_state_close(struct lf_state *state, const struct lf_state_shape *shape) {
    for (uint32_t s = 0; s < shape->t->n_kv_sources; s++)
        source_close(state, shape, s);
    for (uint32_t l = 0; state->ring && l < shape->rings; l++)
        lf_mem_free(shape->memory, state->ring[l]);
    lf_mem_free(shape->memory, state->taps);
    lf_mem_free(shape->memory, state->last);
    free(state->ring);
    free(state->entry);
    free(state->key);
    free(state->entry_page);
    free(state->key_page);
    free(state->open);
    free(state->history);
    *state = (struct lf_state){0};
}

// One page list up to pages pages; false when memory ran out.
static bool list_grow(struct lf_state *state, const struct lf_state_shape *shape, int which,
                      uint32_t s, uint64_t pages) {
    struct lf_page **list = lf_state_pages_of(state, which, s);
    uint64_t first = 0, i;
    while (first < pages && list[first])
        first++;
    for (i = first; i < pages; i++) {
        list[i] = lf_page_new(shape->memory, which ? shape->key_bytes : shape->entry_bytes);
        if (!list[i])
            break;
    }
    lf_state_show_pages(state, shape, which, s, first, i);
    return i >= pages;
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
        uint64_t pages = (entries + LF_PAGE_ROWS - 1) / LF_PAGE_ROWS;
        if (!list_grow(state, shape, 0, s, pages) || !list_grow(state, shape, 1, s, pages))
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
           sources * (2 * (sizeof(struct lf_paged) + sizeof(struct lf_page **)) + sizeof(float *));
}

uint64_t lf_state_history_bytes(const struct lf_state_shape *shape) {
    return shape->context * sizeof(uint32_t) +
           (uint64_t)shape->t->n_kv_sources * 4 * shape->pages_max * sizeof(uint8_t *);
}

uint64_t lf_state_history_there_bytes(const struct lf_state_shape *shape) {
    return (uint64_t)shape->t->n_kv_sources * 2 * shape->pages_max * sizeof(uint8_t *);
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
    for (uint32_t s = 0; s < shape->t->n_kv_sources; s++)
        pages_release(state, shape, s);
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

// A digest over memory that only kernels may reach.
struct reader {
    struct lf_sha256 sha;
    struct lf_mem *memory;
};

static void add(struct reader *reader, const void *at, uint64_t bytes) {
    uint8_t bounce[4096];
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < sizeof bounce ? bytes - done : sizeof bounce;
        lf_sha256_add(&reader->sha,
                      lf_mem_read(reader->memory, (const char *)at + done, n, bounce), n);
    }
}

static void add_rows(struct reader *reader, struct lf_page *const *page, uint64_t j,
                     uint32_t row_bytes) {
    add(reader, page[j / LF_PAGE_ROWS]->rows + j % LF_PAGE_ROWS * row_bytes, row_bytes);
}

void lf_state_digest(const struct lf_state *state, const struct lf_state_shape *shape,
                     uint8_t out[32]) {
    const struct lf_topology *t = shape->t;
    uint64_t n = state->length;
    struct reader reader = {.memory = shape->memory};
    lf_sha256_init(&reader.sha);
    digest_number(&reader.sha, n);
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        uint32_t ratio = source_ratio(t, s);
        for (uint64_t j = 0; j < n / ratio; j++) {
            add_rows(&reader, state->entry_page[s], j, shape->entry_bytes);
            add_rows(&reader, state->key_page[s], j, shape->key_bytes);
        }
        if (ratio == 2 && n % 2)
            add(&reader, state->open[s] + (n - 1) % shape->open_rows * 2 * t->head_dim,
                2 * t->head_dim * sizeof(float));
    }
    uint64_t first = n > t->window - 1 ? n - (t->window - 1) : 0;
    for (uint32_t l = 0; l < shape->rings; l++)
        for (uint64_t p = first; p < n; p++)
            add(&reader, state->ring[l] + p % shape->ring_rows * shape->window_bytes,
                shape->window_bytes);
    uint64_t back = t->engram_ngram - 1 < n ? t->engram_ngram - 1 : n;
    for (uint64_t p = n - back; p < n; p++)
        digest_number(&reader.sha, state->history[p]);
    lf_sha256_finish(&reader.sha, out);
}
