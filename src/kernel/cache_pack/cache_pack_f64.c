#include "kernel/cache_pack/cache_pack.h"

#include "kernel/reference.h"

struct group {
    enum lf_cache_format format;
    const uint16_t *x;
    uint32_t n;
    double scale; // what values are divided by
    uint8_t byte; // its code
};

// The scale of finite values: a power of two, or for QF4s the quotient in float32 as e4m3.
static void find_scale(struct group *g) {
    int qa8 = g->format == LF_CACHE_QA8;
    double most = qa8 ? (double)1e-4f : ldexp(6.0, g->format == LF_CACHE_QF4S ? -9 : -126);
    for (uint32_t i = 0; i < g->n; i++)
        most = fmax(most, fabs(lf_ref_bf16(g->x, i)));
    if (g->format == LF_CACHE_QF4S) {
        g->byte = lf_ref_nearest((double)((float)most / 6.0f), lf_ref_e4m3, 127);
        g->scale = lf_ref_e4m3(g->byte);
    } else {
        int k = lf_ref_scale_power(most, qa8 ? 448.0 : 6.0);
        g->byte = (uint8_t)(k + 127);
        g->scale = ldexp(1.0, k);
    }
}

static uint8_t code_of(const struct group *g, uint32_t i) {
    double x = lf_ref_bf16(g->x, i), v = (double)(float)(x / g->scale);
    if (g->format == LF_CACHE_QA8)
        return (uint8_t)(lf_ref_nearest(v, lf_ref_e4m3, 127) | (signbit(x) ? 0x80 : 0));
    return (uint8_t)(lf_ref_nearest(v, lf_ref_e2m1, 8) | (signbit(x) ? 8 : 0));
}

// Codes and scales of a finite row as it is packed.
void lf_cache_pack_bytes(const struct lf_cache_pack_args *args, const uint16_t *x, uint8_t *out) {
    int qa8 = args->format == LF_CACHE_QA8;
    uint32_t n = args->format == LF_CACHE_QF4S ? 16 : 32;
    uint32_t codes = qa8 ? args->dim : args->dim / 2, scales = args->dim / n;
    for (uint32_t s = 0; s < scales; s++) {
        struct group g = {.format = args->format, .n = n, .x = x + s * n};
        find_scale(&g);
        for (uint32_t i = 0; i < n; i++)
            if (qa8)
                out[s * n + i] = code_of(&g, i);
            else if (i % 2 == 0)
                out[(s * n + i) / 2] = (uint8_t)(code_of(&g, i) + 16 * code_of(&g, i + 1));
        out[codes + s] = g.byte;
    }
}

// out [rows][dim]: what is packed.
void lf_cache_pack_f64(const struct lf_cache_pack_args *args, double *out) {
    uint32_t still = args->dim - args->rope_dim, pairs = args->rope_dim / 2;
    for (uint32_t r = 0; r < args->rows; r++, out += args->dim) {
        for (uint32_t i = 0; i < args->dim; i++)
            out[i] = lf_ref_bf16(args->x, (size_t)r * args->dim + i);
        if (args->norm)
            lf_ref_norm(out, args->dim, args->norm, (double)args->eps);
        for (uint32_t i = 0; i < pairs; i++) {
            double e = out[still + 2 * i], o = out[still + 2 * i + 1];
            double c = (double)args->cos[(size_t)r * pairs + i];
            double s = (double)args->sin[(size_t)r * pairs + i];
            out[still + 2 * i] = e * c - o * s;
            out[still + 2 * i + 1] = e * s + o * c;
        }
    }
}
