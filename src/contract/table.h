// The launch table and the records as the tool walks them; tests hand in tables of their own.
#pragma once
#include "contract/trial.h"

struct lf_contract_table {
    const struct lf_entry *entry;
    uint32_t entries;
    const struct lf_record *const *record;
    uint32_t records;
};

enum { LF_ENTRIES_MAX = 64 };
// Fills entry (room for LF_ENTRIES_MAX) for the sets of this processor and for CUDA.
void lf_contract_table_fill(struct lf_contract_table *table, struct lf_entry *entry);
// The sets this processor runs, as bits.
uint32_t lf_contract_sets(void);
const struct lf_entry *lf_contract_entry(const struct lf_contract_table *table, const char *name);
