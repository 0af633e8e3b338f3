// Does each error of api.md section 4 have its status, type and four keys?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "serve/errors.h"

static void every_refusal_prints_all_four_keys(void **state) {
    (void)state;
    for (int i = 0; i < LF_REFUSALS; i++) {
        const struct lf_refusal_row *row = lf_refusal_row((enum lf_refusal)i);
        struct lf_buffer out = {0};
        lf_refusal_print(&out, (enum lf_refusal)i, i % 2 ? "a[0].b" : "", "it \"failed\"\n");
        json_t *json = json_loadb(out.data, out.len, 0, NULL);
        json_t *error = json_object_get(json, "error");
        assert_int_equal(json_object_size(json), 1);
        assert_int_equal(json_object_size(error), 4);
        assert_string_equal(json_string_value(json_object_get(error, "message")),
                            "it \"failed\"\n");
        assert_string_equal(json_string_value(json_object_get(error, "type")), row->type);
        assert_string_equal(json_string_value(json_object_get(error, "code")), row->code);
        if (i % 2)
            assert_string_equal(json_string_value(json_object_get(error, "param")), "a[0].b");
        else
            assert_true(json_is_null(json_object_get(error, "param")));
        json_decref(json);
        lf_buffer_free(&out);
    }
}

static void statuses_and_retries_are_those_of_the_table(void **state) {
    (void)state;
    static const struct {
        enum lf_status from;
        int status;
        const char *type, *code;
    } rows[] = {
        {LF_E_JSON, 400, "invalid_request_error", "invalid_json"},
        {LF_E_MISSING, 400, "invalid_request_error", "missing_field"},
        {LF_E_TYPE, 400, "invalid_request_error", "invalid_type"},
        {LF_E_VALUE, 400, "invalid_request_error", "invalid_value"},
        {LF_E_UNSUPPORTED, 400, "invalid_request_error", "unsupported_value"},
        {LF_E_FIELD, 400, "invalid_request_error", "unsupported_parameter"},
        {LF_E_CONTEXT, 400, "invalid_request_error", "context_length_exceeded"},
        {LF_E_NOT_FOUND, 404, "not_found_error", "model_not_found"},
        {LF_E_TOO_LARGE, 413, "invalid_request_error", "request_too_large"},
        {LF_E_QUEUE_FULL, 503, "server_error", "queue_full"},
        {LF_E_CLOSED, 503, "server_error", "shutting_down"},
        {LF_E_MEM, 503, "server_error", "memory_full"},
        {LF_E_DEVICE, 503, "server_error", "engine_failed"},
        {LF_E_IO, 500, "server_error", "internal_error"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct lf_refusal_row *row = lf_refusal_row(lf_refusal_of(rows[i].from));
        assert_int_equal(row->status, rows[i].status);
        assert_string_equal(row->type, rows[i].type);
        assert_string_equal(row->code, rows[i].code);
    }
    for (int i = 0; i < LF_REFUSALS; i++) {
        const struct lf_refusal_row *row = lf_refusal_row((enum lf_refusal)i);
        assert_true(row->status != 409 && row->status != 422);
        if (row->status < 500)
            assert_true(row->retry == (row->status == 408 || row->status == 429));
    }
}

static void broken_bytes_in_a_message_are_repaired(void **state) {
    (void)state;
    struct lf_buffer out = {0};
    lf_refusal_print(&out, LF_REFUSAL_UNKNOWN_URL, "", "no \xff route");
    json_t *json = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(json);
    json_decref(json);
    lf_buffer_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_refusal_prints_all_four_keys),
        cmocka_unit_test(statuses_and_retries_are_those_of_the_table),
        cmocka_unit_test(broken_bytes_in_a_message_are_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
