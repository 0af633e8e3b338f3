// Test vectors: tests/data/vectors/NAME.json through jansson, and numbers out of it.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "env.h"

// The whole file; the test fails when it cannot be read. The caller releases it with json_decref.
static inline json_t *vectors_load(const char *name) {
    char path[4096];
    const char *root = env_value("LF_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/data/vectors/%s.json", root ? root : ".", name);
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!file)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return file;
}

static inline json_t *vectors_get(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("no %s in the vectors", key);
    return value;
}

static inline double vectors_number(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

// "0x3f800000"
static inline uint32_t vectors_bits(const json_t *object, const char *key) {
    const json_t *value = vectors_get(object, key);
    assert_true(json_is_string(value));
    return (uint32_t)strtoul(json_string_value(value), NULL, 16);
}
