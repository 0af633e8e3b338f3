#include "lane/spill_list.h"

#include <stdlib.h>
#include <string.h>

struct lf_spilled *lf_spilled_named(struct lf_spill_dir *dir, const char *name) {
    for (size_t i = 0; i < dir->n; i++)
        if (!strcmp(dir->file[i].name, name))
            return &dir->file[i];
    return NULL;
}

void lf_spilled_remove(struct lf_spill_dir *dir, struct lf_spilled *file) {
    size_t at = (size_t)(file - dir->file);
    dir->stats.held_bytes -= file->bytes;
    memmove(file, file + 1, (--dir->n - at) * sizeof *file);
}

static bool grow(struct lf_spill_dir *dir) {
    size_t room = dir->room ? 2 * dir->room : 64;
    struct lf_spilled *file = realloc(dir->file, room * sizeof *file);
    if (!file)
        return false;
    dir->file = file;
    dir->room = room;
    return true;
}

bool lf_spilled_add(struct lf_spill_dir *dir, const struct lf_spilled *file) {
    struct lf_spilled *old = lf_spilled_named(dir, file->name);
    if (old)
        lf_spilled_remove(dir, old);
    if (dir->n == dir->room && !grow(dir))
        return false;
    size_t at = dir->n++;
    for (; at && dir->file[at - 1].head.rows > file->head.rows; at--)
        dir->file[at] = dir->file[at - 1];
    dir->file[at] = *file;
    dir->stats.held_bytes += file->bytes;
    if (file->used > dir->clock)
        dir->clock = file->used;
    return true;
}

struct lf_spilled *lf_spilled_victim(struct lf_spill_dir *dir) {
    struct lf_spilled *victim = NULL;
    for (size_t i = 0; i < dir->n; i++) {
        struct lf_spilled *f = &dir->file[i];
        bool foreign = f->head.rows == UINT64_MAX;
        bool foreign_victim = victim && victim->head.rows == UINT64_MAX;
        if (!victim || (foreign && !foreign_victim) ||
            (foreign == foreign_victim && f->used < victim->used))
            victim = f;
    }
    return victim;
}

bool lf_spill_dir_find(struct lf_spill_dir *dir, const struct lf_rowkeys *keys, uint64_t more_than,
                       struct lf_spill_head *out) {
    struct lf_rowkeys_hash hash = {0};
    bool found = false;
    pthread_mutex_lock(&dir->lock);
    for (size_t i = 0; i < dir->n && dir->file[i].head.rows <= keys->n; i++) {
        struct lf_spilled *f = &dir->file[i];
        if (f->head.rows <= more_than || (f->head.rows == keys->n && !f->head.logits_bytes))
            continue;
        lf_rowkeys_hash_to(&hash, keys, f->head.rows);
        if (hash.value != f->head.hash)
            continue;
        *out = f->head;
        found = true;
    }
    pthread_mutex_unlock(&dir->lock);
    return found;
}

bool lf_spill_dir_holds(struct lf_spill_dir *dir, uint64_t rows, uint64_t hash, bool logits) {
    bool found = false;
    pthread_mutex_lock(&dir->lock);
    for (size_t i = 0; i < dir->n && !found; i++) {
        const struct lf_spill_head *h = &dir->file[i].head;
        found = h->rows == rows && h->hash == hash && (h->logits_bytes || !logits);
    }
    pthread_mutex_unlock(&dir->lock);
    return found;
}

void lf_spill_dir_stats(struct lf_spill_dir *dir, struct lf_spill_stats *out) {
    pthread_mutex_lock(&dir->lock);
    *out = dir->stats;
    out->files = dir->n;
    out->cap_bytes = dir->options.cap_bytes;
    pthread_mutex_unlock(&dir->lock);
}
