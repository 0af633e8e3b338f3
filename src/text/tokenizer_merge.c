// Merges one piece: in place when it is short, with a heap when it is long (checkpoint.md 3.4).
#include <stdlib.h>
#include <string.h>
#include "text/tokenizer_table.h"

// Up to here scanning all pairs for the lowest costs less than keeping a heap.
enum { SHORT_BYTES = 64 };

void lf_merge_scratch_free(struct lf_merge_scratch *scratch) {
    free(scratch->words);
    *scratch = (struct lf_merge_scratch){0};
}

static size_t merge_short(const struct lf_tokenizer *t, const char *bytes, size_t len,
                          uint32_t *id) {
    uint32_t merged[SHORT_BYTES]; // what the pair (i, i + 1) becomes; lower is earlier
    size_t n = len;
    for (size_t i = 0; i < n; i++)
        id[i] = t->byte_id[(unsigned char)bytes[i]];
    for (size_t i = 0; i + 1 < n; i++)
        merged[i] = lf_pair_find(t, id[i], id[i + 1]);
    for (;;) {
        uint32_t lowest = LF_TOKEN_NONE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            if (merged[i] < lowest) {
                lowest = merged[i];
                at = i;
            }
        if (lowest == LF_TOKEN_NONE)
            return n;
        n--;
        memmove(id + at + 1, id + at + 2, (n - at - 1) * sizeof *id);
        if (at + 1 < n)
            memmove(merged + at, merged + at + 1, (n - at - 1) * sizeof *merged);
        id[at] = lowest;
        if (at + 1 < n)
            merged[at] = lf_pair_find(t, lowest, id[at + 1]);
        if (at > 0)
            merged[at - 1] = lf_pair_find(t, id[at - 1], lowest);
    }
}

// A linked list over the piece's bytes and a heap of rank << 32 | place, lowest on top.
struct list {
    const struct lf_tokenizer *t;
    uint32_t *id, *merged, *before, *after; // merged: what (place, after[place]) becomes
    uint64_t *heap;
    size_t len, heap_len;
};

static void heap_sink(struct list *list, size_t at) {
    uint64_t value = list->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= list->heap_len)
            break;
        if (child + 1 < list->heap_len && list->heap[child + 1] < list->heap[child])
            child++;
        if (list->heap[child] >= value)
            break;
        list->heap[at] = list->heap[child];
        at = child;
    }
    list->heap[at] = value;
}

static void heap_push(struct list *list, uint64_t value) {
    size_t at = list->heap_len++;
    while (at > 0 && list->heap[(at - 1) / 2] > value) {
        list->heap[at] = list->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    list->heap[at] = value;
}

static void list_pair(struct list *list, uint32_t at) {
    uint32_t next = list->after[at];
    list->merged[at] =
        next < list->len ? lf_pair_find(list->t, list->id[at], list->id[next]) : LF_TOKEN_NONE;
    if (list->merged[at] != LF_TOKEN_NONE)
        heap_push(list, (uint64_t)list->merged[at] << 32 | at);
}

static void list_fill(struct list *list, const char *bytes) {
    for (size_t i = 0; i < list->len; i++) {
        list->id[i] = list->t->byte_id[(unsigned char)bytes[i]];
        list->before[i] = (uint32_t)i - 1;
        list->after[i] = (uint32_t)i + 1;
    }
    list->merged[list->len - 1] = LF_TOKEN_NONE;
    for (size_t i = 0; i + 1 < list->len; i++) {
        list->merged[i] = lf_pair_find(list->t, list->id[i], list->id[i + 1]);
        if (list->merged[i] != LF_TOKEN_NONE)
            list->heap[list->heap_len++] = (uint64_t)list->merged[i] << 32 | i;
    }
    for (size_t i = list->heap_len / 2; i-- > 0;)
        heap_sink(list, i);
}

static void list_merge(struct list *list) {
    while (list->heap_len) {
        uint64_t top = list->heap[0];
        list->heap[0] = list->heap[--list->heap_len];
        if (list->heap_len)
            heap_sink(list, 0);
        uint32_t at = (uint32_t)top;
        // A pair that changed since it was pushed is stale.
        if (list->merged[at] != top >> 32)
            continue;
        uint32_t gone = list->after[at], next = list->after[gone];
        list->id[at] = list->merged[at];
        list->merged[gone] = LF_TOKEN_NONE;
        list->after[at] = next;
        if (next < list->len)
            list->before[next] = at;
        list_pair(list, at);
        if (at > 0)
            list_pair(list, list->before[at]);
    }
}

static enum lf_status scratch_reserve(struct lf_merge_scratch *scratch, size_t words,
                                      struct lf_error *err) {
    if (words <= scratch->cap)
        return LF_OK;
    free(scratch->words);
    scratch->words = malloc(words * sizeof *scratch->words);
    scratch->cap = scratch->words ? words : 0;
    return scratch->words ? LF_OK : lf_fail(err, LF_E_MEM, "out of memory for a long piece");
}

// len is below 2^32: the caller refuses longer texts.
static enum lf_status merge_long(const struct lf_tokenizer *t, const char *bytes, size_t len,
                                 struct lf_merge_scratch *scratch, struct lf_ids *out,
                                 struct lf_error *err) {
    // Each merge takes one entry off the heap and adds at most two: it never holds 2 len.
    LF_TRY(scratch_reserve(scratch, 8 * len, err));
    uint32_t *words = scratch->words + 4 * len;
    struct list list = {.t = t,
                        .len = len,
                        .heap = (uint64_t *)(void *)scratch->words,
                        .id = words,
                        .merged = words + len,
                        .before = words + 2 * len,
                        .after = words + 3 * len};
    list_fill(&list, bytes);
    list_merge(&list);
    for (size_t i = 0; i < len; i = list.after[i])
        lf_ids_add(out, list.id[i]);
    return LF_OK;
}

enum lf_status lf_merge_piece(const struct lf_tokenizer *t, const char *bytes, size_t len,
                              struct lf_merge_scratch *scratch, struct lf_ids *out,
                              struct lf_error *err) {
    if (len > SHORT_BYTES)
        return merge_long(t, bytes, len, scratch, out, err);
    uint32_t id[SHORT_BYTES];
    lf_ids_add_all(out, id, merge_short(t, bytes, len, id));
    return LF_OK;
}
