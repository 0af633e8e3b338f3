#include "lane/copy.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKS = 16, MATCH_MAX = 32, HEADS_MIN = 1024 };

static uint32_t hash(const uint32_t *id, uint32_t heads) {
    uint32_t h = 0x811C9DC5u;
    for (uint32_t i = 0; i < LF_COPY_KEY; i++)
        h = (h ^ id[i]) * 0x01000193u, h ^= h >> 15;
    return h & (heads - 1);
}

static void grow(struct lf_copy *c) {
    uint64_t cap = c->history.cap;
    uint32_t heads = HEADS_MIN;
    if (c->failed || cap <= c->cap || cap > UINT32_MAX / 2) {
        c->failed = c->failed || cap > UINT32_MAX / 2;
        return;
    }
    while (heads < cap)
        heads *= 2;
    free(c->head);
    free(c->next);
    c->head = calloc(heads, sizeof *c->head);
    c->next = calloc(cap, sizeof *c->next);
    c->failed = !c->head || !c->next;
    c->heads = heads;
    c->cap = (uint32_t)cap;
    c->indexed = 0;
}

void lf_copy_add(struct lf_copy *c, const uint32_t *id, uint64_t n) {
    if (c->failed)
        return;
    lf_ids_add_all(&c->history, id, n);
    c->failed = c->history.failed;
    grow(c);
    // The run at the very end is what a search looks for, so it enters with the next id.
    for (; !c->failed && c->indexed + LF_COPY_KEY < c->history.len; c->indexed++) {
        uint32_t after = (uint32_t)c->indexed + LF_COPY_KEY;
        uint32_t *head = &c->head[hash(c->history.id + c->indexed, c->heads)];
        c->next[after] = *head;
        *head = after + 1;
    }
}

static uint32_t match_length(const struct lf_ids *h, uint32_t after) {
    uint32_t n = 0;
    while (n < MATCH_MAX && n < after && h->id[after - 1 - n] == h->id[h->len - 1 - n])
        n++;
    return n;
}

uint32_t lf_copy_find(struct lf_copy *c, uint32_t *id, uint32_t most, uint32_t *match) {
    const struct lf_ids *h = &c->history;
    uint32_t best = 0, place = 0, at = 0;
    *match = 0;
    if (c->failed || h->len <= LF_COPY_KEY)
        return 0;
    at = c->head[hash(h->id + h->len - LF_COPY_KEY, c->heads)];
    for (int looks = 0; at && looks < LOOKS; looks++, at = c->next[at - 1]) {
        uint32_t length = match_length(h, at - 1);
        if (length > best) {
            best = length;
            place = at - 1;
        }
    }
    if (best < LF_COPY_KEY)
        return 0;
    *match = best;
    uint64_t there = h->len - place;
    uint32_t n = there < most ? (uint32_t)there : most;
    memcpy(id, h->id + place, sizeof *id * n);
    return n;
}

void lf_copy_free(struct lf_copy *c) {
    lf_ids_free(&c->history);
    free(c->head);
    free(c->next);
    *c = (struct lf_copy){0};
}
