// The model on the device that the host plays: what it tells, and what a device's failures become.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "cuda/host/host_cuda.h"
#include "device/cuda_memory.h"
#include "env.h"
#include "format/dummy.h"
#include "golden.h"
#include "kernel/cuda_table.h"
#include "kernel/linear/linear_turn.h"
#include "model/plan.h"
#include "model/v41.h"

enum { CONTEXT = 256, ROWS = 3, VOCAB_MAX = 4096, ILLEGAL_ADDRESS = 700, INVALID_VALUE = 1 };

static struct lf_demo demo;
static struct lf_target *target;
static struct lf_cuda *cuda;
static struct lf_cuda_memory memory;

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

static struct lf_model_device played(void) {
    return (struct lf_model_device){.cuda = cuda, .kernels = &lf_cuda_kernels,
                                    .memory = &memory.mem, .aside = &memory.mem,
                                    .arithmetic = LF_CUDA_ARITHMETIC, .name = "played"};
}

static int open_all(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    lf_demo_open(&demo);
    must(lf_cuda_open(&cuda, 0, &err), &err);
    lf_cuda_memory_init(&memory, cuda);
    struct lf_model_device device = played();
    struct lf_model_options options = {.slots = 2, .context = CONTEXT, .chunk_rows = 64,
                                       .threads = 1, .device = &device};
    target = lf_demo_target(&demo, &options);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    lf_cuda_close(cuda);
    lf_demo_close(&demo);
    return 0;
}

static int start_over(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    for (uint32_t slot = 0; slot < 2; slot++)
        must(target->ops->reset(target, slot, &err), &err);
    return 0;
}

static enum lf_status prefill_slot(uint32_t slot, struct lf_error *err) {
    static const uint32_t ids[ROWS] = {0, 100, 200};
    struct lf_bound end = {.at = ROWS, .logits = true};
    struct lf_chunk chunk = {.slot = slot, .rows = ROWS, .tok = ids, .plan = &end, .n_plan = 1};
    LF_TRY(target->ops->grow(target, slot, CONTEXT, err));
    return target->ops->prefill(target, &chunk, 1, err);
}

static enum lf_status prefill(struct lf_error *err) {
    return prefill_slot(0, err);
}

static enum lf_status verify_rows(uint32_t rows, uint32_t *drawn, struct lf_error *err) {
    static const struct lf_sampling rule = {0};
    static const uint32_t tok[3] = {7, 8, 9};
    struct lf_window w = {.rows = rows, .pos0 = ROWS, .tok = tok, .rule = &rule};
    return target->ops->verify(target, &w, 1, drawn, err);
}

static enum lf_status verify(uint32_t *drawn, struct lf_error *err) {
    return verify_rows(2, drawn, err);
}

static bool are_turned(const uint8_t *there, const uint8_t *here, size_t bytes) {
    uint32_t own, word;
    bool are = true;
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&own, there + i, sizeof own);
        memcpy(&word, here + i, sizeof word);
        are &= own == lf_mxfp4_turned(word);
    }
    return are;
}

static void are_weights_brought_to_the_device_and_named_for_it(void **state) {
    const struct lf_v41 *m = (const struct lf_v41 *)target;
    const uint8_t *block = m->weights_there;
    struct lf_model_options plain = {.slots = 1, .context = CONTEXT, .chunk_rows = 64,
                                     .threads = 1};
    struct lf_target *cpu = lf_demo_target(&demo, &plain);
    const struct lf_v41 *c = (const struct lf_v41 *)cpu;
    (void)state;
    for (uint32_t l = 0; l < m->t->layers; l++) {
        const struct lf_matrix *there = &m->weights.layer[l].expert[1].w2;
        const struct lf_matrix *here = &c->weights.layer[l].expert[1].w2;
        assert_true(there->is_regular && m->weights.layer[l].wq_b.is_regular);
        assert_true(there->data >= block && there->scale < block + m->weights_there_bytes);
        assert_int_equal(here->format, LF_WEIGHT_MXFP4);
        assert_true(are_turned(there->data, here->data, here->out * lf_matrix_row_bytes(here)));
        assert_memory_equal(there->scale, here->scale, lf_matrix_scale_bytes(here));
        assert_memory_equal(m->weights.layer[l].hc_ffn.fn, c->weights.layer[l].hc_ffn.fn, 4096);
    }
    assert_string_not_equal(target->fingerprint, cpu->fingerprint);
    assert_non_null(strstr(target->ops->info(target)->name, " played"));
    cpu->ops->close(cpu);
}

