// SHA-256 through libcrypto.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct lf_sha256 {
    void *context;
};

void lf_sha256_init(struct lf_sha256 *sha);
void lf_sha256_add(struct lf_sha256 *sha, const void *bytes, size_t len);
// Writes the digest and releases the context.
void lf_sha256_finish(struct lf_sha256 *sha, uint8_t digest[32]);
void lf_sha256_hex(const uint8_t digest[32], char hex[65]);
// token_sha256 of engine.md 9.3: ids as consecutive little-endian 32-bit words.
void lf_sha256_ids(const uint32_t *ids, size_t len, char hex[65]);
