#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "format/checkpoint.h"
#include "format/hub.h"

#define C1 "dba1be0a40aa45a94ad051997016db3960a90277"
#define C2 "0123456789abcdef0123456789ABCDEF01234567"

static char root[64], path[4096];

static const char *at(const char *below) {
    snprintf(path, sizeof path, "%s/%s", root, below);
    return path;
}

static void make_folder(const char *below) {
    assert_int_equal(mkdir(at(below), 0755), 0);
}

static void write_text(const char *below, const char *text) {
    FILE *file = fopen(at(below), "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/lanefold-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    make_folder("cache");
    static const char *const models[] = {"a--one", "a--two", "a--none", "a--ref"};
    for (size_t i = 0; i < 4; i++) {
        char below[128];
        snprintf(below, sizeof below, "cache/models--%s", models[i]);
        make_folder(below);
        snprintf(below, sizeof below, "cache/models--%s/snapshots", models[i]);
        make_folder(below);
        snprintf(below, sizeof below, "cache/models--%s/refs", models[i]);
        make_folder(below);
    }
    make_folder("cache/models--a--one/snapshots/" C1);
    make_folder("cache/models--a--one/snapshots/notes");
    make_folder("cache/models--a--two/snapshots/" C1);
    make_folder("cache/models--a--two/snapshots/" C2);
    make_folder("cache/models--a--ref/snapshots/" C1);
    make_folder("cache/models--a--ref/snapshots/" C2);
    write_text("cache/models--a--ref/refs/main", C2 "\n");
    make_folder("local");
    write_text("model.gguf", "GGUF");
    write_text("plain", "x");
    static const char *const variables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                            "XDG_CACHE_HOME"};
    for (size_t i = 0; i < 4; i++)
        unsetenv(variables[i]);
    setenv("HF_HUB_CACHE", at("cache"), 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void found(const char *model, const char *expected) {
    char folder[4096];
    struct lf_error err = LF_ERROR_INIT;
    if (lf_model_find(folder, sizeof folder, model, &err) != LF_OK)
        fail_msg("%s: %s", model, err.text);
    if (!strstr(folder, expected) || strcmp(strstr(folder, expected), expected) != 0)
        fail_msg("%s: expected %s, found %s", model, expected, folder);
}

static void refused(const char *model, const char *expected) {
    char folder[4096];
    struct lf_error err = LF_ERROR_INIT;
    if (lf_model_find(folder, sizeof folder, model, &err) == LF_OK)
        fail_msg("%s: found %s", model, folder);
    if (!strstr(err.text, expected))
        fail_msg("%s: expected %s, got %s", model, expected, err.text);
}

// checkpoint.md 8.3.
static void does_a_name_lead_to_its_snapshot(void **state) {
    (void)state;
    found("a/ref", "/cache/models--a--ref/snapshots/" C2);
    found("a/one", "/models--a--one/snapshots/" C1);
    found("a/two@" C1, "/models--a--two/snapshots/" C1);
    found("a/ref@" C1, "/models--a--ref/snapshots/" C1);
}

static void is_nothing_guessed(void **state) {
    (void)state;
    refused("a/two", "has 2 snapshots and no refs/main; name one as a/two@COMMIT");
    refused("a/none", "run: hf download a/none");
    refused("a/unknown", "run: hf download a/unknown");
    refused("a/one@" C2, "run: hf download a/one --revision " C2);
    write_text("cache/models--a--none/refs/main", "../../..");
    refused("a/none", "refs/main must hold a commit of 40 hex digits");
    write_text("cache/models--a--none/refs/main", "");
    refused("a/none", "refs/main must hold a commit of 40 hex digits");
    write_text("cache/models--a--none/refs/main", C1);
    refused("a/none", "snapshot " C1 " is not in the hub cache");
}

static void is_every_bad_name_refused(void **state) {
    (void)state;
    static const char *const names[] = {
        "", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/.b", "a/b.", "-a/b", "a/b-", "a/b--c",
        "a/b..c", "a/b c", "a/b@main", "a/b@" C1 "0", "a@" C1 "/b", "a/\xc3\xa4", "a/b\n",
        "a/0123456789012345678901234567890123456789012345678901234567890123456789"
        "01234567890123456789012345678",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refused(names[i], "is neither a folder nor a hub name");
}

static void does_a_local_path_win(void **state) {
    (void)state;
    char local[4096];
    snprintf(local, sizeof local, "%s/local", root);
    found(local, "/local");
    snprintf(local, sizeof local, "%s/model.gguf", root);
    refused(local, "GGUF");
    snprintf(local, sizeof local, "%s/plain", root);
    refused(local, "is not a folder");
}

static void is_a_short_buffer_refused(void **state) {
    (void)state;
    char folder[8];
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_model_find(folder, sizeof folder, root, &err), LF_E_TOO_LARGE);
}

// The order of 8.3: each variable is used when those before it are not set.
static void is_the_root_the_first_variable_that_is_set(void **state) {
    (void)state;
    char home[4096];
    snprintf(home, sizeof home, "%s", at("me"));
    setenv("HOME", home, 1);
    setenv("HF_HUB_CACHE", "", 1);
    refused("a/one", "/me/.cache/huggingface/hub");
    setenv("XDG_CACHE_HOME", at("xdg"), 1);
    refused("a/one", "/xdg/huggingface/hub");
    setenv("HF_HOME", at("hf"), 1);
    refused("a/one", "/hf/hub");
    setenv("HUGGINGFACE_HUB_CACHE", at("cache"), 1);
    found("a/one", C1);
    setenv("HF_HUB_CACHE", at("other"), 1);
    refused("a/one", "/other");
    setenv("HF_HUB_CACHE", at("cache"), 1);
}

static void does_the_command_name_the_repository(void **state) {
    (void)state;
    char command[LF_HUB_COMMAND_BYTES];
    lf_hub_command(command, "/c/models--org--na-me/snapshots/" C1, "m.safetensors");
    assert_string_equal(command, "hf download org/na-me m.safetensors --revision " C1);
    lf_hub_command(command, "/models/x", "a;b.safetensors");
    assert_string_equal(command, "hf download REPOSITORY --local-dir /models/x");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_a_name_lead_to_its_snapshot),
        cmocka_unit_test(is_nothing_guessed),
        cmocka_unit_test(is_every_bad_name_refused),
        cmocka_unit_test(does_a_local_path_win),
        cmocka_unit_test(is_a_short_buffer_refused),
        cmocka_unit_test(is_the_root_the_first_variable_that_is_set),
        cmocka_unit_test(does_the_command_name_the_repository),
    };
    return cmocka_run_group_tests_name("hub", tests, set_up, tear_down);
}
