#include "kernel/attention/attention.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/attention/query_tile.h"
#include "kernel/attention/value_tile.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/settle.h"

// UNIT heads fill the tiles of both products; AHEAD packed rows are fetched before they are read.
enum { BLOCK = KEY_BLOCK, UNIT = 3, NEAR = 8 * UNIT, AHEAD = 6, LINE = 64 };

// A row's list: window positions first .. first+window-1, then n - window selected entries.
struct key_list {
    uint64_t first;
    uint32_t window, n;
    const uint32_t *selected;
};

struct job {
    struct lf_attention_args args;
    struct lf_pool *pool;
    uint32_t groups, group_heads; // few rows: the heads of a row are shared out
};

// The scratch of one item. Keys, queries and values lie in columns (key_block.h).
struct heads {
    uint32_t n, padded; // padded: up to a multiple of UNIT, with queries and weights of 0
    size_t step;        // floats from a column of queries or values to the next
    float *keys, *q, *value, *p, *m, *denominator, *factor;
};

static struct key_list list_keys(const struct lf_attention_args *args, uint32_t r) {
    const struct lf_row *row = &args->row[r];
    const struct lf_span *span = &args->span[row->lane];
    uint64_t end = row->position + 1, width = args->window;
#if LF_FAULT == 2
    width = args->window - 1; // 2: the oldest key of the window lost
#endif
    if (args->whole_span) {
        end = span->pos0 + span->rows;
        width += span->rows;
#if LF_FAULT == 16
        width -= end - row->position - 1; // 16: a draft row sees no row after it
        end = row->position + 1;
#elif LF_FAULT == 4
    } else {
        end++, width++; // 4: a key of the future read
#endif
    }
    struct key_list list = {.first = end > width ? end - width : 0};
    list.window = (uint32_t)(end - list.first);
    list.n = list.window;
    if (args->entries) {
        list.selected = args->selected + (size_t)r * args->topk;
        list.n += args->n_selected[r];
    }
#if LF_FAULT == 3
    list.n = list.window; // 3: the selected entries ignored
#endif
    return list;
}

static const uint8_t *window_row(const struct lf_attention_args *args, uint32_t lane,
                                 uint64_t position) {
    const struct lf_span *span = &args->span[lane];
    size_t row_bytes = lf_qa8_row_bytes(args->head_dim);
#if LF_FAULT == 5
    if (position > span->pos0) // 5: a stale ring entry for the call's first key
#else
    if (position >= span->pos0)
#endif
        return args->call_keys + (size_t)(span->first + (position - span->pos0)) * row_bytes;
    return args->ring[lane] + (size_t)(position & (args->ring_rows - 1)) * row_bytes;
}

static const uint8_t *entry_row(const struct lf_attention_args *args, uint32_t lane,
                                uint32_t entry) {
#if LF_FAULT == 11
    entry -= entry % LF_PAGE_ROWS == LF_PAGE_ROWS - 1; // 11: a page's last entry as the one before
#elif LF_FAULT == 15
    lane = 0; // 15: the first lane's entries for every row
#endif
    return lf_paged_row(&args->entries[lane], entry, lf_qf4s_row_bytes(args->head_dim));
}

static const uint8_t *list_row(const struct lf_attention_args *args, uint32_t lane,
                               const struct key_list *list, uint32_t at) {
    return at < list->window ? window_row(args, lane, list->first + at)
                             : entry_row(args, lane, list->selected[at - list->window]);
}

// Selected rows lie anywhere in memory: they are on their way while those before are widened.
static void fetch_row(const uint8_t *row, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(row + i);
    __builtin_prefetch(row + bytes - 1);
}

// Keys t0 .. t0+n-1 of the list to float32, zeros up to a multiple of 16; returns that number.
static uint32_t widen_block(const struct lf_attention_args *args, uint32_t lane,
                            const struct key_list *list, uint32_t t0, uint32_t n,
                            const struct heads *h) {
    uint32_t dim = args->head_dim, padded = (n + 15) / 16 * 16, bytes = lf_qf4s_row_bytes(dim);
    const uint8_t *row[BLOCK];
    for (uint32_t t = 0; t < n; t++) {
        row[t] = list_row(args, lane, list, t0 + t);
        if (t < AHEAD)
            fetch_row(row[t], bytes);
    }
    for (uint32_t t = 0; t < n; t++) {
        float *key = h->keys + t * KEY_COLUMN;
        if (t + AHEAD < n)
            fetch_row(row[t + AHEAD], bytes);
        if (t0 + t < list->window)
            key_widen_qa8(key, row[t], dim);
        else
            key_widen_qf4s(key, row[t], dim);
    }
    for (uint32_t c = 0; c < dim / KEY_COLUMN; c++)
        memset(h->keys + c * KEY_STEP + n * KEY_COLUMN, 0,
               (padded - n) * KEY_COLUMN * sizeof(float));
    return padded;
}

