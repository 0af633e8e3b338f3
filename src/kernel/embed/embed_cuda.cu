#include "kernel/embed/embed.h"

#include "kernel/launch.cuh"

enum { THREADS = 256 };

struct copies {
    struct lf_embed_args args; // row is a table of the launch
    const uint16_t *table;
    uint32_t dim;
};

__global__ static void embed_rows(struct copies c) {
    uint32_t column = blockIdx.y * THREADS + threadIdx.x;
    if (column >= c.dim)
        return;
    uint16_t value = c.table[(size_t)c.args.row[blockIdx.x].token * c.dim + column];
    uint16_t *to = c.args.streams_out + (size_t)blockIdx.x * c.args.streams * c.dim + column;
    for (uint32_t s = 0; s < c.args.streams; s++)
        to[(size_t)s * c.dim] = value;
}

void lf_embed_cuda(struct lf_cuda *cuda, const struct lf_embed_args *args) {
    LF_ASSERT(args->table->format == LF_WEIGHT_BF16);
    for (uint32_t r = 0; r < args->rows; r++)
        LF_ASSERT(args->row[r].token < args->table->out);
    struct copies c = {*args, (const uint16_t *)args->table->data, args->table->in};
    c.args.row = lf_cuda_table_of(cuda, args->row, args->rows);
    dim3 grid(args->rows, lf_blocks(c.dim, THREADS));
    lf_cuda_launch(cuda, "embed", embed_rows, grid, THREADS, c);
}
