#include "kernel/hc_mix/hc_mix.h"

#include "kernel/reference.h"

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void softmax_rows(double *c, size_t s, double eps) {
    for (double *row = c; row < c + s * s; row += s) {
        double max = row[0], sum = 0;
        for (size_t j = 1; j < s; j++)
            max = fmax(max, row[j]);
        for (size_t j = 0; j < s; j++)
            sum += row[j] = exp(row[j] - max);
        for (size_t j = 0; j < s; j++)
            row[j] = row[j] / sum + eps;
    }
}

static void divide_rows(double *c, size_t s, double eps) {
    for (size_t i = 0; i < s; i++) {
        double sum = eps;
        for (size_t j = 0; j < s; j++)
            sum += c[i * s + j];
        for (size_t j = 0; j < s; j++)
            c[i * s + j] /= sum;
    }
}

static void divide_columns(double *c, size_t s, double eps) {
    for (size_t j = 0; j < s; j++) {
        double sum = eps;
        for (size_t i = 0; i < s; i++)
            sum += c[i * s + j];
        for (size_t i = 0; i < s; i++)
            c[i * s + j] /= sum;
    }
}

// out [rows][streams*(2+streams)]: pre, post, comb of each row.
void lf_hc_mix_f64(const struct lf_hc_mix_args *args, double *out) {
    size_t s = args->streams, n = s * args->dim, outs = s * (2 + s);
    double eps = (double)args->hc_eps;
    for (size_t row = 0; row < args->rows; row++) {
        double squares = 0, *line = out + row * outs;
        for (size_t k = 0; k < n; k++)
            squares += pow(lf_ref_bf16(args->x, row * n + k), 2);
        double rho = 1.0 / sqrt(squares / (double)n + (double)args->norm_eps);
        for (size_t o = 0; o < outs; o++) {
            double dot = 0, scale = lf_ref_f32(args->scale, o < s ? 0 : o < 2 * s ? 1 : 2);
            for (size_t k = 0; k < n; k++)
                dot += lf_ref_f32(args->fn, o * n + k) * lf_ref_bf16(args->x, row * n + k);
            double m = dot * rho * scale + lf_ref_f32(args->base, o);
            line[o] = o < s ? sigmoid(m) + eps : o < 2 * s ? 2 * sigmoid(m) : m;
        }
        softmax_rows(line + 2 * s, s, eps);
        for (uint32_t iter = 0; iter < args->sinkhorn_iters; iter++) {
            if (iter > 0)
                divide_rows(line + 2 * s, s, eps);
            divide_columns(line + 2 * s, s, eps);
        }
    }
}
