// MXFP4 on a device: bits of eight codes lie where few steps make bf16 numbers of them.
#pragma once
#include <stdbool.h>
#include "base/number.h"

// The place of a bit. Codes 0 and 1 lie as bf16 has them, 4 and 5 turned by three, 2 and 3 by six.
LF_HOST_DEVICE static inline uint32_t lf_mxfp4_place(uint32_t code, uint32_t bit) {
    const uint32_t pair = code / 4 + code / 2 % 2 * 2, half = code % 2 * 16;
    if (pair == 3)
        return half + (bit == 0 ? 4 : bit == 3 ? 3 : bit - 1);
    return (half + (bit == 3 ? 15 : bit + 6) + 3 * pair) % 32;
}

// A word of a file as a device has it.
LF_HOST_DEVICE static inline uint32_t lf_mxfp4_turned(uint32_t word) {
    uint32_t turned = 0;
    for (uint32_t i = 0; i < 32; i++)
        turned |= (word >> i & 1) << lf_mxfp4_place(i / 4, i % 4);
    return turned;
}

// And back.
LF_HOST_DEVICE static inline uint32_t lf_mxfp4_published(uint32_t turned) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 32; i++)
        word |= (turned >> lf_mxfp4_place(i / 4, i % 4) & 1) << i;
    return word;
}

// So many bytes of codes in place, or back.
static inline void lf_mxfp4_turn(void *codes, uint64_t bytes, bool back) {
    uint32_t *word = (uint32_t *)codes;
    for (uint64_t i = 0; i < bytes / sizeof *word; i++)
        word[i] = back ? lf_mxfp4_published(word[i]) : lf_mxfp4_turned(word[i]);
}

// Codes 0 and 1, 4 and 5, 2 and 3, or 6 and 7 of a turned word; in bf16's places value * 2^-126.
LF_HOST_DEVICE static inline uint32_t lf_mxfp4_pair(uint32_t turned, uint32_t pair) {
    const uint32_t places = 0x81C081C0u;
    if (pair == 3)
        return (turned & 0x001B001Bu) * 0x1084u & places;
    return (pair ? turned >> 3 * pair | turned << (32 - 3 * pair) : turned) & places;
}
