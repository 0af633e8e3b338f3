// Encodes the chunks of a file on one thread and prints the best speed, the ids and their digest.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "base/sha256.h"
#include "text/tokenizer.h"

enum { ROUNDS = 7, TEXT_BYTES_MAX = 256 << 20 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Chunks end with a zero byte each.
static enum lf_status encode_chunks(const struct lf_tokenizer *t, const struct lf_buffer *text,
                                    struct lf_ids *ids, struct lf_error *err) {
    lf_ids_clear(ids);
    for (size_t at = 0; at < text->len;) {
        size_t len = strnlen(text->data + at, text->len - at);
        LF_TRY(lf_tokenizer_encode(t, text->data + at, len, true, ids, err));
        at += len + 1;
    }
    return LF_OK;
}

static enum lf_status run(const char *tokenizer_path, const char *text_path,
                          struct lf_error *err) {
    struct lf_tokenizer *t;
    struct lf_buffer text = {0};
    struct lf_ids ids = {0};
    double open_start = seconds(), best = 0;
    LF_TRY(lf_tokenizer_open(&t, tokenizer_path, err));
    double open_s = seconds() - open_start;
    (void)!lf_file_read(&text, text_path, TEXT_BYTES_MAX, err);
    for (int i = 0; i < ROUNDS && err->status == LF_OK; i++) {
        double start = seconds();
        (void)!encode_chunks(t, &text, &ids, err);
        double spent = seconds() - start;
        best = i == 0 || spent < best ? spent : best;
    }
    char hex[65];
    lf_sha256_ids(ids.id, ids.len, hex);
    if (err->status == LF_OK)
        printf("{\"open_s\": %.3f, \"encode_s\": %.6f, \"ids\": %zu, \"sha256\": \"%s\"}\n", open_s,
               best, ids.len, hex);
    lf_ids_free(&ids);
    lf_buffer_free(&text);
    lf_tokenizer_close(t);
    return err->status;
}

int main(int argc, char **argv) {
    struct lf_error err = LF_ERROR_INIT;
    if (argc != 3) {
        fprintf(stderr, "usage: tokenizer_bench TOKENIZER.json CHUNKS\n");
        return 2;
    }
    if (run(argv[1], argv[2], &err) != LF_OK)
        fprintf(stderr, "%s\n", err.text);
    return err.status != LF_OK;
}
