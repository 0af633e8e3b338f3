#include "kernel/embed/embed.h"

#include "kernel/launch.cuh"

enum { THREADS = 256 };

struct copies {
    struct lf_embed_args args;
    const uint16_t *table;
    uint32_t dim, ids;
    size_t stride;
};

__global__ static void embed_rows(struct copies c) {
    uint32_t column = blockIdx.y * THREADS + threadIdx.x, r = blockIdx.x;
    if (c.args.pre && column < c.args.streams)
        c.args.pre[(size_t)r * c.args.streams + column] = column ? 0.0f : 1.0f;
    if (column >= c.dim)
        return;
    uint32_t token = c.args.row ? c.args.row[r].token : c.args.id[r];
    token = token < c.ids ? token : c.args.id_none;
    uint16_t value = c.table[(size_t)token * c.dim + column];
    uint16_t *to = c.args.streams_out + r * c.stride + column;
    for (uint32_t s = 0; s < c.args.streams; s++)
        to[(size_t)s * c.dim] = value;
}

void lf_embed_cuda(struct lf_device *device, const struct lf_embed_args *args) {
    LF_ASSERT(args->table->format == LF_WEIGHT_BF16 && args->id_none < args->table->out);
    struct copies c = {*args, (const uint16_t *)args->table->data, args->table->in,
                       args->table->out, args->out_stride};
    if (!c.stride)
        c.stride = (size_t)args->streams * c.dim;
    dim3 grid(args->rows, lf_blocks(c.dim, THREADS));
    lf_cuda_launch(device, "embed", embed_rows, grid, THREADS, c);
}
