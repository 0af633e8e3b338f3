#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "contract/table.h"
#include "contract/verify.h"
#include "golden.h"
#include "model/v41.h"

struct trial {
    struct lf_demo demo;
    struct lf_golden prompt;
    struct lf_target *target;
    uint32_t *ids, rows;
    FILE *out;
};

static void trial_open(struct trial *t) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_model_options options = {.threads = 2, .context = 1024};
    lf_demo_open(&t->demo);
    lf_golden_open(&t->prompt, "recall");
    t->target = lf_demo_target(&t->demo, &options);
    t->rows = lf_verify_prompt_rows(lf_checkpoint_topology(t->demo.checkpoint));
    t->ids = malloc(t->rows * sizeof *t->ids);
    t->out = tmpfile();
    assert_true(t->ids && t->out);
    for (uint32_t i = 0; i < t->rows; i++)
        t->ids[i] = (uint32_t)t->prompt.ids[i % t->prompt.rows];
    assert_int_equal(t->target->ops->grow(t->target, 0, t->rows, &err), LF_OK);
}

static void trial_close(struct trial *t) {
    t->target->ops->close(t->target);
    free(t->ids);
    fclose(t->out);
    lf_golden_close(&t->prompt);
    lf_demo_close(&t->demo);
}

static struct lf_verify_result verify(struct trial *t, const uint32_t *layer, uint32_t n) {
    struct lf_verify_options o = {.layer = layer, .n_layers = n, .ids = t->ids, .n_ids = t->rows,
                                  .out = t->out};
    struct lf_verify_result r;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_verify_run(t->target, &o, &r, &err) != LF_OK)
        fail_msg("%s", err.text);
    return r;
}

static bool has_record(const char *word, size_t len) {
    struct lf_contract_table table;
    static struct lf_entry entry[LF_ENTRIES_MAX];
    lf_contract_table_fill(&table, entry);
    for (uint32_t i = 0; i < table.records; i++)
        if (strlen(table.record[i]->name) == len && !strncmp(table.record[i]->name, word, len))
            return true;
    return false;
}

// Missing stages are only those of kernels whose record the contract tool misses as well.
static void is_every_layer_of_the_demo_within_its_limits(void **state) {
    static const uint32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct trial t;
    (void)state;
    trial_open(&t);
    struct lf_verify_result r = verify(&t, all, 8);
    assert_int_equal(r.layers, 8);
    assert_int_equal(r.draft_blocks, 3);
    assert_in_range(r.stages, 500, 1100);
    if (r.over || r.differing) {
        char line[512];
        rewind(t.out);
        while (fgets(line, sizeof line, t.out))
            if (strstr(line, "OVER") || strstr(line, "float64") || strstr(line, "differing"))
                print_message("%s", line);
    }
    assert_int_equal(r.over, 0);
    assert_int_equal(r.differing, 0);
    assert_true(r.worst > 0.5 && r.worst <= 1.0);
    for (const char *at = r.unregistered; *at; at += strcspn(at, " ") + 1)
        assert_false(has_record(at, strcspn(at, " ")));
    if (!*r.unregistered)
        assert_int_equal(r.missing, 0);
    trial_close(&t);
}

static struct lf_kernels right;

static void wrong_norm(struct lf_device *device, const struct lf_rms_norm_args *a) {
    right.rms_norm(device, a);
    a->y[a->dim - 1] ^= 2;
}

static void wrong_linear(struct lf_device *device, const struct lf_linear_args *a) {
    right.linear(device, a);
    if (!a->job[0].y_f32)
        *(uint16_t *)a->job[0].y ^= 2;
}

static void wrong_router(struct lf_device *device, const struct lf_router_args *a) {
    right.router(device, a);
    a->weight[0] *= 1.001f;
}

static void nothing_packed(struct lf_device *device, const struct lf_cache_pack_args *a) {
    right.cache_pack(device, a);
    a->dst[0][3] ^= 1;
}

// Of the drafter alone.
static void wrong_join(struct lf_device *device, const struct lf_draft_join_args *a) {
    right.draft_join(device, a);
    a->logits[a->vocab - 1] += 0.5f;
}

static void wrong_draw(struct lf_device *device, const struct lf_sample_args *a) {
    right.sample(device, a);
    a->drawn[0] ^= 1;
}

static void does_a_wrong_kernel_show(void **state) {
    static const uint32_t layer[] = {2};
    struct trial t;
    (void)state;
    for (int fault = 0; fault < 6; fault++) {
        trial_open(&t);
        struct lf_kernels *k = &((struct lf_v41 *)t.target)->k;
        right = *k;
        k->rms_norm = fault == 0 ? wrong_norm : k->rms_norm;
        k->linear = fault == 1 ? wrong_linear : k->linear;
        k->router = fault == 2 ? wrong_router : k->router;
        k->cache_pack = fault == 3 ? nothing_packed : k->cache_pack;
        k->draft_join = fault == 4 ? wrong_join : k->draft_join;
        k->sample = fault == 5 ? wrong_draw : k->sample;
        struct lf_verify_result r = verify(&t, layer, 1);
        if (!r.over)
            fail_msg("fault %d is not seen", fault);
        trial_close(&t);
    }
}

// A kernel whose bits depend on the launch: one row is not that row of four.
static void launch_norm(struct lf_device *device, const struct lf_rms_norm_args *a) {
    right.rms_norm(device, a);
    if (a->rows == 1)
        (a->quantized ? a->quantized : a->y)[0] ^= 0x40;
}

static void does_a_row_that_sees_others_show(void **state) {
    static const uint32_t layer[] = {0};
    struct trial t;
    (void)state;
    trial_open(&t);
    struct lf_kernels *k = &((struct lf_v41 *)t.target)->k;
    right = *k;
    k->rms_norm = launch_norm;
    assert_true(verify(&t, layer, 1).differing > 0);
    trial_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_every_layer_of_the_demo_within_its_limits),
        cmocka_unit_test(does_a_wrong_kernel_show),
        cmocka_unit_test(does_a_row_that_sees_others_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
