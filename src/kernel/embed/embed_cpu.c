#include "kernel/embed/embed.h"

#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"

enum { ROWS_A_TASK = 16 };

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct lf_embed_args *args = ctx;
    size_t dim = args->table->in, bytes = dim * sizeof *args->streams_out;
    for (uint32_t r = i * ROWS_A_TASK; r < args->rows && r < (i + 1) * ROWS_A_TASK; r++) {
        LF_ASSERT(args->row[r].token < args->table->out);
        const uint8_t *from = args->table->data + args->row[r].token * bytes;
        uint16_t *to = args->streams_out + (size_t)r * args->streams * dim;
        for (uint32_t s = 0; s < args->streams; s++)
            memcpy(to + s * dim, from, bytes);
    }
}

void LF_KERNEL_NAME(lf_embed)(struct lf_pool *pool, const struct lf_embed_args *args) {
    LF_ASSERT(args->table->format == LF_WEIGHT_BF16);
    struct lf_embed_args copy = *args;
    lf_pool_run(pool, (args->rows + ROWS_A_TASK - 1) / ROWS_A_TASK, run_task, &copy);
}
