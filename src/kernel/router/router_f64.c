#include "kernel/router/router.h"

#include "kernel/reference.h"

static double score(double logit) {
    return sqrt(logit > 20 ? logit : log1p(exp(logit)));
}

// Whether a is chosen before b; a NaN is below every number, equal keys go to the lower id.
static int before(double key_a, size_t a, double key_b, size_t b) {
    if (isnan(key_a) || isnan(key_b))
        return isnan(key_a) == isnan(key_b) ? a < b : isnan(key_b);
    return key_a == key_b ? a < b : key_a > key_b;
}

static double key_of(const struct lf_router_args *args, size_t row, size_t e) {
    return score(lf_ref_f32(args->logits, row * args->experts + e)) + lf_ref_f32(args->bias, e);
}

// How many experts are chosen before expert e.
static size_t rank_of(const struct lf_router_args *args, size_t row, size_t e) {
    double key = key_of(args, row, e);
    size_t rank = 0;
    for (size_t other = 0; other < args->experts; other++)
        rank += other != e && before(key_of(args, row, other), other, key, e);
    return rank;
}

// out [rows][2*top + 1]: ids ascending, weights, the key's margin to the first one not chosen.
void lf_router_f64(const struct lf_router_args *args, double *out) {
    size_t top = args->top;
    for (size_t row = 0; row < args->rows; row++) {
        double *line = out + row * (2 * top + 1), sum = 0, last = INFINITY, next = -INFINITY;
        size_t found = 0;
        for (size_t e = 0; e < args->experts; e++) {
            size_t rank = rank_of(args, row, e);
            if (rank == top)
                next = key_of(args, row, e);
            if (rank == top - 1)
                last = key_of(args, row, e);
            if (rank >= top)
                continue;
            line[found] = (double)e;
            line[top + found] = score(lf_ref_f32(args->logits, row * args->experts + e));
            sum += line[top + found++];
        }
        for (size_t k = 0; k < top; k++)
            line[top + k] = line[top + k] / (sum + 1e-20) * (double)args->route_scale;
        line[2 * top] = last - next;
    }
}
