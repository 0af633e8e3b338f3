// The seed of a request that brings none, derived from its prompt (engine.md S-13).
#include "lanefold.h"

#include "base/sha256.h"

static void add_little_endian(struct lf_sha256 *sha, uint64_t value, size_t bytes) {
    uint8_t out[8];
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> 8 * i);
    lf_sha256_add(sha, out, bytes);
}

uint64_t lf_seed_derive(const uint32_t *ids, size_t n, const uint8_t (*digests)[32],
                        size_t n_images, uint64_t salt) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, "lanefold.seed.1", 15);
    add_little_endian(&sha, salt, 8);
    add_little_endian(&sha, n, 8);
    for (size_t i = 0; i < n; i++)
        add_little_endian(&sha, ids[i], 4);
    for (size_t i = 0; i < n_images; i++)
        lf_sha256_add(&sha, digests[i], 32);
    lf_sha256_finish(&sha, digest);
    uint64_t seed = 0;
    for (size_t i = 0; i < 8; i++)
        seed |= (uint64_t)digest[i] << 8 * i;
    return seed;
}
