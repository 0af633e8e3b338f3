#include "folder.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "env.h"

enum { PATH_BYTES = 4096 };

static void path_of(char path[PATH_BYTES], const struct folder *folder, const char *name) {
    snprintf(path, PATH_BYTES, "%s/%s", folder->path, name);
}

struct folder folder_empty(void) {
    struct folder folder = {"/tmp/lanefold-test-XXXXXX"};
    if (!mkdtemp(folder.path))
        fail_msg("cannot make %s", folder.path);
    return folder;
}

struct folder folder_demo(void) {
    struct folder folder = folder_empty();
    char demo[PATH_BYTES], from[2 * PATH_BYTES], to[PATH_BYTES];
    snprintf(demo, sizeof demo, "%s/models/demo", env_value("LF_SOURCE_ROOT"));
    DIR *dir = opendir(demo);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(from, sizeof from, "%s/%s", demo, entry->d_name);
        path_of(to, &folder, entry->d_name);
        assert_int_equal(symlink(from, to), 0);
    }
    closedir(dir);
    return folder;
}

struct folder folder_inside(const struct folder *folder, const char *name) {
    struct folder inside;
    int len = snprintf(inside.path, sizeof inside.path, "%s/%s", folder->path, name);
    assert_in_range(len, 1, sizeof inside.path - 1);
    return inside;
}

uint32_t folder_files(const struct folder *folder, char name[256]) {
    uint32_t n = 0;
    DIR *dir = opendir(folder->path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, 256, "%s", entry->d_name);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

void folder_free(struct folder *folder) {
    char path[PATH_BYTES];
    DIR *dir = opendir(folder->path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        path_of(path, folder, entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder->path);
}

void folder_write_below(const struct folder *folder, const char *name, const char *text) {
    char path[PATH_BYTES];
    path_of(path, folder, name);
    for (char *slash = strchr(path + strlen(folder->path) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    folder_write(folder, name, text, strlen(text));
}

void folder_free_all(struct folder *folder) {
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder->path);
    assert_int_equal(system(command), 0);
}

void folder_remove(const struct folder *folder, const char *name) {
    char path[PATH_BYTES];
    path_of(path, folder, name);
    assert_int_equal(unlink(path), 0);
}

void folder_write(const struct folder *folder, const char *name, const void *bytes, size_t len) {
    char path[PATH_BYTES];
    path_of(path, folder, name);
    // The old entry may be a symlink to the demo itself.
    unlink(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

uint8_t *folder_read(const struct folder *folder, const char *name, size_t *len) {
    char path[PATH_BYTES];
    path_of(path, folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *len = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*len + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *len, file), *len);
    bytes[*len] = 0;
    fclose(file);
    return bytes;
}

json_t *folder_json(const struct folder *folder, const char *name) {
    char path[PATH_BYTES];
    path_of(path, folder, name);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

void folder_write_json(const struct folder *folder, const char *name, json_t *root) {
    char *text = json_dumps(root, 0);
    assert_non_null(text);
    folder_write(folder, name, text, strlen(text));
    free(text);
    json_decref(root);
}

struct parts_tensor *parts_find(struct parts *parts, const char *name) {
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->tensor[i].name, name) == 0)
            return &parts->tensor[i];
    return NULL;
}

void parts_set(struct parts *parts, const char *name, const char *dtype, size_t rank,
               const uint64_t *shape, const void *data, size_t bytes) {
    struct parts_tensor *t = parts_find(parts, name);
    if (!t) {
        parts->tensor = realloc(parts->tensor, (parts->n + 1) * sizeof *parts->tensor);
        assert_non_null(parts->tensor);
        t = &parts->tensor[parts->n++];
        *t = (struct parts_tensor){.name = strdup(name)};
    }
    free(t->dtype);
    free(t->data);
    t->dtype = strdup(dtype);
    t->rank = rank;
    memcpy(t->shape, shape, rank * sizeof *shape);
    t->bytes = bytes;
    t->data = calloc(1, bytes + 1);
    assert_non_null(t->data);
    if (data)
        memcpy(t->data, data, bytes);
}

void parts_remove(struct parts *parts, const char *name) {
    struct parts_tensor *t = parts_find(parts, name);
    assert_non_null(t);
    free(t->name);
    free(t->dtype);
    free(t->data);
    *t = parts->tensor[--parts->n];
}

struct parts parts_read(const struct folder *folder, const char *file) {
    struct parts parts = {0};
    size_t len;
    uint64_t header;
    uint8_t *bytes = folder_read(folder, file, &len);
    memcpy(&header, bytes, 8);
    json_t *root = json_loadb((const char *)bytes + 8, header, 0, NULL), *entry;
    const char *name;
    assert_non_null(root);
    json_object_foreach(root, name, entry) {
        const json_t *shape = json_object_get(entry, "shape");
        const json_t *offsets = json_object_get(entry, "data_offsets");
        uint64_t dims[8];
        size_t rank = json_array_size(shape);
        for (size_t i = 0; i < rank; i++)
            dims[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
        size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
        size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
        parts_set(&parts, name, json_string_value(json_object_get(entry, "dtype")), rank, dims,
                  bytes + 8 + header + begin, end - begin);
    }
    json_decref(root);
    free(bytes);
    return parts;
}

void parts_write(const struct parts *parts, const struct folder *folder, const char *file,
                 size_t pad) {
    json_t *root = json_object();
    size_t at = 0;
    for (size_t i = 0; i < parts->n; i++) {
        const struct parts_tensor *t = &parts->tensor[i];
        json_t *shape = json_array();
        for (size_t d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_object_set_new(root, t->name,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", t->dtype, "shape", shape,
                                      "data_offsets", (json_int_t)at,
                                      (json_int_t)(at + t->bytes)));
        at += t->bytes;
    }
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    json_decref(root);
    uint64_t header = strlen(text) + pad;
    uint8_t *bytes = malloc(8 + header + at);
    assert_non_null(bytes);
    memcpy(bytes, &header, 8);
    memset(bytes + 8, ' ', header);
    memcpy(bytes + 8, text, strlen(text));
    uint8_t *data = bytes + 8 + header;
    for (size_t i = 0; i < parts->n; data += parts->tensor[i++].bytes)
        memcpy(data, parts->tensor[i].data, parts->tensor[i].bytes);
    folder_write(folder, file, bytes, 8 + header + at);
    free(bytes);
    free(text);
}

void parts_free(struct parts *parts) {
    while (parts->n)
        parts_remove(parts, parts->tensor[parts->n - 1].name);
    free(parts->tensor);
    *parts = (struct parts){0};
}
