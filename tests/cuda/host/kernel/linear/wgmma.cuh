// Products of four warps played by the host: each warp's share of a step is done at once.
#pragma once
#include "kernel/linear/mma.cuh"

struct lf_shared_rows {
    const uint8_t *at;
    uint32_t k_bytes;
};

static inline lf_shared_rows lf_shared_rows_at(const void *at, uint32_t k_bytes) {
    return {(const uint8_t *)at, k_bytes};
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
