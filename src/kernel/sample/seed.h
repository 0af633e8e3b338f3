// The seed of a request that brings none, derived from its prompt (engine.md S-13).
#pragma once
#include <stddef.h>
#include <stdint.h>

// digests: of the n_images images, in their order; salt: the server's, two's complement.
uint64_t lf_seed_derive(const uint32_t *ids, size_t n, const uint8_t (*digests)[32],
                        size_t n_images, uint64_t salt);
