#include "kernel/attention/attention.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/attention/value_tile.h"
#include "kernel/cache_row.h"
#include "kernel/dots.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/settle.h"

// UNIT heads fill the tiles of both products.
enum { BLOCK = 64, UNIT = 6 };

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

// The scratch of one item; rows of keys and q are padded, so that columns do not share cache sets.
struct heads {
    uint32_t n;
    size_t stride;
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

// Keys t0 .. t0+n-1 of the list to float32, zeros up to a multiple of 16; returns that number.
static uint32_t widen_block(const struct lf_attention_args *args, uint32_t lane,
                            const struct key_list *list, uint32_t t0, uint32_t n,
                            const struct heads *h) {
    uint32_t dim = args->head_dim, padded = (n + 15) / 16 * 16;
    for (uint32_t t = 0; t < n; t++) {
        float *key = h->keys + t * h->stride;
        uint32_t at = t0 + t;
        if (at < list->window)
            lf_qa8_widen(key, window_row(args, lane, list->first + at), dim);
        else
            lf_qf4s_widen(key, entry_row(args, lane, list->selected[at - list->window]), dim);
    }
    for (uint32_t t = n; t < padded; t++)
        memset(h->keys + t * h->stride, 0, dim * sizeof(float));
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

static void add_values(const struct heads *h, uint32_t dim, uint32_t n) {
    float unused[16] = {0};
    for (uint32_t d = 0; d < dim; d += 16)
        for (uint32_t i = 0; i < h->n; i += 2) {
            struct value_head pair[2];
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t head = i + j < h->n ? i + j : i;
                float *sum = i + j < h->n ? h->value + (size_t)head * dim + d : unused;
                pair[j] = (struct value_head){h->p + (size_t)head * BLOCK, sum, h->factor[head]};
            }
#if LF_FAULT == 17
            pair[1].p = pair[0].p; // 17: the second head of a pair with the first's weights
#endif
            value_pair(pair, h->keys + d, h->stride, n / 16);
        }
}

static struct heads lay_out(const struct job *job, uint32_t first, uint32_t worker) {
    const struct lf_attention_args *args = &job->args;
    uint32_t n = args->heads - first < job->group_heads ? args->heads - first : job->group_heads;
    size_t dim = args->head_dim, stride = dim + 16;
    float *at = lf_pool_scratch(job->pool, worker, lf_attention_scratch_bytes(n, args->head_dim));
    struct heads h = {.n = n, .stride = stride, .keys = at};
    h.q = h.keys + BLOCK * stride;
    h.value = h.q + n * stride;
    h.p = h.value + n * dim;
    h.m = h.p + (size_t)n * BLOCK;
    h.denominator = h.m + n;
    h.factor = h.denominator + n;
    return h;
}

// The sink joins the denominator; head i of the item is head `head` of the row.
static void finish_head(const struct lf_attention_args *args, const struct heads *h, uint32_t i,
                        uint32_t head, uint16_t *o) {
    uint32_t dim = args->head_dim;
    const float *value = h->value + (size_t)i * dim;
    float sink, total = h->denominator[i];
#if LF_FAULT == 14
    head = i; // 14: shared heads with the sinks of the first ones
#endif
    memcpy(&sink, (const char *)args->sink + sizeof sink * head, sizeof sink);
#if LF_FAULT == 1 // 1: the sink left out
#else
    total += lf_exp(sink - h->m[i]);
#endif
    for (uint32_t d = 0; d < dim; d++)
        o[d] = lf_bf16_settle(value[d] / total);
}

static void attend(void *ctx, uint32_t item, uint32_t worker) {
    const struct job *job = ctx;
    const struct lf_attention_args *args = &job->args;
    uint32_t r = item / job->groups, first = item % job->groups * job->group_heads;
    uint32_t dim = args->head_dim, lane = args->row[r].lane;
    struct heads h = lay_out(job, first, worker);
    struct key_list list = list_keys(args, r);
    size_t at = ((size_t)r * args->heads + first) * dim;
    memset(h.value, 0, (size_t)h.n * dim * sizeof(float));
    for (uint32_t i = 0; i < h.n; i++) {
        h.m[i] = -1e30f;
        h.denominator[i] = 0.0f;
        for (uint32_t d = 0; d < dim; d++)
            h.q[i * h.stride + d] = lf_bf16_to_f32(args->q[at + (size_t)i * dim + d]);
    }
    struct lf_rows_f32 q = {h.q, h.stride}, keys = {h.keys, h.stride};
    for (uint32_t done = 0; done < list.n; done += BLOCK) {
        uint32_t t0 = done;
#if LF_FAULT == 6 // 6: blocks merged from the last on in launches of more than three rows
        t0 = args->rows > 3 ? (list.n - 1) / BLOCK * BLOCK - done : done;
#endif
        uint32_t terms = list.n - t0 < BLOCK ? list.n - t0 : BLOCK;
        uint32_t n = widen_block(args, lane, &list, t0, terms, &h);
        lf_dots_block(h.p, BLOCK, q, h.n, keys, n, dim);
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

void LF_KERNEL_NAME(lf_attention)(struct lf_pool *pool, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0);
    if (args->rows == 0)
        return;
    struct job job = {.args = *args, .pool = pool, .groups = 1, .group_heads = args->heads};
    uint32_t threads = lf_pool_threads(pool), units = (args->heads + UNIT - 1) / UNIT;
    if (args->rows < threads) {
        uint32_t wanted = (threads + args->rows - 1) / args->rows;
        uint32_t groups = wanted < units ? wanted : units;
        job.group_heads = UNIT * ((units + groups - 1) / groups);
        job.groups = (args->heads + job.group_heads - 1) / job.group_heads;
    }
    lf_pool_run(pool, args->rows * job.groups, attend, &job);
}
