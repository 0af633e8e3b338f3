#include "model/rope_table.h"

#include <math.h>
#include "base/error.h"
#include "kernel/isa.h"

// The pair whose wavelength turns `turns` times over the original context.
static double yarn_pair(double dim, double original, double turns, double base) {
    return dim * log(original / (2.0 * M_PI * turns)) / (2.0 * log(base));
}

static void yarn_blend(struct lf_rope_table *table, const struct lf_topology *topology) {
    const struct lf_rope_scaling *scaling = &topology->rope_scaling;
    double dim = (double)topology->rope_dim, base = topology->compress_rope_theta;
    double original = (double)scaling->original_positions;
    double low = floor(yarn_pair(dim, original, scaling->beta_fast, base));
    double high = ceil(yarn_pair(dim, original, scaling->beta_slow, base));
    low = low < 0.0 ? 0.0 : low;
    high = high > dim - 1.0 ? dim - 1.0 : high;
    if (low == high)
        high += 0.001;
    for (uint32_t i = 0; i < table->pairs; i++) {
        float f = table->freq[i], ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        float smooth = 1.0f - ramp;
        table->freq[i] = (f / (float)scaling->factor) * (1.0f - smooth) + f * smooth;
    }
}

void lf_rope_table_init(struct lf_rope_table *out, const struct lf_topology *topology,
                        bool compressed) {
    double base = compressed ? topology->compress_rope_theta : topology->rope_theta;
    out->pairs = topology->rope_dim / 2;
    LF_ASSERT(out->pairs <= LF_ROPE_PAIRS_MAX);
    for (uint32_t i = 0; i < out->pairs; i++) {
        float exponent = (float)(2 * i) / (float)topology->rope_dim;
        out->freq[i] = 1.0f / (float)pow(base, (double)exponent);
    }
#if LF_FAULT == 1
    return; // 1: no YaRN, the compressed base unscaled
#endif
    if (compressed && topology->rope_scaling.present)
        yarn_blend(out, topology);
}

void lf_rope_rows(const struct lf_rope_table *table, const uint64_t *positions, size_t n,
                  float *cos_rows, float *sin_rows) {
    for (size_t row = 0; row < n; row++)
        for (uint32_t i = 0; i < table->pairs; i++) {
            float angle = (float)positions[row] * table->freq[i];
            *cos_rows++ = (float)cos((double)angle);
            *sin_rows++ = (float)sin((double)angle);
        }
}