static float max_of(const float *z, uint32_t n, float m) {
    float lane[16];
    for (int i = 0; i < 16; i++)
        lane[i] = m;
    for (uint32_t t = 0; t < n; t += 16)
        for (int i = 0; i < 16; i++)
            lane[i] = z[t + i] > lane[i] ? z[t + i] : lane[i];
    for (int i = 0; i < 16; i++)
        m = lane[i] > m ? lane[i] : m;
    return m;
}

// Dot products z[0 .. n-1] to bf(P) in place; n is a multiple of 16, terms from `terms` on are 0.
static void weigh_head(const struct heads *h, uint32_t head, uint32_t terms, uint32_t n,
                       float scale) {
    float *z = h->p + (size_t)head * BLOCK, sum[16] = {0}, m = h->m[head];
    for (uint32_t t = 0; t < n; t++) {
        float v = z[t] * scale;
#if LF_FAULT == 10
        v = z[t]; // 10: the scale left out
#endif
        z[t] = v + (v - v); // NaN unless finite
#if LF_FAULT == 12
        z[t] = z[t] != z[t] ? -INFINITY : z[t]; // 12: a score that is not finite weighs nothing
#endif
    }
    for (uint32_t t = terms; t < n; t++)
        z[t] = -INFINITY;
    float top = max_of(z, n, m);
    for (uint32_t t = 0; t < n; t++)
        z[t] = lf_exp(z[t] - top);
    for (uint32_t t = terms; t < n; t++)
        z[t] = 0.0f;
#if LF_FAULT == 8 // 8: the denominator adds rounded weights
    for (uint32_t t = 0; t < n; t++)
        z[t] = lf_bf16_to_f32(lf_bf16_settle(z[t]));
#endif
    for (uint32_t t = 0; t < n; t += 16)
        for (int i = 0; i < 16; i++)
            sum[i] += z[t + i];
#if LF_FAULT == 7 // 7: weights not rounded to bf16
#else
    for (uint32_t t = 0; t < n; t++)
        z[t] = lf_bf16_to_f32(lf_bf16_settle(z[t]));
#endif
    h->factor[head] = lf_exp(m - top);
#if LF_FAULT == 9
    h->factor[head] = 1.0f; // 9: earlier blocks keep their old maximum
#endif
    h->denominator[head] = fmaf(h->denominator[head], h->factor[head], lf_tree16(sum));
    h->m[head] = top;
}

// NEAR heads at a time, whose weights stay in the first cache level beside a column of the keys.
static void add_values(const struct heads *h, uint32_t dim, uint32_t n) {
#if LF_FAULT == 17
    for (uint32_t i = 1; i < h->n; i += VALUE_HEADS) // 17: a tile's second head as the first
        memcpy(h->p + i * BLOCK, h->p + (i - 1) * BLOCK, n * sizeof(float));
#endif
    for (uint32_t near = 0; near < h->n; near += NEAR)
        for (uint32_t d = 0; d < dim; d += VALUE_WIDE) {
            uint32_t end = near + NEAR < h->n ? near + NEAR : h->n;
            uint32_t column = d / KEY_COLUMN, at = d % KEY_COLUMN, after = d + VALUE_WIDE;
            const float *next = h->keys + after / KEY_COLUMN * KEY_STEP + after % KEY_COLUMN;
            for (uint32_t i = near; i < end; i += VALUE_HEADS, next += VALUE_AHEAD * KEY_COLUMN)
                value_add(&(struct value_tile){
                              .p = h->p + (size_t)i * BLOCK,
                              .k = h->keys + column * KEY_STEP + at, .factor = h->factor + i,
                              .sum = h->value + column * h->step + i * KEY_COLUMN + at,
                              .next = next},
                          n / 16);
        }
}

static struct heads lay_out(const struct job *job, uint32_t first, uint32_t worker) {
    const struct lf_attention_args *args = &job->args;
    uint32_t n = args->heads - first < job->group_heads ? args->heads - first : job->group_heads;
    size_t columns = args->head_dim / KEY_COLUMN;
    float *at = lf_pool_scratch(job->pool, worker, lf_attention_scratch_bytes(n, args->head_dim));
    struct heads h = {.n = n, .padded = (n + UNIT - 1) / UNIT * UNIT, .keys = at};
    h.step = ((size_t)h.padded + 1) * KEY_COLUMN;
    h.q = h.keys + columns * KEY_STEP;
    h.value = h.q + columns * h.step;
    h.p = h.value + columns * h.step;
    h.m = h.p + (size_t)h.padded * BLOCK;
    h.denominator = h.m + h.padded;
    h.factor = h.denominator + h.padded;
    return h;
}

