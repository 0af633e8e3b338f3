#include "contract/check.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include "base/error.h"
#include "base/number.h"

enum { PAGE = 4096 };

uint64_t lf_check_next(struct lf_check_rng *rng) {
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t lf_check_below(struct lf_check_rng *rng, uint32_t n) {
    return (uint32_t)((lf_check_next(rng) >> 32) * n >> 32);
}

double lf_check_uniform(struct lf_check_rng *rng) {
    return (double)(lf_check_next(rng) >> 11) * 0x1p-53;
}

double lf_check_normal(struct lf_check_rng *rng) {
    double u = 1.0 - lf_check_uniform(rng), v = lf_check_uniform(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

const char *lf_check_style_name(enum lf_check_style style) {
    static const char *const names[LF_STYLES] = {"normal", "wide", "cancelling", "sparse"};
    return names[style];
}

void lf_check_fill_f32(struct lf_check_rng *rng, enum lf_check_style style, float scale, float *x,
                       size_t n) {
    for (size_t i = 0; i < n; i++) {
        double v = lf_check_normal(rng);
        if (style == LF_STYLE_WIDE)
            v = ldexp(v, (int)lf_check_below(rng, 40) - 20);
        if (style == LF_STYLE_SPARSE && lf_check_below(rng, 16))
            v = 0.0;
        if (style == LF_STYLE_CANCELLING && i % 2)
            x[i] = -x[i - 1] * (float)(1.0 + ldexp(v, -6));
        else
            x[i] = (float)v * scale;
    }
}

void lf_check_fill_bf16(struct lf_check_rng *rng, enum lf_check_style style, float scale,
                        uint16_t *x, size_t n) {
    float pair[2];
    for (size_t i = 0; i < n; i += 2) {
        lf_check_fill_f32(rng, style, scale, pair, 2);
        x[i] = lf_bf16_from_f32(pair[0]);
        if (i + 1 < n)
            x[i + 1] = lf_bf16_from_f32(pair[1]);
    }
}

void lf_check_fill_hostile(uint32_t kind, uint16_t *x, size_t n) {
    static const uint16_t value[LF_HOSTILE_KINDS][2] = {
        {0x7FC1, 0xFFFF}, {0x7F80, 0xFF80}, {0x7F7F, 0xFF7F}, {0x0000, 0x8000}, {0x0001, 0x807F}};
    for (size_t i = 0; i < n; i++)
        x[i] = value[kind % LF_HOSTILE_KINDS][i * 7 % 11 % 2];
}

void lf_check_fill_hostile_f32(uint32_t kind, float *x, size_t n) {
    static const uint32_t value[LF_HOSTILE_KINDS][2] = {{0x7FC00001, 0xFFFFFFFF},
                                                        {0x7F800000, 0xFF800000},
                                                        {0x7F7FFFFF, 0xFF7FFFFF},
                                                        {0x00000000, 0x80000000},
                                                        {0x00000001, 0x807FFFFF}};
    for (size_t i = 0; i < n; i++)
        memcpy(&x[i], &value[kind % LF_HOSTILE_KINDS][i * 7 % 11 % 2], sizeof *x);
}

uint32_t lf_check_fill_blocks(uint32_t visible, uint32_t block_size, uint32_t *block,
                              uint32_t most) {
    uint64_t all = visible / block_size + (visible % block_size != 0);
    uint32_t n = all < most ? (uint32_t)all : most;
    for (uint32_t i = 0; i < most; i++)
        block[i] = i < n ? (uint32_t)((i + 1) * all / n - 1) : UINT32_MAX;
    return n;
}

double lf_check_gamma(double depth) {
    return depth * 0x1p-24 / (1.0 - depth * 0x1p-24);
}

double lf_check_half_bf16(double magnitude) {
    int exponent = -126;
    if (magnitude > 0x1p-126)
        exponent = ilogb(magnitude);
    return ldexp(1.0, exponent - 8);
}

static uint8_t *map_pages(size_t used) {
    uint8_t *map = mmap(NULL, used + 2 * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LF_ASSERT(map != MAP_FAILED);
    LF_ASSERT(!mprotect(map, PAGE, PROT_NONE));
    LF_ASSERT(!mprotect(map + PAGE + used, PAGE, PROT_NONE));
    return map;
}

// The bytes of the map that are neither of the unreadable pages.
static uint8_t *used_part(const struct lf_check_buffer *buffer, size_t *bytes) {
    size_t kept = buffer->space ? 0 : PAGE;
    *bytes = buffer->map_bytes - 2 * kept;
    return buffer->map + kept;
}

struct lf_check_buffer lf_check_open_at(struct lf_check_place place, size_t bytes) {
    size_t align = place.align ? place.align : 1, used;
    size_t band = place.band + (place.space ? LF_CHECK_GUARD : 0);
    struct lf_check_buffer buffer = {.bytes = bytes, .space = place.space,
                                     .guard = place.guard ? place.guard : LF_CHECK_GUARD_BYTE};
    LF_ASSERT(align <= PAGE);
    buffer.map_bytes = (LF_CHECK_GUARD + bytes + band + align + PAGE - 1) / PAGE * PAGE;
    if (place.space) {
        buffer.map = place.space->open(place.space, buffer.map_bytes);
    } else {
        buffer.map = map_pages(buffer.map_bytes);
        buffer.map_bytes += 2 * PAGE;
    }
    uint8_t *map = used_part(&buffer, &used);
    memset(map, buffer.guard, used);
    size_t at = place.front ? band + align - 1 : used - band - bytes;
    buffer.data = map + at / align * align;
    return buffer;
}

struct lf_check_buffer lf_check_open(size_t bytes, size_t tail) {
    return lf_check_open_at((struct lf_check_place){.band = tail}, bytes);
}

void lf_check_poison(struct lf_check_buffer *buffer, uint8_t pattern) {
    memset(buffer->data, pattern, buffer->bytes);
}

bool lf_check_intact(const struct lf_check_buffer *buffer, ptrdiff_t *at) {
    size_t used;
    const uint8_t *data = buffer->data, *end = data + buffer->bytes;
    const uint8_t *first = used_part(buffer, &used), *last = first + used;
    for (const uint8_t *p = data; p > first; p--)
        if (p[-1] != buffer->guard) {
            *at = p - 1 - data;
            return false;
        }
    for (const uint8_t *p = end; p < last; p++)
        if (*p != buffer->guard) {
            *at = p - data;
            return false;
        }
    return true;
}

void lf_check_close(struct lf_check_buffer *buffer) {
    if (buffer->map && buffer->space)
        buffer->space->close(buffer->space, buffer->map, buffer->map_bytes);
    else if (buffer->map)
        munmap(buffer->map, buffer->map_bytes);
    *buffer = (struct lf_check_buffer){0};
}
