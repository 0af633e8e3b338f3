#include "format/checkpoint_state.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "format/hub.h"

enum { PATH_BYTES = 4096 };

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

static enum lf_status path_in(char path[PATH_BYTES], const struct lf_checkpoint *c,
                              const char *name, struct lf_error *err) {
    int len = snprintf(path, PATH_BYTES, "%s/%s", c->folder, name);
    if (len < 0 || len >= PATH_BYTES)
        return lf_fail(err, LF_E_TOO_LARGE, "%s: the path of %s is too long", c->folder, name);
    return LF_OK;
}

static bool ends_with(const char *text, const char *tail) {
    size_t len = strlen(text), tail_len = strlen(tail);
    return len >= tail_len && strcmp(text + len - tail_len, tail) == 0;
}

// Names that mark a format this program does not read (section 9, 1.1 rule 5).
static enum lf_status check_format(const char *tensor, const char *file, struct lf_error *err) {
    if (strncmp(tensor, "model.layers.", 13) == 0)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: tensor %.200s marks a Transformers conversion, which is not "
                       "supported; use the release, deepseek-ai/DeepSeek-V4.1-Flash",
                       file, tensor);
    if (ends_with(tensor, ".trellis"))
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: tensor %.200s is in EXL3 format, which is not supported yet; use the "
                       "release, deepseek-ai/DeepSeek-V4.1-Flash",
                       file, tensor);
    return LF_OK;
}

// Reads the index when there is one; *found says whether.
static enum lf_status read_index(struct lf_checkpoint *c, bool *found, struct lf_error *err) {
    char path[PATH_BYTES];
    struct lf_buffer text = {0};
    struct lf_error inner = LF_ERROR_INIT;
    LF_TRY(path_in(path, c, index_name, err));
    *found = false;
    enum lf_status status = lf_file_read(&text, path, LF_SHARD_INDEX_BYTES_MAX, &inner);
    if (status == LF_OK) {
        *found = true;
        status = lf_shard_index_parse(&c->index, &c->arena, text.data, text.len, index_name,
                                      &inner);
    } else if (inner.cause == ENOENT) {
        status = LF_OK;
    }
    lf_buffer_free(&text);
    if (status != LF_OK)
        return *err = inner, status;
    return LF_OK;
}

// One shard for each file of the index, with what the configuration wants from it.
static enum lf_status shards_of_index(struct lf_checkpoint *c, struct lf_error *err) {
    c->indexed = true;
    c->shards = c->index.files;
    c->shard = lf_arena_alloc(&c->arena, c->shards, sizeof *c->shard);
    if (!c->shard)
        return lf_fail(err, LF_E_MEM, "out of memory for %u files", c->shards);
    for (uint32_t i = 0; i < c->shards; i++)
        c->shard[i].name = c->index.file[i];
    for (size_t i = 0; i < c->index.entries; i++) {
        const struct lf_shard_entry *entry = &c->index.entry[i];
        LF_TRY(check_format(entry->tensor, index_name, err));
        const struct lf_wanted *wanted = lf_inventory_find(&c->inventory, entry->tensor);
        c->shard[entry->file].placed++;
        if (wanted)
            c->shard[entry->file].groups |= 1u << wanted->group;
    }
    return LF_OK;
}

struct names {
    const char **name;
    size_t n, cap;
    bool has_single, has_gguf;
};

static int order_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum lf_status add_name(struct lf_checkpoint *c, struct names *names, const char *name,
                               struct lf_error *err) {
    names->has_gguf |= ends_with(name, ".gguf");
    if (!ends_with(name, ".safetensors"))
        return LF_OK;
    names->has_single |= strcmp(name, single_name) == 0;
    if (names->n == names->cap) {
        size_t cap = names->cap ? names->cap * 2 : 64;
        const char **grown = lf_arena_alloc(&c->arena, cap, sizeof *grown);
        if (!grown)
            return lf_fail(err, LF_E_MEM, "out of memory for the files of %s", c->folder);
        if (names->n)
            memcpy(grown, names->name, names->n * sizeof *grown);
        names->name = grown;
        names->cap = cap;
    }
    names->name[names->n] = lf_arena_copy(&c->arena, name, strlen(name));
    if (!names->name[names->n++])
        return lf_fail(err, LF_E_MEM, "out of memory for the files of %s", c->folder);
    return LF_OK;
}

static enum lf_status list_folder(struct lf_checkpoint *c, struct names *names,
                                  struct lf_error *err) {
    DIR *dir = opendir(c->folder);
    if (!dir)
        return lf_fail_errno(err, LF_E_IO, "cannot list %s", c->folder);
    enum lf_status status = LF_OK;
    for (struct dirent *entry = readdir(dir); entry && status == LF_OK; entry = readdir(dir))
        status = add_name(c, names, entry->d_name, err);
    closedir(dir);
    return status;
}

enum lf_status lf_folder_check_gguf(struct lf_checkpoint *c, struct lf_error *err) {
    struct names names = {0};
    LF_TRY(list_folder(c, &names, err));
    if (names.has_gguf && names.n == 0)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s holds GGUF files, which are not supported; use the release, "
                       "deepseek-ai/DeepSeek-V4.1-Flash",
                       c->folder);
    return LF_OK;
}

