#include "kernel/ring_store/ring_store.h"

#include <stdbool.h>
#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"

enum { ROWS_A_TASK = 16 };

static bool is_stored(const struct lf_ring_store_args *a, const struct lf_row *row) {
#if LF_FAULT == 2
    return row->depth >= a->depth_min; // 2: rows that later ones overwrite are stored
#elif LF_FAULT == 4
    a = &(struct lf_ring_store_args){.span = a->span, .kept = a->kept}; // 4: rows of any depth
#endif
    if (row->depth < a->depth_min)
        return false;
    if (!a->span)
        return true;
    uint64_t end = a->span[row->lane].pos0 + a->span[row->lane].rows;
#if LF_FAULT == 9
    return row->position + a->kept > end; // 9: the oldest row that a window reads is left out
#elif LF_FAULT == 10
    return (uint32_t)(row->position + a->kept) >= (uint32_t)end; // 10: positions in 32 bits
#endif
    return row->position + a->kept >= end;
}

static void store_row(const struct lf_ring_store_args *a, uint32_t r) {
    const struct lf_row *row = &a->row[r];
    uint64_t position = row->position;
    uint32_t lane = row->lane, from = r, bytes = a->row_bytes;
#if LF_FAULT == 1
    position++; // 1: written one position late
#elif LF_FAULT == 3
    lane -= lane > 0; // 3: the neighbour's lane
#elif LF_FAULT == 5
    bytes--; // 5: the last byte is not copied
#elif LF_FAULT == 6
    a->ring[lane][position % a->ring_rows * a->ring_pitch + bytes] = 0; // 6: a write past the row
#elif LF_FAULT == 7
    from = row->index; // 7: the row at its place in the call, dropped rows counted
#elif LF_FAULT == 8
    bytes = r == 16 ? 0 : bytes; // 8: the first row of the second task is not stored
#endif
    memcpy(a->ring[lane] + position % a->ring_rows * a->ring_pitch,
           (const uint8_t *)a->x + (size_t)from * a->row_bytes, bytes);
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct lf_ring_store_args *a = ctx;
    (void)worker;
    for (uint32_t r = i * ROWS_A_TASK; r < a->rows && r < (i + 1) * ROWS_A_TASK; r++)
        if (is_stored(a, &a->row[r]))
            store_row(a, r);
}

void LF_KERNEL_NAME(lf_ring_store)(struct lf_device *device,
                                   const struct lf_ring_store_args *args) {
    LF_ASSERT(args->kept <= args->ring_rows && args->row_bytes <= args->ring_pitch);
    lf_pool_run(device->pool, (args->rows + ROWS_A_TASK - 1) / ROWS_A_TASK, run_task, (void *)args);
}
