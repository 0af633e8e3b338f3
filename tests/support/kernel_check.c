#include "kernel_check.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"

void lf_check_guards(const struct lf_check_buffer *buffer, const char *what) {
    ptrdiff_t at;
    if (!lf_check_intact(buffer, &at))
        fail_msg("%s: byte %td of %zu was written", what, at, buffer->bytes);
}

void lf_check_same(const char *what, const void *a, const void *b, size_t bytes) {
    const uint8_t *left = a, *right = b;
    for (size_t i = 0; i < bytes; i++)
        if (left[i] != right[i])
            fail_msg("%s: byte %zu of %zu is %02x, expected %02x", what, i, bytes, left[i],
                     right[i]);
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
        double limit = e + lf_check_half_bf16(fabs(ref[i]) + e);
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

struct lf_device *lf_check_device(uint32_t threads) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    if (lf_pool_open(&device->pool, threads, 4 << 20, &err) != LF_OK)
        fail_msg("%s", err.text);
    return device;
}

void lf_check_device_close(struct lf_device *device) {
    lf_pool_close(device->pool);
    free(device);
}

const struct lf_kernels *lf_check_kernels(enum lf_isa isa) {
    static struct lf_kernels kernels[LF_ISAS];
    struct lf_error err = LF_ERROR_INIT;
    if (!kernels[isa].linear)
        assert_int_equal(lf_kernels_init(&kernels[isa], isa, &err), LF_OK);
    return &kernels[isa];
}
