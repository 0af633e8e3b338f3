// Cuts text into the pieces that merges never cross (checkpoint.md 3.2).
#pragma once
#include <stddef.h>

// The end of the piece at byte `at` < len, where the piece before ended; text is valid UTF-8.
size_t lf_pretokenize_next(const char *text, size_t at, size_t len);
