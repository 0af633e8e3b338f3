// UTF-8: decode one character, validate, replace bad sequences by the maximal-subpart rule.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

struct lf_utf8 {
    uint32_t code; // the character; undefined when !valid
    uint8_t len;   // bytes consumed, at least 1 unless the input is empty
    bool valid;
    bool cut; // not valid only because the input ends inside a character
};

// Decodes the first character; an invalid start consumes its maximal subpart.
struct lf_utf8 lf_utf8_next(const char *text, size_t len);
// The offset of the first invalid byte, or len when all is valid.
size_t lf_utf8_valid(const char *text, size_t len);
// Appends text with one U+FFFD for each maximal invalid subpart.
void lf_utf8_repair(struct lf_buffer *out, const char *text, size_t len);
// Appends one character; code must be a Unicode scalar value.
void lf_utf8_add(struct lf_buffer *out, uint32_t code);
