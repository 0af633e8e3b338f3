// What a device's failures become, on the device that the host plays (engine.md F-2, F-3).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "device/cuda_graph.h"
#include "device/cuda_memory.h"
#include "host/host_cuda.h"
#include "kernel/cuda_table.h"

enum { DIM = 64, ILLEGAL_ADDRESS = 700, INVALID_VALUE = 1 };

static const struct host_cuda healthy = {.devices = 1, .major = 9, .minor = 0,
                                         .free_bytes = (size_t)8 << 30,
                                         .memory_bytes = (size_t)8 << 30};

static int reset(void **state) {
    (void)state;
    host_cuda = healthy;
    return 0;
}

static struct lf_cuda *open_device(void) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda;
    assert_int_equal(lf_cuda_open(&cuda, 0, &err), LF_OK);
    return cuda;
}

static void refuses(int index, enum lf_status status, const char *text) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda;
    assert_int_equal(lf_cuda_open(&cuda, index, &err), status);
    assert_null(cuda);
    assert_string_equal(err.text, text);
}

static void does_a_machine_without_a_device_say_so(void **state) {
    (void)state;
    host_cuda.devices = 0;
    refuses(0, LF_E_ABSENT, "CUDA: no usable driver: no CUDA-capable device is detected");
}

static void is_an_index_past_the_devices_refused(void **state) {
    (void)state;
    refuses(1, LF_E_ABSENT, "CUDA device 1: this machine has 1");
    refuses(-1, LF_E_ABSENT, "CUDA device -1: this machine has 1");
}

static void is_an_older_or_newer_device_refused(void **state) {
    (void)state;
    host_cuda.major = 8, host_cuda.minor = 9;
    refuses(0, LF_E_UNSUPPORTED, "CUDA device 0 (host) has compute capability 8.9; expected 9.0, "
                                 "the only one whose tensor cores are known bit by bit");
    host_cuda.major = 10, host_cuda.minor = 0;
    refuses(0, LF_E_UNSUPPORTED, "CUDA device 0 (host) has compute capability 10.0; expected 9.0, "
                                 "the only one whose tensor cores are known bit by bit");
}

static void is_a_device_that_others_fill_refused(void **state) {
    (void)state;
    host_cuda.free_bytes = (size_t)100 << 20;
    refuses(0, LF_E_MEM, "CUDA device 0 (host) has 100 of 8192 MiB free; expected 512");
}

static void does_an_allocation_that_fails_name_what_it_was_for(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    void *memory;
    (void)state;
    assert_int_equal(lf_cuda_alloc(cuda, &memory, (size_t)9 << 30, "weights", &err), LF_E_MEM);
    assert_null(memory);
    assert_string_equal(err.text,
                        "CUDA: no memory for weights: 9216 MiB asked for, 8192 of 8192 free");
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_cuda_alloc(cuda, &memory, 1000, "lanes", &err), LF_OK);
    lf_cuda_free(cuda, memory);
    assert_int_equal(lf_cuda_wait(cuda, &err), LF_OK);
    lf_cuda_close(cuda);
}

// One row of rms_norm; returns its first element.
static uint16_t launch(struct lf_cuda *cuda, struct lf_error *err) {
    uint16_t host[2][DIM], *device;
    for (int i = 0; i < DIM; i++)
        host[0][i] = host[1][i] = 0x3F80;
    if (lf_cuda_alloc(cuda, (void **)&device, sizeof host, "a row", err) != LF_OK)
        return 0;
    lf_cuda_upload(cuda, device, host, sizeof host);
    struct lf_rms_norm_args args = {.rows = 1, .dim = DIM, .x = device, .x_stride = DIM,
                                    .w = device + DIM, .y = device, .y_stride = DIM};
    lf_cuda_kernels.rms_norm(&(struct lf_device){.cuda = cuda}, &args);
    host[0][0] = 0;
    enum lf_status status = lf_cuda_download(cuda, host, device, sizeof host, err);
    lf_cuda_free(cuda, device);
    return status == LF_OK ? host[0][0] : 0;
}

