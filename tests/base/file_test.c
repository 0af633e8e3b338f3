// Are files read whole or refused by path, and do errors keep the first failure?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

static char folder[] = "/tmp/lanefold-file-XXXXXX";
static char path[128];

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static const char *under(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *write_bytes(const char *name, const void *bytes, size_t len) {
    FILE *file = fopen(under(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return path;
}

// Both readers must refuse it with LF_E_IO, naming the path.
static void check_refused(const char *file, int cause) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer out = {0};
    struct lf_map map;
    assert_int_equal(lf_file_read(&out, file, 1000, &err), LF_E_IO);
    assert_int_equal(err.cause, cause);
    assert_non_null(strstr(err.text, file));
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_map_open(&map, file, &err), LF_E_IO);
    assert_int_equal(err.cause, cause);
    assert_non_null(strstr(err.text, file));
    assert_true(map.data == NULL && map.bytes == 0);
    lf_buffer_free(&out);
}

static void what_is_no_regular_file_is_refused_without_waiting(void **state) {
    (void)state;
    check_refused(under("missing"), ENOENT);
    check_refused(folder, 0);
    check_refused("/dev/zero", 0);
    assert_int_equal(mkfifo(under("fifo"), 0600), 0);
    check_refused(path, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("gone", under("link")), 0);
    check_refused(path, ENOENT);
    assert_int_equal(unlink(path), 0);
}

static void files_are_read_to_the_byte_up_to_the_limit(void **state) {
    static const char bytes[] = "a\0b\xFF\n";
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer out = {0};
    (void)state;
    const char *file = write_bytes("small", bytes, 5);
    assert_int_equal(lf_file_read(&out, file, 5, &err), LF_OK);
    assert_int_equal(out.len, 5);
    assert_memory_equal(out.data, bytes, 5);
    assert_int_equal(lf_file_read(&out, file, 4, &err), LF_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "5 bytes"));
    assert_non_null(strstr(err.text, "4"));
    assert_int_equal(unlink(file), 0);
    lf_buffer_free(&out);
}

static void an_empty_file_is_an_empty_text(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer out = {0};
    struct lf_map map;
    (void)state;
    const char *file = write_bytes("empty", "", 0);
    assert_int_equal(lf_file_read(&out, file, 0, &err), LF_OK);
    assert_int_equal(out.len, 0);
    assert_string_equal(out.data, "");
    assert_int_equal(lf_map_open(&map, file, &err), LF_OK);
    assert_true(map.data == NULL && map.bytes == 0);
    lf_map_close(&map);
    assert_int_equal(unlink(file), 0);
    lf_buffer_free(&out);
}

static void mapped_and_read_bytes_are_the_same(void **state) {
    static char bytes[200000];
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer out = {0};
    struct lf_map map;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 31 + i / 251);
    const char *file = write_bytes("large", bytes, sizeof bytes);
    assert_int_equal(lf_file_read(&out, file, sizeof bytes, &err), LF_OK);
    assert_int_equal(lf_map_open(&map, file, &err), LF_OK);
    assert_true(out.len == sizeof bytes && map.bytes == sizeof bytes);
    assert_memory_equal(out.data, bytes, sizeof bytes);
    assert_memory_equal(map.data, bytes, sizeof bytes);
    lf_map_close(&map);
    assert_null(map.data);
    assert_int_equal(unlink(file), 0);
    lf_buffer_free(&out);
}

static void the_first_failure_wins_and_long_sentences_are_cut(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    char longer[2000];
    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    errno = EACCES;
    assert_int_equal(lf_fail_errno(&err, LF_E_IO, "cannot open %s", "f"), LF_E_IO);
    assert_int_equal(err.cause, EACCES);
    assert_string_equal(err.text, "cannot open f: Permission denied");
    assert_int_equal(lf_fail_byte(&err, LF_E_JSON, 7, "second"), LF_E_IO);
    assert_int_equal(lf_fail_param(&err, LF_E_VALUE, "n", "third"), LF_E_IO);
    assert_string_equal(err.text, "cannot open f: Permission denied");
    assert_true(err.byte == -1 && !err.param[0]);
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_fail_param(&err, LF_E_VALUE, longer, "%s", longer), LF_E_VALUE);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(strlen(err.param), sizeof err.param - 1);
}

static void every_status_has_a_name_of_its_own(void **state) {
    (void)state;
    int a = LF_OK;
    for (; strcmp(lf_status_name((enum lf_status)a), "unknown") != 0; a++)
        for (int b = LF_OK; b < a; b++)
            assert_string_not_equal(lf_status_name((enum lf_status)a),
                                    lf_status_name((enum lf_status)b));
    assert_true(a > LF_E_DEVICE);
    assert_string_equal(lf_status_name((enum lf_status)1000), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_regular_file_is_refused_without_waiting),
        cmocka_unit_test(files_are_read_to_the_byte_up_to_the_limit),
        cmocka_unit_test(an_empty_file_is_an_empty_text),
        cmocka_unit_test(mapped_and_read_bytes_are_the_same),
        cmocka_unit_test(the_first_failure_wins_and_long_sentences_are_cut),
        cmocka_unit_test(every_status_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
