// embed: its arguments and its contract (model.md 4, 5).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "format/matrix.h"
#include "kernel/declare.h"
#include "kernel/row.h"

#define LF_EMBED_CONTRACT                                                                          \
    "X[r][i] = table[token(r)] for every stream i (model.md 4, 5). A copy: bit-equal, NaN "        \
    "payloads too; an id that is no row of the table counts as id_none. pre[r] = (1, 0, .. 0): "   \
    "the first layer's input is the embedding itself. No sums; nothing between rows is written."

struct lf_embed_args {
    uint32_t rows, streams;
    const struct lf_row *row; // [rows], token; NULL: the ids are in id
    const uint32_t *id;       // [rows] as sample leaves them, LF_SAMPLE_NONE among them
    uint32_t id_none;         // below the table's rows
    const struct lf_matrix *table; // bf16 [vocab][dim]; dim is table->in
    uint16_t *streams_out;         // bf16 [rows][streams][dim]
    size_t out_stride; // elements from row to row; 0: streams*dim
    float *pre;        // [rows][streams]; NULL: not wanted
};

LF_DECLARE_KERNEL(embed);