static void does_a_launch_that_fails_end_at_its_wait_and_no_later(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    (void)state;
    host_cuda.fail_launch = INVALID_VALUE;
    assert_int_equal(launch(cuda, &err), 0);
    assert_int_equal(err.status, LF_E_DEVICE);
    assert_string_equal(err.text, "CUDA: rms_norm: an error (cudaError)");
    assert_false(lf_cuda_is_lost(cuda));
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(launch(cuda, &err), 0x3F80);
    lf_cuda_close(cuda);
}

static void is_a_device_lost_once_its_error_stays(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    (void)state;
    host_cuda.fail_launch = ILLEGAL_ADDRESS;
    host_cuda.fail_sticks = true;
    assert_int_equal(launch(cuda, &err), 0);
    assert_string_equal(err.text, "CUDA: rms_norm: an illegal memory access was encountered "
                                  "(cudaErrorIllegalAddress)");
    assert_true(lf_cuda_is_lost(cuda));
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_cuda_wait(cuda, &err), LF_E_DEVICE);
    lf_cuda_close(cuda);
}

// A launch's table of these bytes; NULL after a failure.
static const void *send_table(struct lf_cuda *cuda, const void *table, size_t bytes) {
    const void *at;
    void *room = lf_cuda_table_room(cuda, bytes, &at);
    if (room)
        memcpy(room, table, bytes);
    return at;
}

static void is_a_table_past_its_bound_refused(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    (void)state;
    const void *at;
    assert_null(lf_cuda_table_room(cuda, LF_CUDA_TABLE_BYTES + 1, &at));
    assert_int_equal(lf_cuda_wait(cuda, &err), LF_E_TOO_LARGE);
    assert_string_equal(err.text, "CUDA: a launch table of 2097153 bytes; at most 2097152");
    assert_false(lf_cuda_is_lost(cuda));
    lf_cuda_close(cuda);
}

static void do_tables_survive_the_ring_that_they_fill(void **state) {
    enum { BYTES = LF_CUDA_TABLE_BYTES - 100, TABLES = 40 };
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    uint8_t *sent = malloc(BYTES), *back = malloc(BYTES);
    (void)state;
    assert_true(sent && back);
    for (int i = 0; i < TABLES; i++) {
        memset(sent, i + 1, BYTES);
        const void *table = send_table(cuda, sent, BYTES);
        // A launch sends the tables that were made before it.
        assert_int_equal(launch(cuda, &err), 0x3F80);
        assert_int_equal(lf_cuda_download(cuda, back, table, BYTES, &err), LF_OK);
        assert_memory_equal(sent, back, BYTES);
    }
    free(sent);
    free(back);
    lf_cuda_close(cuda);
}

// More than the stage holds and no multiple of a piece, so that pieces and drains take part.
static void do_bytes_come_back_as_they_went(void **state) {
    enum { BYTES = (9 << 20) + 1234 };
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    struct lf_cuda_memory memory;
    uint8_t *sent = malloc(BYTES), *back = calloc(1, BYTES);
    (void)state;
    assert_true(sent && back);
    for (int i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)(i * 7 + i / 251);
    lf_cuda_memory_init(&memory, cuda);
    uint8_t *there = lf_mem_alloc(&memory.mem, BYTES), *copy = lf_mem_alloc(&memory.mem, BYTES);
    lf_mem_download(&memory.mem, back, there, BYTES);
    for (int i = 0; i < BYTES; i += 4096)
        assert_int_equal(back[i], 0);
    lf_mem_upload(&memory.mem, there, sent, BYTES);
    lf_mem_copy(&memory.mem, copy, there, BYTES);
    lf_mem_download(&memory.mem, back, copy, BYTES);
    assert_memory_equal(sent, back, BYTES);
    assert_int_equal(lf_mem_wait(&memory.mem, &err), LF_OK);
    lf_mem_free(&memory.mem, there);
    lf_mem_free(&memory.mem, copy);
    lf_cuda_close(cuda);
    free(sent);
    free(back);
}

static void does_pinned_memory_go_over_and_come_free(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    void *pinned, *there;
    char back[4];
    (void)state;
    assert_int_equal(lf_cuda_alloc_pinned(cuda, &pinned, sizeof back, "a half", &err), LF_OK);
    assert_int_equal(lf_cuda_alloc(cuda, &there, sizeof back, "its place", &err), LF_OK);
    memcpy(pinned, "abc", sizeof back);
    lf_cuda_send(cuda, there, pinned, sizeof back);
    assert_int_equal(lf_cuda_download(cuda, back, there, sizeof back, &err), LF_OK);
    assert_string_equal(back, "abc");
    lf_cuda_free(cuda, there);
    lf_cuda_free(cuda, pinned);
    assert_int_equal(lf_cuda_wait(cuda, &err), LF_OK);
    lf_cuda_close(cuda);
}

