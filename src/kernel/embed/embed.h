// embed: its arguments and its contract (model.md 4, 5).
#pragma once
#include <stdint.h>
#include "format/matrix.h"
#include "kernel/declare.h"
#include "kernel/row.h"

#define LF_EMBED_CONTRACT                                                                          \
    "X[r][i] = table[token(r)] for every stream i (model.md 4, 5). A copy: bit-equal, NaN "        \
    "payloads too. No sums."

struct lf_embed_args {
    uint32_t rows, streams;
    const struct lf_row *row;      // [rows], token
    const struct lf_matrix *table; // bf16 [vocab][dim]; dim is table->in
    uint16_t *streams_out;         // bf16 [rows][streams][dim]
};

LF_DECLARE_KERNEL(embed);