// Without an index: model.safetensors, else every *.safetensors of the folder.
static enum lf_status shards_of_folder(struct lf_checkpoint *c, struct lf_error *err) {
    struct names names = {0};
    LF_TRY(list_folder(c, &names, err));
    if (names.n == 0)
        return lf_fail(err, LF_E_MISSING, "%s has neither %s nor any *.safetensors file",
                       c->folder, index_name);
    if (names.has_single) {
        names.name[0] = single_name;
        names.n = 1;
    }
    qsort(names.name, names.n, sizeof *names.name, order_text);
    c->shards = (uint32_t)names.n;
    c->shard = lf_arena_alloc(&c->arena, c->shards, sizeof *c->shard);
    if (!c->shard)
        return lf_fail(err, LF_E_MEM, "out of memory for %u files", c->shards);
    for (uint32_t i = 0; i < c->shards; i++) {
        c->shard[i].name = names.name[i];
        c->shard[i].groups = UINT32_MAX;
    }
    return LF_OK;
}

static enum lf_status open_shard(struct lf_checkpoint *c, struct lf_shard *shard,
                                 struct lf_error *err) {
    char path[PATH_BYTES];
    struct lf_error inner = LF_ERROR_INIT;
    LF_TRY(path_in(path, c, shard->name, err));
    if (lf_map_open(&shard->map, path, &inner) != LF_OK) {
        shard->missing = inner.cause == ENOENT;
        if (!shard->missing)
            *err = inner;
        return err->status;
    }
    LF_TRY(lf_safetensors_parse(&shard->header, &c->arena, shard->map.data, shard->map.bytes,
                                shard->name, err));
    for (size_t i = 0; i < shard->header.tensors; i++)
        LF_TRY(check_format(shard->header.tensor[i].name, shard->name, err));
    shard->opened = true;
    return LF_OK;
}

// Files with required tensors must be there; one sentence for all that are not.
static enum lf_status check_missing(const struct lf_checkpoint *c, struct lf_error *err) {
    const uint32_t text = 1u << LF_GROUP_TEXT | 1u << LF_GROUP_DRAFT;
    const uint32_t needed = c->tables_only ? 1u << LF_GROUP_ENGRAM : text;
    const struct lf_shard *first = NULL;
    uint64_t lost = 0;
    uint32_t files = 0;
    char command[LF_HUB_COMMAND_BYTES];
    for (uint32_t i = 0; i < c->shards; i++) {
        const struct lf_shard *shard = &c->shard[i];
        if (!shard->missing)
            continue;
        if (!first && shard->groups & needed)
            first = shard;
        files++;
        lost += shard->placed;
    }
    if (!first)
        return LF_OK;
    lf_hub_command(command, c->folder, files == 1 ? first->name : NULL);
    return lf_fail(err, LF_E_MISSING,
                   "%s: %s is missing (%u of %u files, %" PRIu64 " tensors lost); run: %s",
                   c->folder, first->name, files, c->shards, lost, command);
}

static int order_tensors(const void *a, const void *b) {
    const struct lf_tensor *x = *(const struct lf_tensor *const *)a;
    const struct lf_tensor *y = *(const struct lf_tensor *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->file, y->file);
}

// All tensors of the opened files by name; where a map exists it decides between files.
static enum lf_status collect(struct lf_checkpoint *c, struct lf_error *err) {
    size_t total = 0;
    for (uint32_t i = 0; i < c->shards; i++)
        total += c->shard[i].header.tensors;
    c->tensor = lf_arena_alloc(&c->arena, total, sizeof *c->tensor);
    if (!c->tensor)
        return lf_fail(err, LF_E_MEM, "out of memory for %zu tensors", total);
    for (uint32_t i = 0; i < c->shards; i++) {
        for (size_t k = 0; k < c->shard[i].header.tensors; k++) {
            const struct lf_tensor *t = &c->shard[i].header.tensor[k];
            const struct lf_shard_entry *entry =
                c->indexed ? lf_shard_index_find(&c->index, t->name) : NULL;
            if (!entry || entry->file == i)
                c->tensor[c->tensors++] = t;
        }
    }
    qsort(c->tensor, c->tensors, sizeof *c->tensor, order_tensors);
    for (size_t i = 1; i < c->tensors; i++)
        if (strcmp(c->tensor[i]->name, c->tensor[i - 1]->name) == 0)
            return lf_fail(err, LF_E_FORMAT, "tensor %s is in both %s and %s",
                           c->tensor[i]->name, c->tensor[i - 1]->file, c->tensor[i]->file);
    return LF_OK;
}

enum lf_status lf_shards_open(struct lf_checkpoint *c, struct lf_error *err) {
    const uint32_t wanted = c->tables_only ? 1u << LF_GROUP_ENGRAM : UINT32_MAX;
    bool found;
    LF_TRY(read_index(c, &found, err));
    LF_TRY(found ? shards_of_index(c, err) : shards_of_folder(c, err));
    for (uint32_t i = 0; i < c->shards; i++)
        if (c->shard[i].groups & wanted)
            LF_TRY(open_shard(c, &c->shard[i], err));
    LF_TRY(check_missing(c, err));
    return collect(c, err);
}

void lf_shards_close(struct lf_checkpoint *c) {
    for (uint32_t i = 0; i < c->shards; i++)
        lf_map_close(&c->shard[i].map);
}
