#include "exact.h"

#include <stdlib.h>
#include <string.h>
#include "kernel_check.h"

enum { ROWS = 48, HIDDEN = 256, EXPERTS_MAX = 64 };

static struct lf_exact exact;
static struct lf_target *target;

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    assert_int_equal(((struct lf_v41 *)target)->t->hidden, HIDDEN);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    lf_exact_close(&exact);
    return 0;
}

// What the experts add up to, as a stream of its own that was 0, in work.out.
static void join(const struct lf_layer *layer) {
    static const uint16_t nothing[ROWS * HIDDEN];
    static const float zero[ROWS];
    struct lf_v41 *m = (struct lf_v41 *)target;
    struct lf_work *w = &m->work;
    float one[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        one[r] = 1.0f;
    lf_exact_write(target, w->out, nothing, sizeof *nothing * w->rows * HIDDEN);
    lf_exact_write(target, w->post, one, sizeof *one * w->rows);
    lf_exact_write(target, w->comb, zero, sizeof *zero * w->rows);
    m->k.hc_expand(&m->device, &(struct lf_hc_expand_args){
                                .rows = w->rows, .streams = 1, .dim = HIDDEN, .x = w->out,
                                .post = w->post, .comb = w->comb, .pair = w->pair_of,
                                .top = layer->top, .expert = w->down, .shared = w->shared});
}

// Outputs of n rows in one launch, experts grouped over the rows.
static void experts(const struct lf_layer *layer, const uint16_t *in, uint32_t n, uint16_t *out) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    lf_exact_write(target, m->work.in, in, sizeof *in * n * HIDDEN);
    m->work.rows = n;
    lf_quantize(m, m->work.in, m->work.in_q, n, HIDDEN);
    lf_moe_shared(m, layer);
    lf_moe(m, layer);
    join(layer);
    lf_exact_read(target, out, m->work.out, sizeof *out * n * HIDDEN);
}

// Rows of many signs and sizes; every fourth repeats its predecessor, so experts get many rows.
static void fill(uint16_t in[ROWS][HIDDEN], uint64_t seed) {
    struct lf_check_rng rng = {seed};
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < HIDDEN; i++) {
            uint32_t sign = lf_check_below(&rng, 2) << 15;
            in[r][i] = (uint16_t)(sign | (0x3F00 + lf_check_below(&rng, 256)));
        }
        if (r % 4 == 3)
            memcpy(in[r], in[r - 1], sizeof in[r]);
    }
}

static void compare(const char *name, const struct lf_layer *layer) {
    static uint16_t in[ROWS][HIDDEN], one[ROWS][HIDDEN], many[ROWS][HIDDEN];
    fill(in, layer->id + 1);
    for (uint32_t r = 0; r < ROWS; r++)
        experts(layer, in[r], 1, one[r]);
    for (uint32_t rows = 1; rows <= ROWS; rows = rows < 8 ? rows + 1 : 2 * rows)
        for (uint32_t first = 0; first + rows <= ROWS; first += rows) {
            experts(layer, in[first], rows, many[first]);
            if (memcmp(many[first], one[first], rows * sizeof *one))
                lf_exact_differ("experts", "%s %u: rows %u to %u together and alone", name,
                                layer->id, first, first + rows - 1);
        }
}

// engine.md 9.3: grouped experts against row kernels
static void experts_grouped_over_rows_have_the_bits_of_rows_alone(void **state) {
    const struct lf_v41 *m = (struct lf_v41 *)target;
    (void)state;
    for (uint32_t l = 0; l < m->t->layers; l++)
        compare("layer", &m->weights.layer[l]);
    for (uint32_t b = 0; b < m->t->draft_layers; b++)
        compare("draft block", &m->weights.draft->block[b]);
}

// Rows that share an expert run as one group: without this the test above would compare nothing.
static void rows_share_experts(void **state) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    static uint16_t in[ROWS][HIDDEN], out[ROWS][HIDDEN];
    uint32_t most = 0, first[EXPERTS_MAX + 1];
    const struct lf_layer *layer = &m->weights.layer[3];
    (void)state;
    assert_in_range(layer->experts, 1, EXPERTS_MAX);
    fill(in, 9);
    experts(layer, in[0], ROWS, out[0]);
    lf_exact_read(target, first, m->work.expert_first, sizeof *first * (layer->experts + 1));
    for (uint32_t e = 0; e < layer->experts; e++) {
        uint32_t rows = first[e + 1] - first[e];
        most = rows > most ? rows : most;
    }
    assert_true(most >= 6);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_grouped_over_rows_have_the_bits_of_rows_alone),
        cmocka_unit_test(rows_share_experts),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
