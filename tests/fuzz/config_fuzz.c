// Fuzzes config.json and the list of tensors that follows from an accepted one.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "format/inventory.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    static struct lf_topology topology;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_topology_parse(&topology, (const char *)bytes, len, "config.json", &err) == LF_OK) {
        struct lf_arena arena = {0};
        struct lf_inventory inventory;
        // More experts than this are only slow, not different.
        if ((uint64_t)topology.layers * topology.experts < 4096 && topology.draft_experts < 4096 &&
            lf_inventory_build(&inventory, &arena, &topology, &err) == LF_OK)
            LF_ASSERT(lf_inventory_find(&inventory, "embed.weight"));
        lf_arena_free(&arena);
    } else {
        LF_ASSERT(err.status != LF_OK && err.text[0] && !strchr(err.text, '\n'));
    }
    return 0;
}
