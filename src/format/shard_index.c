#include "format/shard_index.h"

#include <stdlib.h>
#include <string.h>
#include "format/fields.h"
#include "format/safetensors.h"

enum { FILE_NAME_MAX = 255 };

// A plain name of a safetensors file: nothing that could leave the folder.
static enum lf_status check_file_name(const char *name, const char *tensor, const char *origin,
                                      struct lf_error *err) {
    static const char suffix[] = ".safetensors";
    size_t len = strlen(name), tail = sizeof suffix - 1;
    char shown[LF_SHOWN_BYTES];
    if (strchr(name, '/') || strchr(name, '\\'))
        return lf_fail(err, LF_E_FORMAT,
                       "%s: weight_map places tensor %.200s in a path, not a plain file name",
                       origin, tensor);
    if (len <= tail || len > FILE_NAME_MAX || strcmp(name + len - tail, suffix) != 0)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: weight_map places tensor %.200s in %s, which is not NAME%s of at "
                       "most %d bytes",
                       origin, tensor, lf_fields_shown(shown, name), suffix, FILE_NAME_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return lf_fail(err, LF_E_FORMAT,
                           "%s: weight_map places tensor %.200s in %s, with control characters",
                           origin, tensor, lf_fields_shown(shown, name));
    return LF_OK;
}

static int order_by_file(const void *a, const void *b) {
    const struct lf_shard_entry *x = a, *y = b;
    return strcmp(x->file_name, y->file_name);
}

static int order_by_tensor(const void *a, const void *b) {
    const struct lf_shard_entry *x = a, *y = b;
    return strcmp(x->tensor, y->tensor);
}

// Copies each different file name once and numbers the entries' files.
static enum lf_status number_files(struct lf_shard_index *out, struct lf_arena *arena,
                                   const char *origin, struct lf_error *err) {
    uint32_t files = 0;
    qsort(out->entry, out->entries, sizeof *out->entry, order_by_file);
    for (size_t i = 0; i < out->entries; i++)
        files += i == 0 || order_by_file(&out->entry[i - 1], &out->entry[i]) != 0;
    out->file = lf_arena_alloc(arena, files, sizeof *out->file);
    if (!out->file)
        return lf_fail(err, LF_E_MEM, "%s: out of memory", origin);
    for (size_t i = 0; i < out->entries; i++) {
        const char *name = out->entry[i].file_name;
        if (out->files == 0 || strcmp(out->file[out->files - 1], name) != 0) {
            name = lf_arena_copy(arena, name, strlen(name));
            if (!name)
                return lf_fail(err, LF_E_MEM, "%s: out of memory", origin);
            out->file[out->files++] = name;
        }
        out->entry[i].file = out->files - 1;
        out->entry[i].file_name = out->file[out->files - 1];
    }
    qsort(out->entry, out->entries, sizeof *out->entry, order_by_tensor);
    return LF_OK;
}

static enum lf_status read_map(struct lf_shard_index *out, struct lf_arena *arena,
                               const json_t *map, const char *origin, struct lf_error *err) {
    const char *key;
    json_t *value;
    size_t name_bytes = 0;
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
        name_bytes += strlen(key) + 1;
    char *name = lf_arena_alloc(arena, name_bytes, 1);
    out->entry = lf_arena_alloc(arena, json_object_size(map), sizeof *out->entry);
    if (!name || !out->entry)
        return lf_fail(err, LF_E_MEM, "%s: out of memory for %zu names", origin,
                       json_object_size(map));
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        const char *file = json_string_value(value);
        LF_TRY(lf_tensor_name_check(key, origin, err));
        if (!file)
            return lf_fail(err, LF_E_TYPE, "%s: weight_map.%.200s must be a string", origin, key);
        LF_TRY(check_file_name(file, key, origin, err));
        size_t len = strlen(key) + 1;
        memcpy(name, key, len);
        out->entry[out->entries++] = (struct lf_shard_entry){.tensor = name, .file_name = file};
        name += len;
    }
    // The file names still belong to the JSON: number_files copies them.
    return number_files(out, arena, origin, err);
}

static enum lf_status read_index(struct lf_shard_index *out, struct lf_arena *arena,
                                 const struct lf_fields *root, struct lf_error *err) {
    const json_t *map;
    LF_TRY(lf_fields_object(root, "weight_map", &map, err));
    LF_TRY(read_map(out, arena, map, root->origin, err));
    const json_t *total = json_object_get(json_object_get(root->object, "metadata"), "total_size");
    out->has_total = json_is_integer(total) && json_integer_value(total) >= 0;
    out->total_bytes = out->has_total ? (uint64_t)json_integer_value(total) : 0;
    return LF_OK;
}

enum lf_status lf_shard_index_parse(struct lf_shard_index *out, struct lf_arena *arena,
                                    const char *text, size_t len, const char *origin,
                                    struct lf_error *err) {
    json_t *object;
    *out = (struct lf_shard_index){0};
    LF_TRY(lf_fields_load(&object, text, len, origin, err));
    struct lf_fields root = {object, origin, ""};
    enum lf_status status = read_index(out, arena, &root, err);
    json_decref(object);
    return status;
}

const struct lf_shard_entry *lf_shard_index_find(const struct lf_shard_index *index,
                                                 const char *tensor) {
    struct lf_shard_entry key = {.tensor = tensor};
    if (index->entries == 0)
        return NULL;
    return bsearch(&key, index->entry, index->entries, sizeof key, order_by_tensor);
}