// A model of made-up weights; left: the device writes its maps.
static struct lf_v41 *made_up(struct lf_checkpoint **c, bool left) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_target *made;
    struct lf_model_device device = played();
    struct lf_model_options options = {.slots = 1, .context = CONTEXT, .chunk_rows = 64,
                                       .threads = 1, .device = &device};
    struct lf_dummy dummy = {.seed = 3};
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/models/demo", env_value("LF_SOURCE_ROOT"));
    must(lf_checkpoint_open_dummy(c, folder, &dummy, &err), &err);
    if (left)
        lf_dummy_leave_maps(*c);
    for (uint32_t i = 0; i < lf_dummy_parts(*c, true); i++)
        lf_dummy_fill(*c, i, 0);
    must(lf_model_open(&made, *c, &demo.map, &options, &err), &err);
    return (struct lf_v41 *)made;
}

static void does_a_device_make_up_the_bytes_that_the_host_would_send(void **state) {
    struct lf_checkpoint *c, *left;
    struct lf_v41 *sent = made_up(&c, false), *made = made_up(&left, true);
    (void)state;
    assert_int_equal(made->weights_there_bytes, sent->weights_there_bytes);
    assert_memory_equal(made->weights_there, sent->weights_there, sent->weights_there_bytes);
    assert_string_equal(made->target.fingerprint, sent->target.fingerprint);
    made->target.ops->close(&made->target);
    sent->target.ops->close(&sent->target);
    lf_checkpoint_close(left);
    lf_checkpoint_close(c);
}

// engine.md M-6, of the device: lines that are the host's alone are not held there.
static void does_it_take_what_was_planned_for_a_device(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_checkpoint_summary summary;
    struct lf_model_memory taken;
    struct lf_plan plan;
    uint64_t lines[LF_PLAN_PARTS], most;
    (void)state;
    lf_checkpoint_summary(demo.checkpoint, &summary);
    struct lf_plan_ask ask = {.t = lf_checkpoint_topology(demo.checkpoint), .drafter = true,
                              .device = true, .weight_bytes = summary.text_bytes,
                              .draft_bytes = summary.draft_bytes, .slots = 2, .context = CONTEXT,
                              .chunk_rows = 64, .threads = 1};
    lf_plan_make(&plan, &ask);
    for (uint32_t slot = 0; slot < 2; slot++)
        must(target->ops->grow(target, slot, CONTEXT, &err), &err);
    lf_model_memory_read(target, &taken);
    lf_plan_measure(lines, &plan, &taken);
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        assert_true(lines[part] <= plan.bytes[part] + plan.bytes[part] / 50 + (1 << 20));
    assert_true(lf_cuda_held_bytes(cuda, &most) <= plan.need);
    assert_int_equal(lines[LF_PLAN_KV], plan.bytes[LF_PLAN_KV]);
    assert_int_equal(lines[LF_PLAN_WORK], plan.bytes[LF_PLAN_WORK]);
    assert_true(lines[LF_PLAN_WEIGHTS] >= plan.bytes[LF_PLAN_WEIGHTS]);
    assert_int_equal(plan.host_bytes[LF_PLAN_KV] + plan.host_bytes[LF_PLAN_WEIGHTS], 0);
}

