#include "kernel/embed/embed.h"

#include "kernel/reference.h"

// out: a row's [streams][dim], then its [streams] of pre where it is wanted.
void lf_embed_f64(const struct lf_embed_args *args, double *out) {
    uint32_t dim = args->table->in;
    for (uint32_t r = 0; r < args->rows; r++) {
        size_t id = args->row ? args->row[r].token : args->id[r];
        if (id >= args->table->out)
            id = args->id_none;
        for (uint32_t s = 0; s < args->streams; s++)
            for (uint32_t k = 0; k < dim; k++)
                *out++ = lf_ref_bf16(args->table->data, id * dim + k);
        for (uint32_t s = 0; args->pre && s < args->streams; s++)
            *out++ = s == 0;
    }
}
