// Cuts text into the pieces that merges never cross (checkpoint.md 3.2).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The end of the piece at byte `at` < len, where the piece before ended; text is valid UTF-8.
size_t lf_pretokenize_next(const char *text, size_t at, size_t len);
// Unicode white space: \s of the patterns, and what the token map trims.
bool lf_code_is_space(uint32_t code);
