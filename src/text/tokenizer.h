// The byte-level BPE of tokenizer.json with the release's split rules (checkpoint.md 3).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

struct lf_tokenizer;

// Reads a tokenizer.json; refuses a pre-tokenizer, normalizer or model it does not know (3.1-3.4).
LF_CHECKED enum lf_status lf_tokenizer_open(struct lf_tokenizer **out, const char *path,
                                            struct lf_error *err);
// The same from text; origin names the file in errors.
LF_CHECKED enum lf_status lf_tokenizer_parse(struct lf_tokenizer **out, const char *json,
                                             size_t len, const char *origin, struct lf_error *err);
void lf_tokenizer_close(struct lf_tokenizer *tokenizer); // NULL is allowed
// Ids are 0 .. size-1, without holes.
uint32_t lf_tokenizer_size(const struct lf_tokenizer *tokenizer);
// Memory that it holds.
size_t lf_tokenizer_held_bytes(const struct lf_tokenizer *tokenizer);

// Appends the ids of valid UTF-8; match_added: added tokens in it are found, leftmost longest.
LF_CHECKED enum lf_status lf_tokenizer_encode(const struct lf_tokenizer *tokenizer,
                                              const char *text, size_t len, bool match_added,
                                              struct lf_ids *out, struct lf_error *err);
// The bytes of one token; an added token gives its content's bytes. id < size.
const char *lf_tokenizer_bytes(const struct lf_tokenizer *tokenizer, uint32_t id, size_t *len);
bool lf_tokenizer_is_added(const struct lf_tokenizer *tokenizer, uint32_t id);
// The id of an added token's content, or -1.
int64_t lf_tokenizer_added_id(const struct lf_tokenizer *tokenizer, const char *content);

// Streaming decode (3.6): appends whole characters; holds back a tail of up to three bytes.
void lf_utf8_stream_push(struct lf_utf8_stream *stream, const char *bytes, size_t len,
                         struct lf_buffer *out);
