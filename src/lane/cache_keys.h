// Row keys: what two prompts must share, row by row, for one state to serve both (engine.md C-1).
#pragma once
#include <stdbool.h>
#include <stdint.h>

// Rows of one image. The key of each is the image's digest and the row's offset in the span.
struct lf_image_span {
    uint64_t start;
    uint32_t rows;
    uint8_t digest[32];
};

// n rows: token ids, and which of them are image rows whatever id stands there.
struct lf_rowkeys {
    uint64_t n;
    const uint32_t *token;
    const struct lf_image_span *image; // ascending, disjoint
    uint32_t n_images;
};

// The first n rows of keys; a cut inside an image keeps the span whole.
struct lf_rowkeys lf_rowkeys_cut(const struct lf_rowkeys *keys, uint64_t n);
// How many leading rows have equal keys.
uint64_t lf_rowkeys_agree(const struct lf_rowkeys *a, const struct lf_rowkeys *b);
// Whether every key of a is that of the same row of b.
bool lf_rowkeys_lead(const struct lf_rowkeys *a, const struct lf_rowkeys *b);
// Whether row n-1 and row n belong to one image.
bool lf_rowkeys_split_image(const struct lf_rowkeys *keys, uint64_t n);

// A hash of the rows so far, advanced row by row; it indexes, it never decides (C-2).
struct lf_rowkeys_hash {
    uint64_t value, rows;
    uint32_t images;
};
void lf_rowkeys_hash_to(struct lf_rowkeys_hash *hash, const struct lf_rowkeys *keys, uint64_t n);
