// Do keys match in full only, does the key file follow its changes, and which Hosts pass?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "serve/auth.h"

static char path[] = "lf-auth-test-XXXXXX";

static void write_keys(const char *text, mode_t mode, time_t changed) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && !fclose(file));
    struct timespec times[2] = {{.tv_sec = changed}, {.tv_sec = changed}};
    assert_int_equal(chmod(path, mode), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool match(struct lf_keys *keys, const char *text) {
    return lf_keys_match(keys, text, strlen(text));
}

static void a_key_matches_in_full_only(void **state) {
    (void)state;
    const char *const given[] = {"alpha", "beta"};
    struct lf_keys keys;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_keys_open(&keys, given, 2, NULL, &err), LF_OK);
    assert_true(keys.wanted && match(&keys, "alpha") && match(&keys, "beta"));
    assert_false(match(&keys, "alph") || match(&keys, "alphaa") || match(&keys, ""));
    lf_keys_close(&keys);
}

static void the_file_is_read_again_when_it_changes(void **state) {
    (void)state;
    struct lf_keys keys;
    struct lf_error err = LF_ERROR_INIT;
    write_keys("# keys\n\nme: one\ntwo\r\n", 0600, 1000);
    assert_int_equal(lf_keys_open(&keys, NULL, 0, path, &err), LF_OK);
    assert_true(match(&keys, "one") && match(&keys, "two") && !match(&keys, "me: one"));
    write_keys("three\n", 0600, 2000);
    lf_keys_refresh(&keys, 10);
    assert_true(match(&keys, "three") && !match(&keys, "one"));
    write_keys("\n", 0600, 3000);
    lf_keys_refresh(&keys, 10.5);
    assert_true(match(&keys, "three"));
    lf_keys_refresh(&keys, 12);
    assert_true(keys.wanted && !match(&keys, "three") && !match(&keys, ""));
    write_keys("four\n", 0600, 4000);
    lf_keys_refresh(&keys, 14);
    assert_true(match(&keys, "four"));
    lf_keys_close(&keys);
}

static void a_file_others_can_read_or_without_keys_is_refused(void **state) {
    (void)state;
    struct lf_keys keys;
    struct lf_error err = LF_ERROR_INIT;
    write_keys("one\n", 0644, 1000);
    assert_int_equal(lf_keys_open(&keys, NULL, 0, path, &err), LF_E_IO);
    assert_non_null(strstr(err.text, "readable by others"));
    lf_keys_close(&keys);
    err = (struct lf_error)LF_ERROR_INIT;
    write_keys("# none\n", 0600, 1000);
    assert_int_equal(lf_keys_open(&keys, NULL, 0, path, &err), LF_E_FORMAT);
    lf_keys_close(&keys);
}

static void only_loopback_names_and_allowed_hosts_pass(void **state) {
    (void)state;
    const char *const allowed[] = {"my.host"};
    static const char *const good[] = {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.9.9.9",
                                       "[::1]:80", "[::1]", "my.host", "MY.host:443"};
    static const char *const bad[] = {"evil.com", "localhost.evil.com", "127.0.0.1.evil.com",
                                      "127.evil.1.2", "[::2]", "", "xmy.host", "10.0.0.1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(lf_host_allowed(good[i], allowed, 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(lf_host_allowed(bad[i], allowed, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_matches_in_full_only),
        cmocka_unit_test(the_file_is_read_again_when_it_changes),
        cmocka_unit_test(a_file_others_can_read_or_without_keys_is_refused),
        cmocka_unit_test(only_loopback_names_and_allowed_hosts_pass),
    };
    int fd = mkstemp(path);
    if (fd < 0 || close(fd))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
