// Products of four warps played by the host: each warp's share of a step is done at once.
#pragma once
#include "kernel/linear/mma.cuh"

struct lf_shared_rows {
    const uint8_t *at;
    uint32_t k_bytes;
};

static inline lf_shared_rows lf_shared_rows_at(lf_shared_base at, uint32_t k_bytes) {
    return {at, k_bytes};
}

static inline lf_shared_rows lf_shared_rows_from(lf_shared_rows rows, uint32_t bytes) {
    return {rows.at + bytes, rows.k_bytes};
}

static inline void lf_wgmma_begin(void) {}

static inline void lf_wgmma_commit(void) {}

template <int groups>
static inline void lf_wgmma_wait(void) {}

template <int n>
static inline void lf_wgmma_settle(float (&)[n]) {}

template <int n>
static inline void lf_wgmma_read(const uint32_t (&)[n]) {}

template <int n>
static inline void lf_wgmma_bf16(float (&d)[n], const uint32_t a[4], lf_shared_rows b,
                                 bool is_sum) {
    uint16_t low[16], high[16], column[16];
    unsigned own = host_lane();
    const struct host_words *lane = host_share({{a[0], a[1], a[2], a[3], 0, 0}});
    host_gather(lane + own / 4 * 4, 0, 2, low);
    host_gather(lane + own / 4 * 4, 1, 3, high);
    for (int i = 0; i < n; i += 4)
        for (unsigned j = 0; j < 2; j++) {
            const uint8_t *row = b.at + (i * 2 + own % 4 * 2 + j) * 16;
            memcpy(column, row, 16);
            memcpy(column + 8, row + b.k_bytes, 16);
            d[i + j] = lf_mma_step(low, column, is_sum ? d[i + j] : 0);
            d[i + 2 + j] = lf_mma_step(high, column, is_sum ? d[i + 2 + j] : 0);
        }
    host_unshare();
}

typedef const uint8_t *lf_shared_tile;

static inline uint32_t lf_tile_at(uint32_t line, uint32_t eight) {
    return line * 128 + (eight ^ line % 8) * 16;
}

static inline lf_shared_tile lf_shared_tile_at(const void *at) {
    return (const uint8_t *)at;
}

static inline lf_shared_tile lf_shared_tile_from(lf_shared_tile tile, uint32_t bytes) {
    return tile + bytes;
}

// Where number i of a line is, counted from where the product begins; addresses are turned so.
static inline const uint8_t *host_of_tile(lf_shared_tile tile, unsigned line, unsigned i) {
    uintptr_t at = (uintptr_t)tile + line * 128 + i / 8 * 16;
    return (const uint8_t *)(at ^ (at >> 7 & 7) << 4) + i % 8 * 2;
}

// Sixteen numbers of a line.
static inline void host_line(lf_shared_tile tile, unsigned line, uint16_t out[16]) {
    memcpy(out, host_of_tile(tile, line, 0), 16);
    memcpy(out + 8, host_of_tile(tile, line, 8), 16);
}

static inline void lf_wgmma_along(float (&d)[32], lf_shared_tile a, lf_shared_tile b,
                                  bool is_sum) {
    uint16_t row[2][16], column[16];
    unsigned own = host_lane(), first = threadIdx.x / 32 % 4 * 16 + own / 4;
    host_line(a, first, row[0]);
    host_line(a, first + 8, row[1]);
    for (unsigned i = 0; i < 32; i++) {
        host_line(b, i / 4 * 8 + own % 4 * 2 + i % 2, column);
        d[i] = lf_mma_step(row[i % 4 / 2], column, is_sum ? d[i] : 0);
    }
}

static inline void lf_wgmma_across(float (&d)[16], const uint32_t a[4], lf_shared_tile b,
                                   bool is_sum) {
    uint16_t row[2][16], column[16];
    unsigned own = host_lane();
    const struct host_words *lane = host_share({{a[0], a[1], a[2], a[3], 0, 0}});
    host_gather(lane + own / 4 * 4, 0, 2, row[0]);
    host_gather(lane + own / 4 * 4, 1, 3, row[1]);
    for (unsigned i = 0; i < 16; i++) {
        for (unsigned k = 0; k < 16; k++)
            memcpy(&column[k], host_of_tile(b, k, i / 4 * 8 + own % 4 * 2 + i % 2), 2);
        d[i] = lf_mma_step(row[i % 4 / 2], column, is_sum ? d[i] : 0);
    }
    host_unshare();
}
