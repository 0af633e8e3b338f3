// Fuzzes tokenizer.json: what is accepted must encode a fixed text to ids that decode back to it.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "text/token_map.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char text[] = "The <think>heather</think> 1234\r\n  \t日本ゟ\u0301 \u00a0x!!abc\n<s>\x7f";

static void check_encode(const struct lf_tokenizer *t, bool match_added) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_ids ids = {0};
    size_t at = 0;
    LF_ASSERT(lf_tokenizer_encode(t, text, sizeof text - 1, match_added, &ids, &err) == LF_OK);
    for (size_t i = 0; i < ids.len; i++) {
        size_t len;
        const char *bytes = lf_tokenizer_bytes(t, ids.id[i], &len);
        LF_ASSERT(len <= sizeof text - 1 - at && memcmp(text + at, bytes, len) == 0);
        LF_ASSERT(match_added || !lf_tokenizer_is_added(t, ids.id[i]));
        at += len;
    }
    LF_ASSERT(at == sizeof text - 1);
    lf_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_tokenizer *t;
    struct lf_token_map map;
    if (lf_tokenizer_parse(&t, (const char *)bytes, len, "tokenizer.json", &err) != LF_OK) {
        LF_ASSERT(err.status != LF_OK && err.text[0] && !t);
        return 0;
    }
    check_encode(t, false);
    check_encode(t, true);
    LF_ASSERT(lf_token_map_build(&map, t, 0, &err) == LF_OK);
    LF_ASSERT(map.size == lf_tokenizer_size(t) && map.classes <= map.size);
    lf_token_map_free(&map);
    lf_tokenizer_close(t);
    return 0;
}
