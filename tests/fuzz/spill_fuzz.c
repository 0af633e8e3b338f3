// Fuzzes a file of a saved state: the first byte says whether its checksums are made right first.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/sha256.h"
#include "lane/spill_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { SUM_BYTES = 32, RIGHT_HEAD = 1, RIGHT_FILE = 2 };

// The least target whose states have a file form: a word a row, one word of logits.
struct lf_saved {
    uint64_t words;
    uint32_t *word;
};

static uint64_t file_bytes(struct lf_target *t, uint64_t at, uint32_t what) {
    (void)t;
    return (what & LF_SAVE_STATE ? at : 1) * sizeof(uint32_t);
}

static void saved_free(struct lf_saved *saved) {
    if (saved)
        free(saved->word);
    free(saved);
}

static enum lf_status read_saved(struct lf_target *t, uint64_t at, uint32_t what, lf_bytes_in *in,
                                 void *ctx, struct lf_saved **out, struct lf_error *err) {
    uint64_t need = file_bytes(t, at, what);
    struct lf_saved *saved = calloc(1, sizeof *saved);
    LF_ASSERT(saved && (saved->word = malloc(need)));
    saved->words = need / sizeof *saved->word;
    if (in(ctx, saved->word, need, err) == LF_OK) {
        *out = saved;
        return LF_OK;
    }
    saved_free(saved);
    return err->status;
}

static void make_sum(uint8_t *bytes, size_t len, size_t at) {
    struct lf_sha256 sha;
    if (at + SUM_BYTES > len)
        return;
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, bytes, at);
    lf_sha256_finish(&sha, bytes + at);
}

static void try_file(int fd, struct lf_target *target) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_spill_head head;
    LF_ASSERT(lseek(fd, 0, SEEK_SET) == 0);
    if (lf_spill_head_read(&head, fd, &err) != LF_OK) {
        LF_ASSERT(err.text[0] && !strchr(err.text, '\n'));
        return;
    }
    struct lf_spill_parts parts = {.token = malloc(head.rows * sizeof *parts.token),
                                   .image = malloc((head.images + 1) * sizeof *parts.image)};
    LF_ASSERT(parts.token && parts.image && lseek(fd, 0, SEEK_SET) == 0);
    if (lf_spill_file_read(fd, target, &head, &parts, &err) == LF_OK) {
        LF_ASSERT(parts.state->words == head.rows && !parts.logits == !head.logits_bytes);
        for (uint32_t i = 0; i < head.images; i++)
            LF_ASSERT(parts.image[i].start < head.rows && parts.image[i].rows &&
                      (!i || parts.image[i].start >= parts.image[i - 1].start));
    } else {
        LF_ASSERT(err.text[0] && !strchr(err.text, '\n'));
    }
    saved_free(parts.state);
    saved_free(parts.logits);
    free(parts.token);
    free(parts.image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    static const struct lf_target_ops ops = {.file_bytes = file_bytes, .read = read_saved};
    struct lf_target target = {.ops = &ops};
    static int fd = -1;
    if (!len)
        return 0;
    if (fd < 0)
        fd = memfd_create("spill", 0);
    size_t file_len = len - 1;
    uint8_t *file = malloc(file_len + 1);
    LF_ASSERT(fd >= 0 && file);
    memcpy(file, bytes + 1, file_len);
    if (bytes[0] & RIGHT_HEAD)
        make_sum(file, file_len, LF_SPILL_HEAD_BYTES - SUM_BYTES);
    if (bytes[0] & RIGHT_FILE && file_len >= SUM_BYTES)
        make_sum(file, file_len, file_len - SUM_BYTES);
    LF_ASSERT(ftruncate(fd, 0) == 0 && pwrite(fd, file, file_len, 0) == (ssize_t)file_len);
    free(file);
    try_file(fd, &target);
    return 0;
}
