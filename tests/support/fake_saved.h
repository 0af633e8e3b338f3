// Saved states of the fake target: pages shared by count, bytes exact, failures on demand.
#pragma once
#include <stdint.h>
#include "model/target.h"

struct lf_fake_page;

// The pages of one slot's rows; made when a save first shares them.
struct lf_fake_table {
    struct lf_fake_page **page; // [pages]
    uint64_t pages;
};

// All that the fake's saves hold, for tests to look at and to make fail.
struct lf_fake_saves {
    uint64_t total_bytes, cap_bytes; // past the cap a save aborts; 0: no cap
    uint32_t fail_saves, fail_restores; // so many of the next ones fail with LF_E_MEM
    uint32_t saves, restores;           // that went well
};

void lf_fake_table_open(struct lf_fake_table *table, uint64_t context);
void lf_fake_table_clear(struct lf_fake_table *table); // the slot starts over
void lf_fake_table_close(struct lf_fake_table *table);

uint64_t lf_fake_save_bytes(uint64_t at, uint32_t what);
uint64_t lf_fake_save_need(const struct lf_fake_table *table, uint64_t at, uint32_t what);
enum lf_status lf_fake_save(struct lf_fake_saves *saves, struct lf_fake_table *table,
                            const uint32_t *token, uint64_t at, uint32_t what,
                            struct lf_saved **out, struct lf_error *err);
// Fills token [0 .. *length) where the state is part of it; returns what it held.
enum lf_status lf_fake_restore(struct lf_fake_saves *saves, struct lf_fake_table *table,
                               const struct lf_saved *saved, uint32_t *token, uint64_t *length,
                               uint32_t *what, struct lf_error *err);
void lf_fake_drop(struct lf_fake_saves *saves, struct lf_saved *saved);
