// The files of a spill folder as its list keeps them; called with the folder's lock held.
#pragma once
#include "lane/spill_dir.h"

struct lf_spilled {
    char name[LF_SPILL_NAME_BYTES];
    struct lf_spill_head head; // rows UINT64_MAX: of another model or version
    uint64_t bytes, used;
};

// Adds a file, or replaces the one of its name; false: no memory.
bool lf_spilled_add(struct lf_spill_dir *dir, const struct lf_spilled *file);
void lf_spilled_remove(struct lf_spill_dir *dir, struct lf_spilled *file);
struct lf_spilled *lf_spilled_named(struct lf_spill_dir *dir, const char *name);
// The next to go for room: files of others, then the least recently used; NULL: none.
struct lf_spilled *lf_spilled_victim(struct lf_spill_dir *dir);
