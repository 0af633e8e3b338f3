#include "kernel/embed/embed.h"

#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"

enum { ROWS_A_TASK = 16 };

static uint32_t token_of(const struct lf_embed_args *args, uint32_t r) {
    uint32_t ids = args->table->out;
#if LF_FAULT == 5
    r -= r % 16 == 15; // 5: a task's last row takes another's id
#endif
    uint32_t token = args->row ? args->row[r].token : args->id[r];
#if LF_FAULT == 6
    token = token < ids ? token : 0; // 6: no id reads the first row
#endif
    token = token < ids ? token : args->id_none;
#if LF_FAULT == 1
    token -= token == ids - 1; // 1: the last id reads the row before it
#endif
    return token;
}

static void copy_row(const struct lf_embed_args *args, uint32_t r) {
    size_t dim = args->table->in, bytes = dim * sizeof *args->streams_out;
    size_t stride = args->out_stride ? args->out_stride : args->streams * dim;
    uint32_t token = token_of(args, r);
    const uint8_t *from = args->table->data + token * bytes;
    uint16_t *to = args->streams_out + r * stride;
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
    for (uint32_t s = 0; args->pre && s < args->streams; s++)
#if LF_FAULT == 7
        args->pre[(size_t)r * args->streams + s] = 1.0f / (float)args->streams; // 7: the mean
#else
        args->pre[(size_t)r * args->streams + s] = s ? 0.0f : 1.0f;
#endif
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct lf_embed_args *args = ctx;
    (void)worker;
    for (uint32_t r = i * ROWS_A_TASK; r < args->rows && r < (i + 1) * ROWS_A_TASK; r++)
        copy_row(args, r);
}

void LF_KERNEL_NAME(lf_embed)(struct lf_device *device, const struct lf_embed_args *args) {
    LF_ASSERT(args->table->format == LF_WEIGHT_BF16 && args->id_none < args->table->out);
    lf_pool_run(device->pool, (args->rows + ROWS_A_TASK - 1) / ROWS_A_TASK, run_task, (void *)args);
}
