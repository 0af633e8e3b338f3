#include "model/engram_hash.h"

#include <stdbool.h>

void lf_engram_rows(const struct lf_engram_layout *layout, uint32_t table, const uint32_t *classes,
                    uint32_t pad_class, uint64_t *rows_out) {
    LF_ASSERT(table < layout->tables);
    const struct lf_engram_columns *t = &layout->table[table];
    uint64_t rolling = 0;
    bool blocked = false;
    for (uint32_t s = 0; s < layout->ngram; s++) {
        // Nothing older than a dead position is seen.
        blocked = blocked || classes[s] == LF_CLASS_DEAD;
        rolling ^= (blocked ? pad_class : classes[s]) * t->multiplier[s];
        for (uint32_t h = 0; s > 0 && h < layout->heads; h++) {
            uint32_t c = (s - 1) * layout->heads + h;
            rows_out[c] = rolling % t->prime[c] + t->offset[c];
        }
    }
}
