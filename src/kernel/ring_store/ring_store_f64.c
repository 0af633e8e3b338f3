#include "kernel/ring_store/ring_store.h"

// The newest row of the call that a lane's ring row holds afterwards; UINT32_MAX: none.
static uint32_t source_of(const struct lf_ring_store_args *args, uint32_t lane, uint32_t slot) {
    uint32_t found = UINT32_MAX;
    for (uint32_t r = 0; r < args->rows; r++) {
        const struct lf_row *row = &args->row[r];
        if (row->lane != lane || row->depth < args->depth_min)
            continue;
        if (args->span) {
            uint64_t newest = args->span[lane].pos0 + args->span[lane].rows - 1;
            if (newest - row->position >= args->kept)
                continue;
        }
        if (row->position % args->ring_rows == slot)
            found = r;
    }
    return found;
}

// out [rows][ring bytes]: the rings of lanes 0 .. rows-1 after the call, from before it.
void lf_ring_store_f64(const struct lf_ring_store_args *args, double *out) {
    size_t bytes = (args->ring_rows - 1) * args->ring_pitch + args->row_bytes;
    const uint8_t *x = args->x;
    for (uint32_t lane = 0; lane < args->rows; lane++, out += bytes) {
        for (size_t i = 0; i < bytes; i++)
            out[i] = args->ring[lane][i];
        for (uint32_t slot = 0; slot < args->ring_rows; slot++) {
            uint32_t from = source_of(args, lane, slot);
            for (uint32_t i = 0; from != UINT32_MAX && i < args->row_bytes; i++)
                out[slot * args->ring_pitch + i] = x[(size_t)from * args->row_bytes + i];
        }
    }
}
