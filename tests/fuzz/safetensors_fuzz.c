// Fuzzes the safetensors header: any bytes parse or give one sentence.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    struct lf_arena arena = {0};
    struct lf_safetensors header;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_safetensors_parse(&header, &arena, bytes, len, "input", &err) == LF_OK) {
        // Whatever was accepted must lie inside the input.
        for (size_t i = 0; i < header.tensors; i++) {
            const struct lf_tensor *t = &header.tensor[i];
            size_t at = (size_t)(t->data - bytes);
            LF_ASSERT(at <= len && t->bytes <= len - at);
            LF_ASSERT(lf_safetensors_find(&header, t->name) == t);
        }
    } else {
        LF_ASSERT(err.status != LF_OK && err.text[0] && !strchr(err.text, '\n'));
    }
    lf_arena_free(&arena);
    return 0;
}
