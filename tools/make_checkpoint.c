// Writes a checkpoint for a config.json in the release's layout: the bytes of --dummy-weights.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "format/dummy.h"

enum { PART_BYTES = 1 << 20, PATH_BYTES = 4096 };

struct maker {
    const char *folder;
    const struct lf_tensor *tensor; // [n]
    uint64_t n, seed, shard_bytes;
    uint32_t shards;
    uint32_t *shard; // [n] of a tensor
};

static void name_shard(char *name, size_t bytes, const struct maker *m, uint32_t shard) {
    snprintf(name, bytes, "model-%05u-of-%05u.safetensors", shard + 1, m->shards);
}

// Tensors in their order, a new file where one would pass the limit.
static enum lf_status place(struct maker *m, struct lf_error *err) {
    uint64_t used = 0;
    m->shard = calloc(m->n, sizeof *m->shard);
    if (!m->shard)
        return lf_fail(err, LF_E_MEM, "out of memory for %" PRIu64 " tensors", m->n);
    for (uint64_t i = 0; i < m->n; i++) {
        if (used && m->tensor[i].bytes > m->shard_bytes - used) {
            m->shards++;
            used = 0;
        }
        m->shard[i] = m->shards;
        used += m->tensor[i].bytes;
        used = used > m->shard_bytes ? m->shard_bytes : used;
    }
    m->shards++;
    return LF_OK;
}

static void add_header(struct lf_buffer *out, const struct maker *m, uint32_t shard) {
    uint64_t at = 0;
    lf_buffer_add_text(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint64_t i = 0; i < m->n; i++) {
        const struct lf_tensor *t = &m->tensor[i];
        if (m->shard[i] != shard)
            continue;
        lf_buffer_printf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, t->name,
                         t->dtype_name, t->shape[0]);
        if (t->rank == 2)
            lf_buffer_printf(out, ",%" PRIu64, t->shape[1]);
        lf_buffer_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->bytes);
        at += t->bytes;
    }
    lf_buffer_add_text(out, "}");
    while (out->len % 8 && !out->failed)
        lf_buffer_add_text(out, " ");
}

static enum lf_status write_tensor(FILE *file, const struct maker *m, const struct lf_tensor *t,
                                   uint8_t *part, struct lf_error *err) {
    for (uint64_t at = 0; at < t->bytes; at += PART_BYTES) {
        uint64_t left = t->bytes - at, bytes = left < PART_BYTES ? left : PART_BYTES;
        lf_dummy_write(t, m->seed, at, bytes, part);
        if (fwrite(part, 1, bytes, file) != bytes)
            return lf_fail_errno(err, LF_E_IO, "cannot write tensor %s", t->name);
    }
    return LF_OK;
}

static enum lf_status open_in(FILE **file, const struct maker *m, const char *name,
                              struct lf_error *err) {
    char path[PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s/%s", m->folder, name);
    *file = len < PATH_BYTES ? fopen(path, "wbx") : NULL;
    return *file ? LF_OK : lf_fail_errno(err, LF_E_IO, "cannot make %s in %s", name, m->folder);
}

static enum lf_status close_file(FILE *file, const char *name, struct lf_error *err) {
    return fclose(file) == 0 ? LF_OK : lf_fail_errno(err, LF_E_IO, "cannot write %s", name);
}

static enum lf_status write_shard(const struct maker *m, uint32_t shard, uint8_t *part,
                                  struct lf_error *err) {
    struct lf_buffer header = {0};
    char name[64];
    FILE *file;
    name_shard(name, sizeof name, m, shard);
    LF_TRY(open_in(&file, m, name, err));
    add_header(&header, m, shard);
    uint64_t bytes = header.len;
    if (header.failed)
        lf_fail(err, LF_E_MEM, "out of memory for a header");
    else if (fwrite(&bytes, sizeof bytes, 1, file) != 1 ||
             fwrite(header.data, 1, header.len, file) != header.len)
        lf_fail_errno(err, LF_E_IO, "cannot write %s", name);
    for (uint64_t i = 0; i < m->n && err->status == LF_OK; i++)
        if (m->shard[i] == shard)
            (void)!write_tensor(file, m, &m->tensor[i], part, err);
    lf_buffer_free(&header);
    if (err->status != LF_OK) {
        fclose(file);
        return err->status;
    }
    return close_file(file, name, err);
}

static enum lf_status write_index(const struct maker *m, struct lf_error *err) {
    FILE *file;
    char name[64];
    uint64_t total = 0;
    for (uint64_t i = 0; i < m->n; i++)
        total += m->tensor[i].bytes;
    LF_TRY(open_in(&file, m, "model.safetensors.index.json", err));
    fprintf(file, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{", total);
    for (uint64_t i = 0; i < m->n; i++) {
        name_shard(name, sizeof name, m, m->shard[i]);
        fprintf(file, "%s\n\"%s\":\"%s\"", i ? "," : "", m->tensor[i].name, name);
    }
    fputs("}}\n", file);
    return close_file(file, "the index", err);
}

static enum lf_status make(struct maker *m, struct lf_error *err) {
    struct lf_checkpoint *c;
    struct lf_dummy dummy = {.seed = m->seed};
    uint8_t *part = malloc(PART_BYTES);
    if (!part)
        return lf_fail(err, LF_E_MEM, "out of memory");
    if (lf_checkpoint_open_dummy(&c, m->folder, &dummy, err) == LF_OK) {
        m->tensor = lf_dummy_tensors(c, &m->n);
        // The index first: a folder that has one is refused before anything is written.
        if (place(m, err) == LF_OK && write_index(m, err) == LF_OK)
            for (uint32_t s = 0; s < m->shards && err->status == LF_OK; s++)
                (void)!write_shard(m, s, part, err);
        lf_checkpoint_close(c);
    }
    free(m->shard);
    free(part);
    return err->status;
}

int main(int argc, char **argv) {
    struct lf_error err = LF_ERROR_INIT;
    char *end = "x", *end_bytes = "";
    struct maker m = {.shard_bytes = UINT64_C(5) << 30};
    if (argc >= 3)
        m.seed = strtoull(argv[2], &end, 10);
    if (argc == 4)
        m.shard_bytes = strtoull(argv[3], &end_bytes, 10);
    if (argc < 3 || argc > 4 || *end || *end_bytes || !m.shard_bytes) {
        fputs("usage: make_checkpoint FOLDER SEED [SHARD_BYTES]\n"
              "Writes weights for FOLDER/config.json into FOLDER.\n", stderr);
        return 2;
    }
    m.folder = argv[1];
    if (make(&m, &err) == LF_OK)
        return 0;
    fprintf(stderr, "make_checkpoint: %s\n", err.text);
    return 1;
}
