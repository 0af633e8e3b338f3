#include "lane/cache_keys.h"

#include <string.h>

struct lf_rowkeys lf_rowkeys_cut(const struct lf_rowkeys *keys, uint64_t n) {
    struct lf_rowkeys cut = *keys;
    cut.n = n;
    for (cut.n_images = 0; cut.n_images < keys->n_images; cut.n_images++)
        if (keys->image[cut.n_images].start >= n)
            break;
    return cut;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t tokens_agree(const uint32_t *a, const uint32_t *b, uint64_t n) {
    uint64_t block = 1024, at = 0;
    while (n - at >= block && !memcmp(a + at, b + at, block * sizeof *a))
        at += block;
    while (at < n && a[at] == b[at])
        at++;
    return at;
}

// Rows until the k-th images of both lists differ, at most n; *same: they do not.
static uint64_t images_agree(const struct lf_rowkeys *a, const struct lf_rowkeys *b, uint32_t k,
                             uint64_t n, bool *same) {
    const struct lf_image_span *x = k < a->n_images ? &a->image[k] : NULL;
    const struct lf_image_span *y = k < b->n_images ? &b->image[k] : NULL;
    *same = false;
    if (!x || !y)
        return x || y ? least(n, x ? x->start : y->start) : n;
    if (x->start != y->start || memcmp(x->digest, y->digest, sizeof x->digest))
        return least(n, least(x->start, y->start));
    *same = x->rows == y->rows;
    return *same ? n : least(n, x->start + least(x->rows, y->rows));
}

uint64_t lf_rowkeys_agree(const struct lf_rowkeys *a, const struct lf_rowkeys *b) {
    uint64_t n = tokens_agree(a->token, b->token, least(a->n, b->n));
    bool same = true;
    for (uint32_t k = 0; same; k++)
        n = images_agree(a, b, k, n, &same);
    return n;
}

bool lf_rowkeys_lead(const struct lf_rowkeys *a, const struct lf_rowkeys *b) {
    return a->n <= b->n && lf_rowkeys_agree(a, b) == a->n;
}

bool lf_rowkeys_split_image(const struct lf_rowkeys *keys, uint64_t n) {
    for (uint32_t k = 0; k < keys->n_images; k++)
        if (keys->image[k].start < n && n - keys->image[k].start < keys->image[k].rows)
            return true;
    return false;
}

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ (word + 1)) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

void lf_rowkeys_hash_to(struct lf_rowkeys_hash *hash, const struct lf_rowkeys *keys, uint64_t n) {
    for (; hash->rows < n; hash->rows++) {
        if (hash->images < keys->n_images && keys->image[hash->images].start == hash->rows) {
            uint64_t word;
            memcpy(&word, keys->image[hash->images++].digest, sizeof word);
            hash->value = mix(hash->value, word);
        }
        hash->value = mix(hash->value, keys->token[hash->rows]);
    }
}