// engine.md F-2: the launch fails, the state is as before, and the next one is as if it had not.
static void does_a_failed_launch_fail_its_call_and_no_other(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    uint32_t first[2], again[2];
    (void)state;
    must(prefill(&err), &err);
    host_cuda.fail_launch = INVALID_VALUE;
    assert_int_equal(verify(first, &err), LF_E_DEVICE);
    assert_int_equal(first[0], 0);
    err = (struct lf_error)LF_ERROR_INIT;
    must(verify(first, &err), &err);
    must(target->ops->reset(target, 0, &err), &err);
    must(prefill(&err), &err);
    must(verify(again, &err), &err);
    assert_memory_equal(first, again, sizeof first);
}

static void does_a_prompt_whose_launch_fails_leave_the_slot_empty(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    host_cuda.fail_launch = INVALID_VALUE;
    assert_int_equal(prefill(&err), LF_E_DEVICE);
    assert_string_equal(err.text, "CUDA: embed: an error (cudaError)");
    assert_int_equal(((struct lf_v41 *)target)->state[0].length, 0);
}

static void does_storage_that_cannot_be_had_fail_the_growth_alone(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    host_cuda.fail_alloc = 2;
    assert_int_equal(target->ops->grow(target, 1, CONTEXT, &err), LF_E_MEM);
    assert_string_equal(err.text, "out of memory for 256 positions of a slot");
    err = (struct lf_error)LF_ERROR_INIT;
    must(target->ops->grow(target, 1, CONTEXT, &err), &err);
    must(prefill(&err), &err);
}

// engine.md F-7: what was taken before goes back.
static void does_every_allocation_of_a_model_that_fails_refuse_it_whole(void **state) {
    struct lf_model_device device = played();
    struct lf_model_options options = {.slots = 1, .context = CONTEXT, .chunk_rows = 64,
                                       .threads = 1, .device = &device};
    enum lf_status status = LF_E_MEM;
    struct lf_target *made;
    uint64_t most, before = lf_cuda_held_bytes(cuda, &most);
    int failed = 0;
    (void)state;
    while (status == LF_E_MEM) {
        struct lf_error err = LF_ERROR_INIT;
        host_cuda.fail_alloc = ++failed;
        status = lf_model_open(&made, demo.checkpoint, &demo.map, &options, &err);
        if (status == LF_OK)
            made->ops->close(made);
        else if (status != LF_E_MEM)
            fail_msg("allocation %d: %s", failed, err.text);
        assert_int_equal(lf_cuda_held_bytes(cuda, &most), before);
    }
    assert_true(failed > 10);
    host_cuda.fail_alloc = 0;
}

// engine.md F-1, F-5: the token whose row holds it has no logits; the window beside keeps its own.
static void does_a_nan_in_a_weight_fail_the_window_that_reads_it_and_no_other(void **state) {
    static const struct lf_sampling rule = {0};
    static const uint32_t tok[2] = {7, 9};
    static float logits[2][VOCAB_MAX];
    struct lf_error err = LF_ERROR_INIT;
    const struct lf_matrix *embed = &((struct lf_v41 *)target)->weights.embed;
    uint16_t *row = (uint16_t *)(uintptr_t)embed->data + (size_t)tok[1] * embed->in, held = *row;
    uint32_t drawn[2][2];
    for (int turn = 0; turn < 2; turn++) {
        struct lf_window w[2];
        start_over(state);
        for (uint32_t slot = 0; slot < 2; slot++) {
            must(prefill_slot(slot, &err), &err);
            w[slot] = (struct lf_window){.slot = slot, .rows = 1, .pos0 = ROWS,
                                         .tok = &tok[slot], .rule = &rule};
        }
        *row = turn ? 0x7FC1 : held;
        must(target->ops->verify(target, w, 2, drawn[turn], &err), &err);
        memcpy(logits[turn], lf_model_logits(target, 0, 0), embed->out * sizeof(float));
        *row = held;
    }
    assert_true(drawn[0][1] < embed->out);
    assert_int_equal(drawn[1][1], LF_SAMPLE_NONE);
    assert_int_equal(drawn[1][0], drawn[0][0]);
    assert_memory_equal(logits[1], logits[0], embed->out * sizeof(float));
}

