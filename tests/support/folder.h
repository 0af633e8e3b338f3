// A temporary copy of the demo model whose files a test may replace or take away.
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct folder {
    char path[64];
};

// Every demo file as a symlink. The test fails when the folder cannot be made.
struct folder folder_demo(void);
struct folder folder_empty(void);
struct folder folder_inside(const struct folder *folder, const char *name); // a path, not made
// How many files it has, and the name of one.
uint32_t folder_files(const struct folder *folder, char name[256]);
void folder_free(struct folder *folder); // removes it with its files
void folder_write(const struct folder *folder, const char *name, const void *bytes, size_t len);
// The same for a text whose name has folders in it, which are made; folder_free_all removes them.
void folder_write_below(const struct folder *folder, const char *name, const char *text);
void folder_free_all(struct folder *folder);
void folder_remove(const struct folder *folder, const char *name);
// The bytes of a file of the folder, from malloc.
uint8_t *folder_read(const struct folder *folder, const char *name, size_t *len);
json_t *folder_json(const struct folder *folder, const char *name);
// Writes and releases root.
void folder_write_json(const struct folder *folder, const char *name, json_t *root);

// A safetensors file taken apart, to be changed and put together again.
struct parts_tensor {
    char *name, *dtype;
    uint64_t shape[8];
    size_t rank, bytes;
    uint8_t *data;
};
struct parts {
    struct parts_tensor *tensor;
    size_t n;
};
struct parts parts_read(const struct folder *folder, const char *file);
// pad: spaces after the header, so that the data starts at any remainder.
void parts_write(const struct parts *parts, const struct folder *folder, const char *file,
                 size_t pad);
struct parts_tensor *parts_find(struct parts *parts, const char *name);
// Adds or replaces; data NULL: zeros.
void parts_set(struct parts *parts, const char *name, const char *dtype, size_t rank,
               const uint64_t *shape, const void *data, size_t bytes);
void parts_remove(struct parts *parts, const char *name);
void parts_free(struct parts *parts);
