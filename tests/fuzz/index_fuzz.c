// Fuzzes model.safetensors.index.json.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "format/shard_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    struct lf_arena arena = {0};
    struct lf_shard_index index;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_shard_index_parse(&index, &arena, (const char *)bytes, len, "index", &err) == LF_OK) {
        for (size_t i = 0; i < index.entries; i++) {
            const struct lf_shard_entry *entry = &index.entry[i];
            LF_ASSERT(lf_shard_index_find(&index, entry->tensor) == entry);
            LF_ASSERT(entry->file < index.files && !strchr(entry->file_name, '/'));
        }
    } else {
        LF_ASSERT(err.status != LF_OK && err.text[0] && !strchr(err.text, '\n'));
    }
    lf_arena_free(&arena);
    return 0;
}
