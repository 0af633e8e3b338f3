// The arena of check.h, its numbers and its comparison.
#include "cuda/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, GUARD = 256, SHOWN = 3 };

void check_start(struct check *c, const char *text, ...) {
    va_list args;
    va_start(args, text);
    vsnprintf(c->problem, sizeof c->problem, text, args);
    va_end(args);
    memset(c->host, 0xA5, c->used);
    c->used = c->tables_used = 0;
    c->operands = 0;
}

void *check_new(struct check *c, const char *name, size_t bytes) {
    LF_ASSERT(c->operands < CHECK_OPERANDS_MAX);
    size_t at = c->used, room = (bytes + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    LF_ASSERT(at + room <= c->room);
    memset(c->host + at, 0xA5, room);
    c->operand[c->operands].name = name;
    c->operand[c->operands].at = at;
    c->operand[c->operands++].bytes = bytes;
    c->used += room;
    return c->host + at;
}

void *check_mirror(const struct check *c, const void *operand) {
    return operand ? c->device + ((const uint8_t *)operand - c->host) : NULL;
}

void *check_table(struct check *c, const void *table, size_t bytes) {
    uint8_t *at = c->tables + c->tables_used;
    size_t room = (bytes + 255) / 256 * 256;
    LF_ASSERT(room <= CHECK_TABLES_BYTES - c->tables_used);
    lf_cuda_upload(c->on.cuda, at, table, bytes);
    c->tables_used += room;
    return at;
}

void *check_pointers(struct check *c, const void *table, uint32_t n) {
    void **mirror = malloc((n + 1) * sizeof *mirror);
    LF_ASSERT(mirror);
    for (uint32_t i = 0; i < n; i++)
        mirror[i] = check_mirror(c, ((void *const *)table)[i]);
    void *at = check_table(c, mirror, n * sizeof *mirror);
    free(mirror);
    return at;
}

void check_keep(struct check *c) {
    memcpy(c->original, c->host, c->used);
}

void check_send(struct check *c) {
    lf_cuda_upload(c->on.cuda, c->device, c->original, c->used);
}

// The operand that a byte of the arena belongs to, or the one that it stands behind.
static uint32_t operand_at(const struct check *c, size_t at) {
    uint32_t i = c->operands - 1;
    while (i && c->operand[i].at > at)
        i--;
    return i;
}

static void show(const struct check *c, size_t at) {
    uint32_t i = operand_at(c, at);
    size_t in = at - c->operand[i].at, word = at & ~(size_t)3;
    uint32_t want, got;
    memcpy(&want, c->host + word, 4);
    memcpy(&got, c->back + word, 4);
    printf("    %s[%zu]%s of %zu bytes: %08x on the CPU, %08x on CUDA\n", c->operand[i].name, in,
           in < c->operand[i].bytes ? "" : " (guard)", c->operand[i].bytes, want, got);
}

void check_compare(struct check *c) {
    struct lf_error err = LF_ERROR_INIT;
    uint64_t differing = 0;
    c->problems++;
    if (lf_cuda_download(c->on.cuda, c->back, c->device, c->used, &err) != LF_OK) {
        printf("  %s: %s\n", c->problem, err.text);
        c->failed++;
        return;
    }
    c->bytes += c->used;
    bool same = !memcmp(c->host, c->back, c->used);
    for (size_t i = 0; !same && i < c->used; i++) {
        if (c->host[i] == c->back[i])
            continue;
        if (differing == 0)
            printf("  %s:\n", c->problem);
        if (differing++ < SHOWN)
            show(c, i);
    }
    if (differing)
        printf("    %llu bytes differ\n", (unsigned long long)differing);
    c->differing += differing;
    c->failed += differing != 0;
}

uint32_t check_random(struct check *c, uint32_t below) {
    return lf_check_below(&c->random, below);
}

// The upper half of a float32.
static uint16_t number(struct check *c, enum style style) {
    uint32_t bits = (uint32_t)lf_check_next(&c->random), low = style == STYLE_NORMAL ? 120 : 90;
    uint32_t range = style == STYLE_NORMAL ? 10 : 60;
    if (style == STYLE_ANY && bits % 8 == 0)
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits & 0x8000u) | (low + (bits >> 16) % range) << 7 | (bits & 0x7F));
}

void check_bf16(struct check *c, void *x, size_t n, enum style style) {
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)x)[i] = number(c, style);
}

void check_f32(struct check *c, void *x, size_t n, enum style style) {
    for (size_t i = 0; i < n; i++)
        ((uint32_t *)x)[i] = (uint32_t)number(c, style) << 16 |
                             (uint32_t)(lf_check_next(&c->random) >> 48);
}

void check_bytes(struct check *c, void *x, size_t n) {
    check_range(c, x, n, 0, 255);
}

void check_range(struct check *c, void *x, size_t n, uint8_t low, uint8_t high) {
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)x)[i] = (uint8_t)(low + check_random(c, high - low + 1u));
}

uint16_t *check_new_bf16(struct check *c, const char *name, size_t n, enum style style) {
    uint16_t *x = check_new(c, name, n * sizeof *x);
    check_bf16(c, x, n, style);
    return x;
}

float *check_new_f32(struct check *c, const char *name, size_t n, enum style style) {
    float *x = check_new(c, name, n * sizeof *x);
    check_f32(c, x, n, style);
    return x;
}
