#include "format/matrix.h"

#include "base/error.h"

size_t lf_matrix_row_bytes(const struct lf_matrix *m) {
    switch (m->format) {
    case LF_WEIGHT_BF16:
    case LF_WEIGHT_F16:
        return (size_t)m->in * 2;
    case LF_WEIGHT_F32:
        return (size_t)m->in * 4;
    case LF_WEIGHT_FP8:
        return m->in;
    case LF_WEIGHT_MXFP4:
        return m->in / 2;
    }
    LF_ASSERT(!"a weight format");
    return 0;
}

struct lf_matrix lf_matrix_rows(const struct lf_matrix *m, uint32_t first, uint32_t rows) {
    LF_ASSERT(first <= m->out && rows <= m->out - first);
    LF_ASSERT(m->format != LF_WEIGHT_FP8 || first % 32 == 0);
    struct lf_matrix part = *m;
    part.out = rows;
    part.data += first * lf_matrix_row_bytes(m);
    if (m->format == LF_WEIGHT_FP8)
        part.scale += (size_t)(first / 32) * (m->in / 32);
    if (m->format == LF_WEIGHT_MXFP4)
        part.scale += (size_t)first * (m->in / 32);
    return part;
}
