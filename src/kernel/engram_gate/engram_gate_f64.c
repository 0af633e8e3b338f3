#include "kernel/engram_gate/engram_gate.h"

#include "kernel/reference.h"

// The gate of stream i of one row (model.md 6.4 step 4).
static double gate_of(const struct lf_engram_gate_args *args, size_t row, size_t i) {
    size_t dim = args->dim, s = args->streams;
    double dot = 0, x2 = 0, key2 = 0;
    for (size_t d = 0; d < dim; d++) {
        double x = lf_ref_bf16(args->x, (row * s + i) * dim + d);
        double key = lf_ref_bf16(args->kv, (row * (s + 1) + i) * dim + d);
        dot += x * lf_ref_bf16(args->q_weight, i * dim + d) *
               lf_ref_bf16(args->k_weight, i * dim + d) * key;
        x2 += x * x;
        key2 += key * key;
    }
    double n = (double)dim, eps = (double)args->eps;
    dot *= 1.0 / sqrt(x2 / n + eps) * (1.0 / sqrt(key2 / n + eps)) / sqrt(n);
    if (isnan(dot))
        return dot;
    return 1.0 / (1.0 + exp(-copysign(sqrt(fmax(fabs(dot), 1e-6)), dot)));
}

// out [rows][streams*dim + streams]: the new streams of a row, then its gates.
void lf_engram_gate_f64(const struct lf_engram_gate_args *args, double *out) {
    size_t dim = args->dim, s = args->streams;
    for (size_t row = 0; row < args->rows; row++, out += s * (dim + 1))
        for (size_t i = 0; i < s; i++) {
            double gate = args->dead && args->dead[row] ? 0 : gate_of(args, row, i);
            out[s * dim + i] = gate;
            for (size_t d = 0; d < dim; d++)
                out[i * dim + d] = lf_ref_bf16(args->x, (row * s + i) * dim + d) +
                                   gate * lf_ref_bf16(args->kv, (row * (s + 1) + s) * dim + d);
        }
}
