#include "base/sha256.h"

#include <openssl/evp.h>
#include "base/error.h"

void lf_sha256_init(struct lf_sha256 *sha) {
    sha->context = EVP_MD_CTX_new();
    LF_ASSERT(sha->context && EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) == 1);
}

void lf_sha256_add(struct lf_sha256 *sha, const void *bytes, size_t len) {
    LF_ASSERT(EVP_DigestUpdate(sha->context, bytes, len) == 1);
}

void lf_sha256_finish(struct lf_sha256 *sha, uint8_t digest[32]) {
    LF_ASSERT(EVP_DigestFinal_ex(sha->context, digest, NULL) == 1);
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

void lf_sha256_hex(const uint8_t digest[32], char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = 0;
}

void lf_sha256_ids(const uint32_t *ids, size_t len, char hex[65]) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    lf_sha256_init(&sha);
    for (size_t i = 0; i < len; i++) {
        uint8_t word[4] = {(uint8_t)ids[i], (uint8_t)(ids[i] >> 8), (uint8_t)(ids[i] >> 16),
                           (uint8_t)(ids[i] >> 24)};
        lf_sha256_add(&sha, word, sizeof word);
    }
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
}
