#include "kernel/router/router.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/settle.h"

// The choice of one row while experts are read by ascending id: best first, ties to the lower id.
struct choice {
    float *key;
    uint32_t *id;
    uint32_t used, top;
};

// Whether a later expert's key goes before an earlier one's: a NaN is below every number.
static bool goes_before(float later, float earlier) {
#if LF_FAULT == 2
    return later >= earlier || (isnan(earlier) && !isnan(later)); // 2: ties to the higher id
#elif LF_FAULT == 3
    return later > earlier; // 3: a NaN that came first stays before numbers
#endif
    return later > earlier || (isnan(earlier) && !isnan(later));
}

static void offer(struct choice *c, float key, uint32_t id) {
    uint32_t at = c->used;
    while (at > 0 && goes_before(key, c->key[at - 1]))
        at--;
    if (at == c->top)
        return;
    if (c->used < c->top)
        c->used++;
    for (uint32_t k = c->used - 1; k > at; k--) {
        c->key[k] = c->key[k - 1];
        c->id[k] = c->id[k - 1];
    }
    c->key[at] = key;
    c->id[at] = id;
}

static void sort_ascending(uint32_t *id, uint32_t n) {
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && id[k - 1] > id[k]; k--) {
            uint32_t held = id[k];
            id[k] = id[k - 1];
            id[k - 1] = held;
        }
}

static float score(float logit) {
#if LF_FAULT == 4
    return lf_softplus(logit); // 4: no root
#endif
    return sqrtf(lf_softplus(logit));
}

static void route_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_router_args *a = ctx;
    const float *logits = a->logits + (size_t)row * a->experts;
    uint32_t *id = a->id + (size_t)row * a->top;
    float *weight = a->weight + (size_t)row * a->top;
    struct choice choice = {.key = weight, .id = id, .top = a->top};
    (void)worker;
    uint32_t experts = a->experts;
#if LF_FAULT == 5
    experts--; // 5: the last candidate is not offered
#endif
    for (uint32_t e = 0; e < experts; e++) {
        float bias;
        memcpy(&bias, (const char *)a->bias + 4 * (size_t)e, sizeof bias);
#if LF_FAULT == 1
        bias = 0; // 1: the bias is ignored in the choice
#endif
        offer(&choice, score(logits[e]) + bias, e);
    }
#if LF_FAULT == 6
    if (row % 16 != 15) // 6: the sixteenth row's list stays in the order of choice
#endif
    sort_ascending(id, a->top);
    float sum = 0, least = 1e-20f;
    for (uint32_t k = 0; k < a->top; k++) {
        weight[k] = score(logits[id[k]]);
#if LF_FAULT == 7
        weight[k] = weight[k] + a->bias[id[k]]; // 7: the bias in the weight as well
#endif
        sum = sum + weight[k];
    }
#if LF_FAULT == 8
    sum = 1.0f; // 8: weights are left as they are
#elif LF_FAULT == 9
    least = 0.0f; // 9: nothing is added to the sum
#endif
    for (uint32_t k = 0; k < a->top; k++)
        weight[k] = lf_f32_settle(weight[k] / (sum + least) * a->route_scale);
#if LF_FAULT == 10
    weight[a->top] = 0; // 10: a write past the row's weights
#elif LF_FAULT == 11
    for (uint32_t k = 0; k < a->top; k++)
        weight[k] /= a->route_scale; // 11: route_scale left out
#endif
}

void LF_KERNEL_NAME(lf_router)(struct lf_device *device, const struct lf_router_args *args) {
    LF_ASSERT(args->top <= args->experts);
    lf_pool_run(device->pool, args->rows, route_row, (void *)args);
}