// engine.md F-3: no slot can be reset any more, which is how the engine learns of it.
static void does_a_lost_device_refuse_to_reset_a_slot(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    uint32_t drawn[2];
    (void)state;
    must(prefill(&err), &err);
    host_cuda.fail_launch = ILLEGAL_ADDRESS;
    host_cuda.fail_sticks = true;
    assert_int_equal(verify(drawn, &err), LF_E_DEVICE);
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(target->ops->reset(target, 0, &err), LF_E_DEVICE);
    assert_string_equal(err.text, "CUDA: embed: an illegal memory access was encountered "
                                  "(cudaErrorIllegalAddress)");
}

// Memory of the device as another thread has it: what goes through it is counted.
static struct counted {
    struct lf_mem mem; // first
    unsigned allocs, uploads, downloads;
} aside;

static void *aside_alloc(struct lf_mem *mem, size_t bytes) {
    ((struct counted *)mem)->allocs++;
    return memory.mem.ops->alloc(&memory.mem, bytes);
}

static void aside_upload(struct lf_mem *mem, void *to, const void *from, size_t bytes) {
    ((struct counted *)mem)->uploads++;
    memory.mem.ops->upload(&memory.mem, to, from, bytes);
}

static void aside_download(struct lf_mem *mem, void *to, const void *from, size_t bytes) {
    ((struct counted *)mem)->downloads++;
    memory.mem.ops->download(&memory.mem, to, from, bytes);
}

static enum lf_status aside_wait(struct lf_mem *mem, struct lf_error *err) {
    (void)mem;
    return memory.mem.ops->wait(&memory.mem, err);
}

static enum lf_status take(void *ctx, const void *bytes, uint64_t len, struct lf_error *err) {
    lf_buffer_add(ctx, bytes, len);
    return err->status;
}

static enum lf_status give(void *ctx, void *bytes, uint64_t len, struct lf_error *err) {
    struct lf_buffer *file = ctx;
    (void)err;
    assert_true(len <= file->len);
    memcpy(bytes, file->data, len);
    memmove(file->data, file->data + len, file->len -= len);
    return LF_OK;
}

// The engine's thread has the device meanwhile: no call of one may meet the other's.
static void do_states_go_to_files_and_back_through_memory_of_their_own(void **state) {
    static const struct lf_mem_ops ops = {.alloc = aside_alloc, .upload = aside_upload,
                                          .download = aside_download, .wait = aside_wait};
    struct lf_v41 *m = (struct lf_v41 *)target;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer file = {0};
    struct lf_saved *saved, *again;
    (void)state;
    aside = (struct counted){.mem.ops = &ops};
    must(target->ops->grow(target, 0, CONTEXT, &err), &err);
    // As if a prompt had filled them: only whole pages go through the device's memory.
    m->state[0].length = m->state[0].draft_from = CONTEXT;
    m->state[0].complete = true;
    must(target->ops->save(target, 0, CONTEXT, LF_SAVE_STATE, &saved, &err), &err);
    m->aside = &aside.mem;
    must(target->ops->write(target, saved, take, &file, &err), &err);
    assert_true(aside.downloads > 0);
    must(target->ops->read(target, CONTEXT, LF_SAVE_STATE, give, &file, &again, &err), &err);
    m->aside = &memory.mem;
    assert_true(aside.allocs > 0 && aside.uploads >= aside.allocs);
    target->ops->adopt(target, again);
    target->ops->drop(target, again);
    target->ops->drop(target, saved);
    lf_buffer_free(&file);
}