static void are_held_bytes_counted_and_their_peak_kept(void **state) {
    struct lf_cuda *cuda = open_device();
    struct lf_cuda_memory memory;
    uint64_t most, before = lf_cuda_held_bytes(cuda, &most);
    (void)state;
    lf_cuda_memory_init(&memory, cuda);
    void *there = lf_mem_alloc(&memory.mem, 1 << 20);
    uint64_t held = lf_cuda_held_bytes(cuda, &most);
    assert_true(held >= before + (1 << 20));
    lf_mem_free(&memory.mem, there);
    assert_true(lf_cuda_held_bytes(cuda, &most) < held);
    assert_true(most >= held);
    lf_cuda_close(cuda);
}

// Its owner says what there was no memory for; nothing is left that a later wait would report.
static void does_memory_that_is_not_there_leave_no_failure(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    struct lf_cuda_memory memory;
    (void)state;
    lf_cuda_memory_init(&memory, cuda);
    host_cuda.fail_alloc = 1;
    assert_null(lf_mem_alloc(&memory.mem, 64));
    assert_int_equal(lf_mem_wait(&memory.mem, &err), LF_OK);
    lf_cuda_close(cuda);
}

static void does_a_read_after_a_failure_give_zeros(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    struct lf_cuda_memory memory;
    uint32_t number = 5;
    (void)state;
    lf_cuda_memory_init(&memory, cuda);
    uint32_t *there = lf_mem_alloc(&memory.mem, sizeof *there);
    lf_mem_upload(&memory.mem, there, &number, sizeof number);
    host_cuda.sticky = ILLEGAL_ADDRESS;
    lf_mem_download(&memory.mem, &number, there, sizeof number);
    assert_int_equal(number, 0);
    assert_int_equal(lf_mem_wait(&memory.mem, &err), LF_E_DEVICE);
    assert_true(lf_cuda_is_lost(cuda));
    host_cuda.sticky = 0;
    lf_mem_free(&memory.mem, there);
    lf_cuda_close(cuda);
}

// engine.md F-4: also where the host waits for bytes.
static void does_a_wait_end_at_its_deadline(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    uint32_t number = 5;
    void *there;
    (void)state;
    assert_int_equal(lf_cuda_alloc(cuda, &there, sizeof number, "a number", &err), LF_OK);
    lf_cuda_set_wait(cuda, 0.05);
    host_cuda.busy = true;
    assert_int_equal(lf_cuda_download(cuda, &number, there, sizeof number, &err), LF_E_DEVICE);
    assert_string_equal(err.text, "CUDA: launches and copies did not end within 0.05 s");
    assert_true(lf_cuda_is_lost(cuda));
    lf_cuda_close(cuda);
}

static void does_a_graph_run_its_launches_over_what_lies_there_by_then(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    uint16_t host[2][DIM] = {{0}}, *row;
    (void)state;
    for (int i = 0; i < DIM; i++)
        host[1][i] = 0x3F80;
    assert_int_equal(lf_cuda_alloc(cuda, (void **)&row, sizeof host, "a row", &err), LF_OK);
    struct lf_rms_norm_args args = {.rows = 1, .dim = DIM, .x = row, .x_stride = DIM,
                                    .w = row + DIM, .y = row, .y_stride = DIM};
    lf_cuda_graph_begin(cuda, 0);
    lf_cuda_kernels.rms_norm(&(struct lf_device){.cuda = cuda}, &args);
    struct lf_cuda_graph *graph = lf_cuda_graph_end(cuda);
    assert_non_null(graph);
    uint64_t launches = lf_cuda_launches(cuda);
    for (uint16_t value = 0x4000; value < 0x4200; value += 0x80) {
        host[0][0] = value;
        lf_cuda_upload(cuda, row, host, sizeof host);
        lf_cuda_graph_launch(cuda, graph);
        uint16_t first;
        assert_int_equal(lf_cuda_download(cuda, &first, row, sizeof first, &err), LF_OK);
        assert_int_equal(first, 0x4100); // one number of DIM: sqrt(DIM)
    }
    assert_int_equal(lf_cuda_launches(cuda) - launches, 4);
    lf_cuda_graph_free(cuda, graph);
    lf_cuda_free(cuda, row);
    lf_cuda_close(cuda);
}

