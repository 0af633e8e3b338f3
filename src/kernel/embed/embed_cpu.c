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
        uint32_t token = args->row[r].token;
#if LF_FAULT == 1
        token -= token == args->table->out - 1; // 1: the last id reads the row before it
#elif LF_FAULT == 5
        token = args->row[r - (r % 16 == 15)].token; // 5: a task's last row takes another's id
#endif
        const uint8_t *from = args->table->data + token * bytes;
        uint16_t *to = args->streams_out + (size_t)r * args->streams * dim;
        for (uint32_t s = 0; s < args->streams; s++)
#if LF_FAULT == 2
            memcpy(to + s * dim, from, bytes - 2); // 2: the last column is not copied
#elif LF_FAULT == 4
            memcpy(to + s * dim, from + (s && token ? -bytes : 0), bytes); // 4: another id's
#else
            memcpy(to + s * dim, from, bytes);
#endif
#if LF_FAULT == 3
        to[args->streams * dim] = 0; // 3: a write past the last stream
#endif
    }
}

void LF_KERNEL_NAME(lf_embed)(struct lf_pool *pool, const struct lf_embed_args *args) {
    LF_ASSERT(args->table->format == LF_WEIGHT_BF16);
    struct lf_embed_args copy = *args;
    lf_pool_run(pool, (args->rows + ROWS_A_TASK - 1) / ROWS_A_TASK, run_task, &copy);
}