enum { ROUNDS = 5 };
// What rounds of one row tell, and the pass of the drafter before each.
struct told {
    uint32_t drawn[ROUNDS];
    float logits[ROUNDS][VOCAB_MAX];
    struct lf_draft draft[ROUNDS];
};

static void tell_rounds(struct told *told) {
    static const struct lf_sampling rule = {.temperature = 1, .seed = 5};
    struct lf_error err = LF_ERROR_INIT;
    uint32_t pending = 7, vocab = target->ops->info(target)->vocab, kept = 1;
    assert_true(vocab <= VOCAB_MAX);
    must(prefill(&err), &err);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct lf_draft_ask ask = {.slot = 0, .pending = pending, .rule = &rule};
        struct lf_window w = {.rows = 1, .pos0 = ROWS + i, .tok = &pending, .rule = &rule};
        must(target->drafter->propose(target, &ask, 1, &told->draft[i], &err), &err);
        must(target->ops->verify(target, &w, 1, &told->drawn[i], &err), &err);
        memcpy(told->logits[i], lf_model_logits(target, 0, 0), vocab * sizeof(float));
        must(target->ops->keep(target, &w, &kept, 1, &err), &err);
        pending = told->drawn[i];
    }
}

// Of one parity of positions and of the other the first rounds run as they are; then come graphs.
static void does_a_round_kept_as_a_graph_tell_what_its_launches_told(void **state) {
    static struct told plain, graphs;
    struct lf_v41 *m = (struct lf_v41 *)target;
    struct lf_graphs *kept = m->graphs;
    (void)state;
    m->graphs = NULL;
    tell_rounds(&plain);
    m->graphs = kept;
    start_over(state);
    unsigned before = host_cuda.graphs;
    tell_rounds(&graphs);
    assert_int_equal(host_cuda.graphs - before, (ROUNDS - 2) + (ROUNDS - 1));
    assert_memory_equal(&plain, &graphs, sizeof plain);
}

static void does_a_graph_that_cannot_be_made_fail_its_round_alone(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    uint32_t first[3], again[3];
    (void)state;
    must(prefill(&err), &err);
    must(verify_rows(3, first, &err), &err);
    start_over(state);
    must(prefill(&err), &err);
    host_cuda.fail_launch = INVALID_VALUE;
    assert_int_equal(verify_rows(3, again, &err), LF_E_DEVICE);
    assert_string_equal(err.text, "CUDA: embed: an error (cudaError)");
    err = (struct lf_error)LF_ERROR_INIT;
    must(verify_rows(3, again, &err), &err);
    assert_memory_equal(first, again, sizeof first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_weights_brought_to_the_device_and_named_for_it),
        cmocka_unit_test(does_a_device_make_up_the_bytes_that_the_host_would_send),
        cmocka_unit_test_setup(does_it_take_what_was_planned_for_a_device, start_over),
        cmocka_unit_test_setup(does_a_failed_launch_fail_its_call_and_no_other, start_over),
        cmocka_unit_test_setup(does_a_prompt_whose_launch_fails_leave_the_slot_empty, start_over),
        cmocka_unit_test_setup(does_storage_that_cannot_be_had_fail_the_growth_alone, start_over),
        cmocka_unit_test_setup(does_every_allocation_of_a_model_that_fails_refuse_it_whole,
                               start_over),
        cmocka_unit_test_setup(does_a_nan_in_a_weight_fail_the_window_that_reads_it_and_no_other,
                               start_over),
        cmocka_unit_test_setup(do_states_go_to_files_and_back_through_memory_of_their_own,
                               start_over),
        cmocka_unit_test_setup(does_a_round_kept_as_a_graph_tell_what_its_launches_told,
                               start_over),
        cmocka_unit_test_setup(does_a_graph_that_cannot_be_made_fail_its_round_alone, start_over),
        // The last: nothing comes after.
        cmocka_unit_test_setup(does_a_lost_device_refuse_to_reset_a_slot, start_over),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
