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
    lf_take_turn();
    uint32_t column = blockIdx.y * THREADS + threadIdx.x, r = blockIdx.x;
    float mix = column ? 0.0f : 1.0f;
    LF_CONTROL(7, mix = 1.0f;) // 7: every stream mixed alike
    if (c.args.pre && column < c.args.streams)
        c.args.pre[(size_t)r * c.args.streams + column] = mix;
    if (column >= c.dim)
        return;
    uint32_t token = c.args.row ? c.args.row[r].token : c.args.id[r];
    LF_CONTROL(5, if (r == 15) token = c.args.row ? c.args.row[14].token : c.args.id[14];)
    LF_CONTROL(6, token = token < c.ids ? token : 0;) // 6: no id reads the first row
    token = token < c.ids ? token : c.args.id_none;
    LF_CONTROL(1, token -= token + 1 == c.ids;) // 1: the last id reads the row before it
    LF_CONTROL(2, if (column + 1 == c.dim) return;) // 2: the last column is not copied
    uint16_t value = c.table[(size_t)token * c.dim + column];
    uint16_t *to = c.args.streams_out + r * c.stride + column;
    LF_CONTROL(3, c.args.streams_out[r * c.stride + (size_t)c.args.streams * c.dim] = 0;)
    for (uint32_t s = 0; s < c.args.streams; s++)
        to[(size_t)s * c.dim] = value;
    LF_CONTROL(4, if (c.args.streams > 1) to[c.dim] = c.table[(token + 1) % c.ids * c.dim +
               column];)
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
