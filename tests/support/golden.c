#include "golden.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "env.h"

void lf_golden_die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static void source_path(char path[4096], const char *folder, const char *name) {
    const char *root = env_value("LF_SOURCE_ROOT");
    snprintf(path, 4096, "%s/%s/%s", root ? root : ".", folder, name);
}

static void read_header(struct lf_golden *g, const char *path) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer whole = {0};
    uint64_t header_bytes = 0;
    if (lf_file_read(&whole, path, 64 << 20, &err) != LF_OK)
        lf_golden_die("%s", err.text);
    g->file = (uint8_t *)whole.data;
    g->file_bytes = whole.len;
    for (int i = 7; whole.len >= 8 && i >= 0; i--)
        header_bytes = header_bytes << 8 | g->file[i];
    if (whole.len < 8 || header_bytes > whole.len - 8)
        lf_golden_die("%s: no safetensors header", path);
    g->data_at = 8 + header_bytes;
    g->header = json_loadb(whole.data + 8, header_bytes, 0, NULL);
    if (!g->header)
        lf_golden_die("%s: the header is no JSON", path);
}

void lf_golden_open(struct lf_golden *g, const char *name) {
    char path[4096], file[64];
    *g = (struct lf_golden){.name = name};
    snprintf(file, sizeof file, "%s.json", name);
    source_path(path, "tests/data/demo-golden", file);
    g->json = json_load_file(path, 0, NULL);
    if (!g->json)
        lf_golden_die("%s: no JSON", path);
    snprintf(file, sizeof file, "%s.safetensors", name);
    source_path(path, "tests/data/demo-golden", file);
    read_header(g, path);
    struct lf_golden_tensor ids = lf_golden_find(g, "ids");
    struct lf_golden_tensor positions = lf_golden_find(g, "positions");
    if (!ids.data || !positions.data || strcmp(ids.dtype, "I32") || strcmp(positions.dtype, "I32"))
        lf_golden_die("%s: no ids or positions", path);
    g->ids = ids.data;
    g->rows = (uint32_t)ids.count;
    g->positions = positions.data;
    g->points = (uint32_t)positions.count;
}

void lf_golden_close(struct lf_golden *g) {
    json_decref(g->json);
    json_decref(g->header);
    free(g->file);
    lf_arena_free(&g->arena);
    *g = (struct lf_golden){0};
}

static size_t dtype_bytes(const char *dtype) {
    return !strcmp(dtype, "F32") || !strcmp(dtype, "I32") ? 4 : !strcmp(dtype, "BF16") ? 2 : 1;
}

static struct lf_golden_tensor find(struct lf_golden *g, const char *name) {
    struct lf_golden_tensor t = {0};
    json_t *entry = json_object_get(g->header, name), *offsets, *shape;
    if (!entry)
        return t;
    offsets = json_object_get(entry, "data_offsets");
    shape = json_object_get(entry, "shape");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    uint64_t first = (uint64_t)json_integer_value(json_array_get(offsets, 0));
    uint64_t end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
    snprintf(t.dtype, sizeof t.dtype, "%s", dtype ? dtype : "");
    t.rank = (uint32_t)json_array_size(shape);
    t.count = 1;
    for (uint32_t i = 0; i < t.rank && i < 4; i++)
        t.count *= t.shape[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
    if (end < first || end > g->file_bytes - g->data_at || t.rank > 4 ||
        end - first != t.count * dtype_bytes(t.dtype))
        lf_golden_die("%s: tensor %s does not fit its file", g->name, name);
    void *copy = lf_arena_alloc(&g->arena, end - first + 1, 1);
    if (!copy)
        lf_golden_die("out of memory for %s", name);
    t.data = memcpy(copy, g->file + g->data_at + first, end - first);
    return t;
}

struct lf_golden_tensor lf_golden_find(struct lf_golden *g, const char *format, ...) {
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return find(g, name);
}

const void *lf_golden_get(struct lf_golden *g, const char *dtype, size_t count,
                          const char *format, ...) {
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    struct lf_golden_tensor t = find(g, name);
    if (!t.data || strcmp(t.dtype, dtype) || (count && t.count != count))
        lf_golden_die("%s: tensor %s: expected %zu of %s, found %zu of %s", g->name, name, count,
                      dtype, t.count, t.data ? t.dtype : "nothing");
    return t.data;
}

const uint32_t *lf_golden_ints(struct lf_golden *g, const char *key, size_t *n) {
    json_t *array = json_object_get(g->json, key), *value;
    size_t i;
    if (!json_is_array(array))
        lf_golden_die("%s.json: no list %s", g->name, key);
    *n = json_array_size(array);
    uint32_t *out = lf_arena_alloc(&g->arena, *n + 1, sizeof *out);
    if (!out)
        lf_golden_die("out of memory for %s", key);
    json_array_foreach(array, i, value)
        out[i] = (uint32_t)json_integer_value(value);
    return out;
}

double lf_golden_number(struct lf_golden *g, const char *key) {
    json_t *value = json_object_get(g->json, key);
    if (!json_is_number(value))
        lf_golden_die("%s.json: no number %s", g->name, key);
    return json_number_value(value);
}

void lf_demo_open(struct lf_demo *demo) {
    struct lf_error err = LF_ERROR_INIT;
    char path[4096];
    *demo = (struct lf_demo){0};
    source_path(path, "models", "demo");
    if (lf_checkpoint_open(&demo->checkpoint, path, &err) != LF_OK)
        lf_golden_die("%s", err.text);
    source_path(path, "models/demo", "tokenizer.json");
    if (lf_tokenizer_open(&demo->tokenizer, path, &err) != LF_OK ||
        lf_token_map_build(&demo->map, demo->tokenizer,
                           lf_checkpoint_topology(demo->checkpoint)->engram_classes,
                           &err) != LF_OK)
        lf_golden_die("%s", err.text);
}

void lf_demo_close(struct lf_demo *demo) {
    lf_token_map_free(&demo->map);
    lf_tokenizer_close(demo->tokenizer);
    lf_checkpoint_close(demo->checkpoint);
    *demo = (struct lf_demo){0};
}

struct lf_target *lf_demo_target(struct lf_demo *demo, const struct lf_model_options *options) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_target *target;
    if (lf_model_open(&target, demo->checkpoint, &demo->map, options, &err) != LF_OK)
        lf_golden_die("%s", err.text);
    return target;
}
