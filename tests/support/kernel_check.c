#include "kernel_check.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include "base/number.h"

enum { PAGE = 4096, GUARD = 256, GUARD_BYTE = 0xA5 };

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

struct lf_check_buffer lf_check_open(size_t bytes, size_t tail) {
    struct lf_check_buffer buffer = {.bytes = bytes, .tail = tail};
    size_t used = (GUARD + bytes + tail + PAGE - 1) / PAGE * PAGE;
    buffer.map_bytes = used + PAGE;
    void *map = mmap(NULL, buffer.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    assert_true(map != MAP_FAILED);
    buffer.map = map;
    assert_int_equal(mprotect(buffer.map + used, PAGE, PROT_NONE), 0);
    memset(buffer.map, GUARD_BYTE, used);
    buffer.data = buffer.map + used - tail - bytes;
    return buffer;
}

void lf_check_poison(struct lf_check_buffer *buffer, uint8_t pattern) {
    memset(buffer->data, pattern, buffer->bytes);
}

void lf_check_guards(const struct lf_check_buffer *buffer, const char *what) {
    const uint8_t *data = buffer->data, *end = data + buffer->bytes;
    for (const uint8_t *p = buffer->map; p < data; p++)
        if (*p != GUARD_BYTE)
            fail_msg("%s: the byte %td before its start was written", what, data - p);
    for (size_t i = 0; i < buffer->tail; i++)
        if (end[i] != GUARD_BYTE)
            fail_msg("%s: the byte %zu past its end was written", what, i);
}

void lf_check_close(struct lf_check_buffer *buffer) {
    munmap(buffer->map, buffer->map_bytes);
    *buffer = (struct lf_check_buffer){0};
}

void lf_check_same(const char *what, const void *a, const void *b, size_t bytes) {
    const uint8_t *left = a, *right = b;
    for (size_t i = 0; i < bytes; i++)
        if (left[i] != right[i])
            fail_msg("%s: byte %zu of %zu is %02x, expected %02x", what, i, bytes, left[i],
                     right[i]);
}

double lf_check_gamma(double depth) {
    return depth * 0x1p-24 / (1.0 - depth * 0x1p-24);
}

// Half the spacing of bf16 at a magnitude.
static double half_spacing_bf16(double magnitude) {
    int exponent = -126;
    if (magnitude > 0x1p-126)
        exponent = ilogb(magnitude);
    return ldexp(1.0, exponent - 8);
}

static double ratio_of(const char *what, size_t i, double out, double ref, double limit) {
    if (!(fabs(out - ref) <= limit))
        fail_msg("%s: element %zu is %.9g, float64 says %.9g, allowed %.3g off", what, i, out, ref,
                 limit);
    return limit > 0.0 ? fabs(out - ref) / limit : 0.0;
}

double lf_check_bound_bf16(const char *what, const uint16_t *out, const double *ref,
                           const double *error, size_t n) {
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        double e = error ? error[i] : 0.0;
        double limit = e + half_spacing_bf16(fabs(ref[i]) + e);
        worst = fmax(worst, ratio_of(what, i, (double)lf_bf16_to_f32(out[i]), ref[i], limit));
    }
    return worst;
}

double lf_check_bound_f32(const char *what, const float *out, const double *ref,
                          const double *error, size_t n) {
    double worst = 0.0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, ratio_of(what, i, (double)out[i], ref[i], error ? error[i] : 0.0));
    return worst;
}

struct lf_pool *lf_check_pool(uint32_t threads) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_pool *pool;
    if (lf_pool_open(&pool, threads, 1 << 20, &err) != LF_OK)
        fail_msg("%s", err.text);
    return pool;
}

const struct lf_kernels *lf_check_kernels(enum lf_isa isa) {
    static struct lf_kernels kernels[LF_ISAS];
    struct lf_error err = LF_ERROR_INIT;
    if (!kernels[isa].linear)
        assert_int_equal(lf_kernels_init(&kernels[isa], isa, &err), LF_OK);
    return &kernels[isa];
}
