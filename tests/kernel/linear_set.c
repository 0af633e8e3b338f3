#include "linear_set.h"

#include <stdlib.h>
#include <string.h>
#include "base/number.h"

static uint64_t dice(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state;
}

bool linear_set_open(struct linear_set *set, size_t weight_bytes, const struct lf_kernels *k,
                     struct lf_device *device) {
    size_t scale_bytes = (size_t)LINEAR_SET_OUT * (LINEAR_SET_IN / 32);
    size_t n = (size_t)LINEAR_SET_ROWS * LINEAR_SET_IN;
    uint64_t state = 1;
    set->weight_bytes = weight_bytes;
    set->weights = aligned_alloc(4096, weight_bytes);
    set->scales = malloc(scale_bytes);
    set->x = malloc(n * sizeof *set->x);
    set->y = malloc((size_t)LINEAR_SET_ROWS * LINEAR_SET_OUT * sizeof *set->y);
    if (!set->weights || !set->scales || !set->x || !set->y)
        return false;
    for (size_t i = 0; i < weight_bytes / 8; i++) {
        uint64_t d = dice(&state), bits = (d ^ d >> 29) & 0x8F8F8F8F8F8F8F8Fu;
        ((uint64_t *)(void *)set->weights)[i] = bits | 0x3030303030303030u;
    }
    memset(set->scales, 118, scale_bytes);
    for (size_t i = 0; i < n; i++) {
        double sum = -6.0;
        for (int part = 0; part < 12; part++)
            sum += (double)(dice(&state) >> 11) * 0x1p-53;
        set->x[i] = lf_bf16_from_f32((float)sum);
    }
    struct lf_act_quant_args args = {LF_ACT_QA8, LINEAR_SET_ROWS, LINEAR_SET_IN,
                                     set->x,     LINEAR_SET_IN,   set->x,
                                     LINEAR_SET_IN};
    k->act_quant(device, &args);
    return true;
}

void linear_set_maps(const struct linear_set *set, struct lf_matrix shape, struct lf_matrix *m,
                     uint32_t n) {
    size_t bytes = lf_matrix_row_bytes(&shape) * shape.out;
    LF_ASSERT(shape.in <= LINEAR_SET_IN && shape.out <= LINEAR_SET_OUT &&
              n * bytes <= set->weight_bytes);
    for (uint32_t i = 0; i < n; i++) {
        m[i] = shape;
        m[i].data = set->weights + i * bytes;
        m[i].scale = set->scales;
    }
}

struct lf_linear_job linear_set_job(const struct linear_set *set, const struct lf_matrix *m,
                                    uint32_t rows) {
    return (struct lf_linear_job){.w = m, .rows = rows, .x = set->x, .x_stride = m->in,
                                  .y = set->y, .y_stride = m->out, .y_f32 = 1};
}

bool linear_set_format(enum lf_weight_format *out, const char *name) {
    static const struct {
        const char *name;
        enum lf_weight_format format;
    } formats[] = {{"bf16", LF_WEIGHT_BF16}, {"fp8", LF_WEIGHT_FP8}, {"mxfp4", LF_WEIGHT_MXFP4}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (!strcmp(name, formats[f].name)) {
            *out = formats[f].format;
            return true;
        }
    return false;
}