// The host plays branches one after the other, and keeps no graph that leaves one open.
static void do_launches_aside_in_a_graph_have_to_be_joined(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    (void)state;
    for (int joins = 1; joins >= 0; joins--) {
        lf_cuda_graph_begin(cuda, 0);
        lf_cuda_graph_aside(cuda, 0);
        lf_cuda_graph_back(cuda);
        lf_cuda_graph_join(cuda, 1); // it has no launches
        if (joins)
            lf_cuda_graph_join(cuda, 0);
        struct lf_cuda_graph *graph = lf_cuda_graph_end(cuda);
        assert_int_equal(graph != NULL, joins);
        assert_int_equal(lf_cuda_wait(cuda, &err), joins ? LF_OK : LF_E_DEVICE);
        lf_cuda_graph_free(cuda, graph);
    }
    // Outside a graph there is one branch.
    lf_cuda_graph_aside(cuda, 0);
    lf_cuda_graph_back(cuda);
    assert_int_equal(lf_cuda_wait(cuda, &err), LF_OK);
    lf_cuda_close(cuda);
}

// Tables of launches that are kept stay with them, however many others go through the ring.
static void do_tables_of_a_graph_keep_to_what_was_asked_for(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cuda *cuda = open_device();
    (void)state;
    lf_cuda_graph_begin(cuda, 512);
    const uint8_t *first = send_table(cuda, "first", 6);
    assert_ptr_equal(send_table(cuda, "second", 7), first + 256);
    struct lf_cuda_graph *graph = lf_cuda_graph_end(cuda);
    assert_non_null(graph);
    char back[6];
    assert_int_equal(lf_cuda_download(cuda, back, first, sizeof back, &err), LF_OK);
    assert_string_equal(back, "first");
    lf_cuda_graph_free(cuda, graph);
    lf_cuda_graph_begin(cuda, 256);
    assert_non_null(send_table(cuda, "first", 6));
    assert_null(send_table(cuda, "second", 7));
    assert_null(lf_cuda_graph_end(cuda));
    assert_int_equal(lf_cuda_wait(cuda, &err), LF_E_TOO_LARGE);
    assert_string_equal(err.text, "CUDA: tables of a graph of more than 256 bytes");
    lf_cuda_close(cuda);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(does_a_machine_without_a_device_say_so, reset),
        cmocka_unit_test_setup(is_an_index_past_the_devices_refused, reset),
        cmocka_unit_test_setup(is_an_older_or_newer_device_refused, reset),
        cmocka_unit_test_setup(is_a_device_that_others_fill_refused, reset),
        cmocka_unit_test_setup(does_an_allocation_that_fails_name_what_it_was_for, reset),
        cmocka_unit_test_setup(does_a_launch_that_fails_end_at_its_wait_and_no_later, reset),
        cmocka_unit_test_setup(is_a_device_lost_once_its_error_stays, reset),
        cmocka_unit_test_setup(is_a_table_past_its_bound_refused, reset),
        cmocka_unit_test_setup(do_tables_survive_the_ring_that_they_fill, reset),
        cmocka_unit_test_setup(does_a_graph_run_its_launches_over_what_lies_there_by_then, reset),
        cmocka_unit_test_setup(do_launches_aside_in_a_graph_have_to_be_joined, reset),
        cmocka_unit_test_setup(do_tables_of_a_graph_keep_to_what_was_asked_for, reset),
        cmocka_unit_test_setup(do_bytes_come_back_as_they_went, reset),
        cmocka_unit_test_setup(does_pinned_memory_go_over_and_come_free, reset),
        cmocka_unit_test_setup(are_held_bytes_counted_and_their_peak_kept, reset),
        cmocka_unit_test_setup(does_memory_that_is_not_there_leave_no_failure, reset),
        cmocka_unit_test_setup(does_a_read_after_a_failure_give_zeros, reset),
        cmocka_unit_test_setup(does_a_wait_end_at_its_deadline, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
