#include "kernel/embed/embed.h"

#include <string.h>

// out [rows][streams][dim]
void lf_embed_f64(const struct lf_embed_args *args, double *out) {
    uint32_t dim = args->table->in;
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t s = 0; s < args->streams; s++)
            for (uint32_t k = 0; k < dim; k++) {
                size_t at = ((size_t)args->row[r].token * dim + k) * 2;
                const uint8_t *p = args->table->data + at;
                uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
                float value;
                memcpy(&value, &bits, sizeof value);
                *out++ = (double)value;
            }
}
