#include "kernel/index_select/index_select.h"

#include "base/error.h"
#include "base/number.h"
#include "device/pool.h"
#include "kernel/index_select/best_items.h"

// PART: entries from which another task for a row pays.
enum { CHUNK = 256, PART = 4096, KEY_NAN = INT32_MIN + 1, KEY_NEWEST = INT32_MAX };

// One of SAMPLE chunks is read first, where that is at least SAMPLED times k items.
enum { SAMPLE = 8, SAMPLED = 2 };

// Items in ascending order with one key each.
struct source {
    const float *score;
    uint32_t n;            // items
    uint32_t size;         // 0: an item has a score of its own; else a block of so many scores
    struct lf_items items; // what entries items are; of blocks: they are themselves
};

// The k best items of a source; where it has no more, all of them, and no score is read.
struct choice {
    struct source from;
    uint32_t k;
    uint32_t *out, *n_out;
};

// What a task holds of a row; the blocks only where they are published.
struct held {
    struct best entries, blocks;
};
_Static_assert(sizeof(struct held) == LF_INDEX_SELECT_HELD_BYTES, "scratch of index_select");

struct job {
    struct lf_index_select_args args;
    struct lf_pool *pool;
    uint32_t parts; // tasks of a row
};

// Ascending with the float's value; both zeros are one value, NaN is below -infinity.
static inline int32_t order(float x) {
    uint32_t bits = lf_f32_bits(x + 0.0f), magnitude = bits & 0x7FFFFFFFu;
#if LF_FAULT == 8
    bits = lf_f32_bits(x); // 8: -0 below +0
#endif
    int32_t key = (int32_t)(bits >> 31 ? bits ^ 0x7FFFFFFFu : bits);
#if LF_FAULT == 7
    return magnitude > 0x7F800000u ? INT32_MAX - 1 : key; // 7: NaN above every number
#endif
    return magnitude > 0x7F800000u ? KEY_NAN : key;
}

