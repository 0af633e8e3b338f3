// The Engram token map: raw id to compressed class (model.md 6.1, checkpoint.md 3.7).
#pragma once
#include <stdint.h>
#include "base/error.h"
#include "text/tokenizer.h"

struct lf_token_map {
    uint32_t *class_of; // [size]
    uint32_t size, classes;
    char sha256[65]; // of class_of as little-endian int32
};

// Refuses a class count other than expected (0: any); for the release's vocabulary, another digest.
LF_CHECKED enum lf_status lf_token_map_build(struct lf_token_map *out,
                                             const struct lf_tokenizer *tokenizer,
                                             uint32_t classes_expected, struct lf_error *err);
// Ids of a model without a tokenizer: id modulo classes (0: one class).
LF_CHECKED enum lf_status lf_token_map_made_up(struct lf_token_map *out, uint32_t size,
                                               uint32_t classes, struct lf_error *err);
void lf_token_map_free(struct lf_token_map *map);
