// The Engram rows of a position: hashes of its look-back of token classes (model.md 6.3).
#pragma once
#include <stdint.h>
#include "format/engram_layout.h"

// A position inside an image span, or before the start of the sequence.
#define LF_CLASS_DEAD UINT32_MAX

// classes: of the positions p, p-1 .. p-N+1, as they are; rows_out: the layout's columns.
void lf_engram_rows(const struct lf_engram_layout *layout, uint32_t table, const uint32_t *classes,
                    uint32_t pad_class, uint64_t *rows_out);