static inline int32_t greater_of(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static void read_scores(const float *restrict score, uint32_t n, int32_t *restrict keys) {
    for (uint32_t i = 0; i < n; i++)
        keys[i] = order(score[i]);
}

static void halve(const int32_t *restrict from, uint32_t n, int32_t *restrict to) {
    for (uint32_t i = 0; i < n / 2; i++)
        to[i] = greater_of(from[2 * i], from[2 * i + 1]);
}

// Keys of at most CHUNK / size whole blocks from `first` on; size is a power of two.
static void read_halved(const struct source *s, uint32_t first, uint32_t n, int32_t *keys) {
    int32_t level[2][CHUNK];
    uint32_t from = 0;
    read_scores(s->score + (size_t)first * s->size, n * s->size, level[0]);
    for (uint32_t size = s->size; size > 1; size /= 2, from ^= 1)
        halve(level[from], n * size, level[from ^ 1]);
    for (uint32_t i = 0; i < n; i++)
        keys[i] = level[from][i];
}

static int32_t block_key(const struct source *s, uint32_t block) {
    int32_t best = KEY_NAN;
    for (uint32_t i = block * s->size; i < (block + 1) * s->size; i++)
        best = greater_of(best, order(s->score[i]));
    return best;
}

static void read_blocks(const struct source *s, uint32_t first, uint32_t n, int32_t *keys) {
    bool newest = first + n == s->n;
    uint32_t whole = n - newest;
    if (s->size <= CHUNK && (s->size & (s->size - 1)) == 0) {
        for (uint32_t most = CHUNK / s->size, done = 0, now; done < whole; done += now) {
            now = whole - done < most ? whole - done : most;
            read_halved(s, first + done, now, keys + done);
        }
    } else {
        for (uint32_t i = 0; i < whole; i++)
            keys[i] = block_key(s, first + i);
    }
    // The newest block is forced in (8.7): no score has this key.
    if (newest)
        keys[whole] = KEY_NEWEST;
#if LF_FAULT == 9
    if (newest)
        keys[whole] = KEY_NAN; // 9: the newest block is not forced in
#endif
}

// Keys of items first .. first+n-1, at most CHUNK.
static void read_keys(const struct source *s, uint32_t first, uint32_t n, int32_t *keys) {
    if (s->size)
        read_blocks(s, first, n, keys);
    else
        read_scores(s->score + first, n, keys);
}

static bool takes_all(const struct choice *c) {
    return c->from.n <= c->k;
}

// Takes in items first .. end-1 but only CHUNK of every `stride`.
static void take_items(const struct choice *c, uint32_t first, uint32_t end, uint32_t stride,
                       struct best *best) {
    int32_t keys[CHUNK];
    for (uint64_t at = first; at < end; at += stride) {
        uint32_t from = (uint32_t)at, n = end - from < CHUNK ? end - from : CHUNK;
        read_keys(&c->from, from, n, keys);
        pad_keys(keys, n);
        for (uint32_t i = 0; i < n; i += BEST_GROUP)
            best_take(best, keys + i, from + i, NULL);
    }
    best_cut(best);
}

// The best items of part `part` of a source that is cut into `parts`.
static void hold_part(const struct choice *c, uint32_t part, uint32_t parts, struct best *best) {
    uint64_t n = takes_all(c) ? 0 : c->from.n;
    uint32_t first = (uint32_t)(n * part / parts), end = (uint32_t)(n * (part + 1) / parts);
    // A sample keeps out most of what would come in where scores rise with the place.
    if ((end - first) / SAMPLE / SAMPLED >= c->k) {
        take_items(c, first, end, SAMPLE * CHUNK, best);
        best_restart(best);
    }
    take_items(c, first, end, CHUNK, best);
}

// Lists what was chosen of all parts' items.
static void list(const struct choice *c, const struct best *best) {
    uint32_t n = takes_all(c) ? c->from.n : best->n;
    for (uint32_t i = 0; i < n; i++)
        c->out[i] = lf_item_entry(&c->from.items, takes_all(c) ? i : best->item[i]);
    *c->n_out = n;
}

static struct choice block_choice(const struct lf_index_select_args *args, uint32_t row) {
    uint32_t visible = args->visible[row], size = args->block_size;
    struct choice c = {.k = args->topk_blocks, .n_out = args->n_blocks + row};
    c.out = args->blocks + (size_t)row * args->topk_blocks;
    c.from = (struct source){.score = args->score + row * args->score_stride, .size = size,
                             .n = visible / size + (visible % size != 0)};
#if LF_FAULT == 2
    c.k /= 2; // 2: half the candidate blocks
#endif
    return c;
}

static struct choice entry_choice(const struct lf_index_select_args *args, uint32_t row) {
    uint32_t visible = args->visible[row];
    struct choice c = {.k = args->topk, .n_out = args->n_selected + row};
    struct source *s = &c.from;
    c.out = args->selected + (size_t)row * args->topk;
    *s = (struct source){.score = args->score + row * args->score_stride, .n = visible};
#if LF_FAULT == 10
    s->score -= row == 5 ? args->score_stride : 0; // 10: the sixth row reads the fifth's scores
#endif
    if (visible <= args->topk)
        return c;
    if (args->mode == LF_CANDIDATES_RESTRICT) {
        struct lf_candidates candidates = {args->blocks, args->n_blocks, args->block_size,
                                           args->topk_blocks};
        s->items = lf_items_of(&candidates, row, visible);
        s->n = s->items.n;
#if LF_FAULT == 6
        s->items.blocks = NULL; // 6: the published blocks ignored
#elif LF_FAULT == 12
        s->n = args->n_blocks[row] * args->block_size; // 12: entries past what is visible
#endif
    }
#if LF_FAULT == 4
    s->n -= s->n != 0; // 4: the last candidate is skipped
#endif
    return c;
}

static struct held *room_of(const struct job *job, uint32_t worker) {
    const struct lf_index_select_args *args = &job->args;
    return lf_pool_scratch(job->pool, worker,
                           lf_index_select_scratch_bytes(args->topk, args->topk_blocks));
}

static void hold_row(const struct job *job, uint32_t row, uint32_t part, struct held *held) {
    const struct lf_index_select_args *args = &job->args;
    struct choice entries = entry_choice(args, row);
    void *rest = best_at(&held->entries, entries.k, held + 1);
    hold_part(&entries, part, job->parts, &held->entries);
    if (args->mode != LF_CANDIDATES_PUBLISH)
        return;
    struct choice blocks = block_choice(args, row);
    best_at(&held->blocks, blocks.k, rest);
    hold_part(&blocks, part, job->parts, &held->blocks);
}

static void list_row(const struct job *job, uint32_t row, const struct held *held) {
    const struct lf_index_select_args *args = &job->args;
    struct choice entries = entry_choice(args, row);
#if LF_FAULT == 1
    for (uint32_t i = 0; i < args->topk && args->visible[row] > args->topk; i++)
        held->entries.item[i] = args->visible[row] - args->topk + i; // 1: the newest entries
#elif LF_FAULT == 11
    entries.out[args->topk] = 0; // 11: a write past the row's list
#endif
    list(&entries, &held->entries);
    if (args->mode != LF_CANDIDATES_PUBLISH)
        return;
    struct choice blocks = block_choice(args, row);
    list(&blocks, &held->blocks);
#if LF_FAULT == 5
    uint32_t first = blocks.out[0]; // 5: blocks in no order
    blocks.out[0] = blocks.out[blocks.k / 2], blocks.out[blocks.k / 2] = first;
#endif
}

static void select_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct job *job = ctx;
    struct held *held = room_of(job, worker);
    hold_row(job, row, 0, held);
    list_row(job, row, held);
}