// Queries of row r's heads first .. into columns; nothing summed yet.
static void begin_heads(const struct lf_attention_args *args, const struct heads *h, uint32_t r,
                        uint32_t first) {
    uint32_t dim = args->head_dim;
    memset(h->q, 0, dim / KEY_COLUMN * h->step * sizeof(float));
    memset(h->value, 0, dim / KEY_COLUMN * h->step * sizeof(float));
    for (uint32_t i = 0; i < h->padded; i++) {
        h->m[i] = -1e30f;
        h->denominator[i] = h->factor[i] = 0.0f;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        const uint16_t *q = args->q + ((size_t)r * args->heads + first + i) * dim;
        float *out = h->q + i * KEY_COLUMN;
        for (uint32_t d = 0; d < dim; d += KEY_COLUMN, out += h->step)
            for (uint32_t j = 0; j < KEY_COLUMN; j++)
                out[j] = lf_bf16_to_f32(q[d + j]);
    }
}

// The sink joins the denominator; head i of the item is head `head` of the row.
static void finish_head(const struct lf_attention_args *args, const struct heads *h, uint32_t i,
                        uint32_t head, uint16_t *o) {
    uint32_t dim = args->head_dim;
    const float *value = h->value + i * KEY_COLUMN;
    float sink, total = h->denominator[i];
#if LF_FAULT == 14
    head = i; // 14: shared heads with the sinks of the first ones
#endif
    memcpy(&sink, (const char *)args->sink + sizeof sink * head, sizeof sink);
#if LF_FAULT == 1 // 1: the sink left out
#else
    total += lf_exp(sink - h->m[i]);
#endif
    for (uint32_t d = 0; d < dim; d += KEY_COLUMN, value += h->step)
        for (uint32_t j = 0; j < KEY_COLUMN; j++)
            o[d + j] = lf_bf16_settle(value[j] / total);
}

static void attend(void *ctx, uint32_t item, uint32_t worker) {
    const struct job *job = ctx;
    const struct lf_attention_args *args = &job->args;
    uint32_t r = item / job->groups, first = item % job->groups * job->group_heads;
    uint32_t dim = args->head_dim, lane = args->row[r].lane;
    struct heads h = lay_out(job, first, worker);
    struct key_list list = list_keys(args, r);
    size_t at = ((size_t)r * args->heads + first) * dim;
    begin_heads(args, &h, r, first);
    for (uint32_t done = 0; done < list.n; done += BLOCK) {
        uint32_t t0 = done;
#if LF_FAULT == 6 // 6: blocks merged from the last on in launches of more than three rows
        t0 = args->rows > 3 ? (list.n - 1) / BLOCK * BLOCK - done : done;
#endif
        uint32_t terms = list.n - t0 < BLOCK ? list.n - t0 : BLOCK;
        uint32_t n = widen_block(args, lane, &list, t0, terms, &h);
        query_block(h.p, h.q, h.step, h.n, h.keys, n, dim);
        for (uint32_t i = 0; i < h.n; i++)
            weigh_head(&h, i, terms, n, args->scale);
        add_values(&h, dim, n);
    }
    for (uint32_t i = 0; i < h.n; i++)
        finish_head(args, &h, i, first + i, args->o + at + (size_t)i * dim);
#if LF_FAULT == 13
    args->o[at + (size_t)h.n * dim] = 0; // 13: a write past the row
#endif
}

void LF_KERNEL_NAME(lf_attention)(struct lf_device *device, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0);
    if (args->rows == 0)
        return;
    struct job job = {.args = *args, .pool = device->pool, .groups = 1, .group_heads = args->heads};
    uint32_t threads = lf_pool_threads(device->pool), units = (args->heads + UNIT - 1) / UNIT;
    if (args->rows < threads) {
        uint32_t wanted = (threads + args->rows - 1) / args->rows;
        uint32_t groups = wanted < units ? wanted : units;
        job.group_heads = UNIT * ((units + groups - 1) / groups);
        job.groups = (args->heads + job.group_heads - 1) / job.group_heads;
    }
    lf_pool_run(device->pool, args->rows * job.groups, attend, &job);
}
