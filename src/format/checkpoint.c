#include "format/checkpoint_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/process.h"
#include "base/sha256.h"
#include "format/topology_cut.h"

enum { PATH_BYTES = 4096, CONFIG_BYTES_MAX = 1 << 20 };

static enum lf_status read_topology(struct lf_checkpoint *c, struct lf_error *err) {
    char path[PATH_BYTES];
    struct lf_buffer text = {0};
    struct lf_error inner = LF_ERROR_INIT;
    int len = snprintf(path, sizeof path, "%s/config.json", c->folder);
    if (len < 0 || len >= PATH_BYTES)
        return lf_fail(err, LF_E_TOO_LARGE, "%s: the path of config.json is too long", c->folder);
    enum lf_status status = lf_file_read(&text, path, CONFIG_BYTES_MAX, &inner);
    if (status == LF_OK) {
        status = lf_topology_parse(&c->topology, text.data, text.len, path, err);
    } else if (inner.cause == ENOENT) {
        // A folder of GGUF files has no config.json: say what it is instead.
        status = lf_folder_check_gguf(c, err);
        if (status == LF_OK)
            status = lf_fail(err, LF_E_MISSING, "%s has no config.json", c->folder);
    } else {
        *err = inner;
    }
    lf_buffer_free(&text);
    return status;
}

// Models that differ in what was made up or cut are different models: so are their names.
static void name_dummy(struct lf_topology *t, const struct lf_dummy *dummy) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, t->config_sha256, sizeof t->config_sha256);
    lf_sha256_add(&sha, &dummy->seed, sizeof dummy->seed);
    lf_sha256_add(&sha, t->engram_rows, sizeof t->engram_rows);
    if (dummy->n_layers)
        lf_sha256_add(&sha, dummy->layer, dummy->n_layers * sizeof *dummy->layer);
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, t->config_sha256);
}

static enum lf_status open_dummy(struct lf_checkpoint *c, const struct lf_dummy *dummy,
                                 struct lf_error *err) {
    if (c->topology.quantization.exl3)
        return lf_fail(err, LF_E_UNSUPPORTED, "%s: weights can be made up in the release's formats "
                                              "only, config.json says exl3", c->folder);
    if (dummy->n_layers)
        LF_TRY(lf_topology_cut(&c->topology, dummy->layer, dummy->n_layers, err));
    if (dummy->table_rows)
        LF_TRY(lf_topology_cut_tables(&c->topology, dummy->table_rows, err));
    name_dummy(&c->topology, dummy);
    LF_TRY(lf_inventory_build(&c->inventory, &c->arena, &c->topology, err));
    return lf_dummy_open(c, dummy, err);
}

static enum lf_status open_files(struct lf_checkpoint *c, struct lf_error *err) {
    LF_TRY(lf_folder_check_gguf(c, err));
    LF_TRY(lf_inventory_build(&c->inventory, &c->arena, &c->topology, err));
    return lf_shards_open(c, err);
}

static enum lf_status open_all(struct lf_checkpoint *c, const char *folder,
                               const struct lf_dummy *dummy, struct lf_error *err) {
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    c->folder = lf_arena_copy(&c->arena, folder, len);
    if (!c->folder)
        return lf_fail(err, LF_E_MEM, "out of memory opening %s", folder);
    LF_TRY(read_topology(c, err));
    LF_TRY(dummy ? open_dummy(c, dummy, err) : open_files(c, err));
    return lf_checkpoint_check(c, err);
}

static enum lf_status open_folder(struct lf_checkpoint **out, const char *folder,
                                  bool tables_only, const struct lf_dummy *dummy,
                                  struct lf_error *err) {
    *out = NULL;
    struct lf_checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return lf_fail(err, LF_E_MEM, "out of memory opening %s", folder);
    c->tables_only = tables_only;
    enum lf_status status = open_all(c, folder, dummy, err);
    if (status != LF_OK) {
        lf_checkpoint_close(c);
        return status;
    }
    *out = c;
    return LF_OK;
}

enum lf_status lf_checkpoint_open(struct lf_checkpoint **out, const char *folder,
                                  struct lf_error *err) {
    return open_folder(out, folder, false, NULL, err);
}

enum lf_status lf_checkpoint_open_tables(struct lf_checkpoint **out, const char *folder,
                                         struct lf_error *err) {
    return open_folder(out, folder, true, NULL, err);
}

enum lf_status lf_checkpoint_open_dummy(struct lf_checkpoint **out, const char *folder,
                                        const struct lf_dummy *dummy, struct lf_error *err) {
    return open_folder(out, folder, false, dummy, err);
}

void lf_checkpoint_close(struct lf_checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    lf_shards_close(checkpoint);
    lf_dummy_close(checkpoint);
    lf_arena_free(&checkpoint->arena);
    free(checkpoint);
}

static bool holds(const uint8_t *data, uint64_t data_bytes, const uint8_t *at, uint64_t bytes) {
    return data && at >= data && bytes <= data_bytes &&
           at - data <= (ptrdiff_t)(data_bytes - bytes);
}

void lf_checkpoint_forget(const struct lf_checkpoint *c, const void *at, uint64_t bytes) {
    bool mapped = holds(c->dummy.data, c->dummy.bytes, at, bytes);
    for (uint32_t i = 0; !mapped && i < c->shards; i++)
        mapped = holds(c->shard[i].map.data, c->shard[i].map.bytes, at, bytes);
    // What was widened lies in the checkpoint's own memory and stays.
    if (mapped)
        lf_memory_give_back((void *)(uintptr_t)at, bytes);
}

const struct lf_topology *lf_checkpoint_topology(const struct lf_checkpoint *checkpoint) {
    return &checkpoint->topology;
}

const char *lf_checkpoint_folder(const struct lf_checkpoint *checkpoint) {
    return checkpoint->folder;
}

static int order_key(const void *key, const void *slot) {
    return strcmp(key, (*(const struct lf_tensor *const *)slot)->name);
}

const struct lf_tensor *lf_checkpoint_find(const struct lf_checkpoint *checkpoint,
                                           const char *name) {
    if (checkpoint->tensors == 0)
        return NULL;
    const struct lf_tensor **slot = bsearch(name, checkpoint->tensor, checkpoint->tensors,
                                            sizeof *checkpoint->tensor, order_key);
    return slot ? *slot : NULL;
}

void lf_checkpoint_summary(const struct lf_checkpoint *checkpoint,
                           struct lf_checkpoint_summary *out) {
    *out = checkpoint->summary;
    out->held_bytes = checkpoint->arena.bytes;
}