// A part's room is the scratch of one worker, whichever works on the part.
static void select_part(void *ctx, uint32_t item, uint32_t worker) {
    const struct job *job = ctx;
    (void)worker;
    hold_row(job, item / job->parts, item % job->parts, room_of(job, item));
}

static void join_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct job *job = ctx;
    struct held *held = room_of(job, row * job->parts);
    (void)worker;
    for (uint32_t part = 1; part < job->parts; part++) {
        const struct held *later = room_of(job, row * job->parts + part);
#if LF_FAULT == 13
        if (part == 1)
            continue; // 13: the second part of a row is left out
#endif
        best_join(&held->entries, &later->entries);
        if (job->args.mode == LF_CANDIDATES_PUBLISH)
            best_join(&held->blocks, &later->blocks);
    }
    best_cut(&held->entries);
    if (job->args.mode == LF_CANDIDATES_PUBLISH)
        best_cut(&held->blocks);
    list_row(job, row, held);
}

// As many as there are threads for, each of PART entries of the longest row or more.
static uint32_t parts_of_rows(const struct lf_index_select_args *args, uint32_t threads) {
    uint32_t most = 0;
    for (uint32_t row = 0; row < args->rows; row++)
        most = args->visible[row] > most ? args->visible[row] : most;
    uint32_t parts = args->rows ? threads / args->rows : 0;
    return parts < most / PART ? parts : most / PART;
}

void LF_KERNEL_NAME(lf_index_select)(struct lf_device *device,
                                     const struct lf_index_select_args *args) {
    struct lf_pool *pool = device->pool;
    struct job job = {.args = *args, .pool = pool};
    job.parts = parts_of_rows(args, lf_pool_threads(pool));
    if (job.parts > 1) {
        lf_pool_run(pool, args->rows * job.parts, select_part, &job);
        lf_pool_run(pool, args->rows, join_row, &job);
        return;
    }
    job.parts = 1;
    lf_pool_run(pool, args->rows, select_row, &job);
}
