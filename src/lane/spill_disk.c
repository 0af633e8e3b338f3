// What the disk thread does in the spill folder: room, the floor, writing, reading.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "lane/spill_list.h"

static void name_of(char name[LF_SPILL_NAME_BYTES], const struct lf_spill_head *head,
                    const struct lf_spill_parts *parts) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    char hex[65];
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, parts->token, head->rows * sizeof *parts->token);
    for (uint32_t i = 0; i < head->images; i++) {
        lf_sha256_add(&sha, &parts->image[i].start, sizeof parts->image->start);
        lf_sha256_add(&sha, parts->image[i].digest, sizeof parts->image->digest);
    }
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
    snprintf(name, LF_SPILL_NAME_BYTES, "%.32s-%s.lfstate", hex, head->fingerprint);
}

bool lf_spill_dir_paused(struct lf_spill_dir *dir) {
    pthread_mutex_lock(&dir->lock);
    bool paused = dir->stats.paused && lf_clock_s() < dir->paused_until;
    pthread_mutex_unlock(&dir->lock);
    return paused;
}

// One line a pause, not one a try.
static void pause_writes(struct lf_spill_dir *dir, const char *why) {
    pthread_mutex_lock(&dir->lock);
    bool said = dir->stats.paused;
    dir->stats.paused = true;
    dir->paused_until = lf_clock_s() + dir->options.retry_s;
    pthread_mutex_unlock(&dir->lock);
    if (!said)
        lf_log(LF_LOG_WARN, "spill: paused, tried again every %g s: %s", dir->options.retry_s, why);
}

static enum lf_status check_floor(struct lf_spill_dir *dir, uint64_t bytes, struct lf_error *err) {
    const struct lf_spill_options *o = &dir->options;
    struct statvfs st;
    uint64_t free_bytes = 0;
    if (o->free_bytes)
        free_bytes = o->free_bytes(o->ctx);
    else if (fstatvfs(dir->fd, &st) == 0)
        free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    else
        return lf_fail_errno(err, LF_E_IO, "cannot ask for the free disk of %s", o->dir);
    if (free_bytes < bytes || free_bytes - bytes < o->floor_bytes)
        return lf_fail(err, LF_E_IO, "%s has %llu bytes free, %llu are to stay", o->dir,
                       (unsigned long long)free_bytes, (unsigned long long)o->floor_bytes);
    return LF_OK;
}

// The name of the next file to go, where bytes more do not fit.
static bool must_go(struct lf_spill_dir *dir, uint64_t bytes, char name[LF_SPILL_NAME_BYTES]) {
    pthread_mutex_lock(&dir->lock);
    bool full = dir->stats.held_bytes > dir->options.cap_bytes - bytes;
    struct lf_spilled *victim = full ? lf_spilled_victim(dir) : NULL;
    LF_ASSERT(victim || !full);
    if (full)
        memcpy(name, victim->name, LF_SPILL_NAME_BYTES);
    else
        dir->stats.held_bytes += bytes;
    pthread_mutex_unlock(&dir->lock);
    return full;
}

static void forget(struct lf_spill_dir *dir, const char *name, uint64_t *total) {
    pthread_mutex_lock(&dir->lock);
    struct lf_spilled *file = lf_spilled_named(dir, name);
    if (file)
        lf_spilled_remove(dir, file);
    if (total)
        ++*total;
    pthread_mutex_unlock(&dir->lock);
}

// Counts the bytes before they are written, removing files until they fit (C-20).
static enum lf_status take_room(struct lf_spill_dir *dir, uint64_t bytes, struct lf_error *err) {
    char name[LF_SPILL_NAME_BYTES];
    uint64_t cap = dir->options.cap_bytes;
    if (bytes > cap)
        return lf_fail(err, LF_E_TOO_LARGE, "a state of %llu bytes: the cap is %llu",
                       (unsigned long long)bytes, (unsigned long long)cap);
    while (must_go(dir, bytes, name)) {
        unlinkat(dir->fd, name, 0);
        forget(dir, name, &dir->stats.removed);
    }
    return LF_OK;
}

static enum lf_status write_file(struct lf_spill_dir *dir, const char *name, const char *temporary,
                                 struct lf_target *target, const struct lf_spill_head *head,
                                 const struct lf_spill_parts *parts, struct lf_error *err) {
    int fd = openat(dir->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot make %s", temporary);
    enum lf_status status = lf_spill_file_write(fd, target, head, parts, err);
    if (close(fd) != 0 && status == LF_OK)
        status = lf_fail_errno(err, LF_E_IO, "cannot close %s", temporary);
    if (status == LF_OK && renameat(dir->fd, temporary, dir->fd, name) != 0)
        status = lf_fail_errno(err, LF_E_IO, "cannot rename %s", temporary);
    if (status != LF_OK)
        unlinkat(dir->fd, temporary, 0);
    else if (fsync(dir->fd) != 0)
        status = lf_fail_errno(err, LF_E_IO, "cannot sync %s", dir->options.dir);
    return status;
}

// The temporary file's bytes become those of the file, or go.
static bool settle(struct lf_spill_dir *dir, const char *name, const struct lf_spill_head *head,
                   bool written) {
    struct lf_spilled file = {.head = *head, .bytes = lf_spill_file_bytes(head)};
    snprintf(file.name, sizeof file.name, "%s", name);
    pthread_mutex_lock(&dir->lock);
    dir->stats.held_bytes -= file.bytes;
    file.used = dir->clock + 1;
    bool listed = written && lf_spilled_add(dir, &file);
    dir->stats.spilled += listed;
    if (listed)
        dir->stats.paused = false;
    pthread_mutex_unlock(&dir->lock);
    return listed;
}

enum lf_status lf_spill_dir_write(struct lf_spill_dir *dir, struct lf_target *target,
                                  const struct lf_spill_head *head,
                                  const struct lf_spill_parts *parts, struct lf_error *err) {
    char name[LF_SPILL_NAME_BYTES], temporary[LF_SPILL_NAME_BYTES + 4];
    uint64_t bytes = lf_spill_file_bytes(head);
    name_of(name, head, parts);
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    if (check_floor(dir, bytes, err) == LF_OK && take_room(dir, bytes, err) == LF_OK) {
        enum lf_status status = write_file(dir, name, temporary, target, head, parts, err);
        if (!settle(dir, name, head, status == LF_OK) && status == LF_OK) {
            unlinkat(dir->fd, name, 0);
            lf_fail(err, LF_E_MEM, "out of memory for the list of %s", dir->options.dir);
        }
    }
    if (err->status == LF_E_IO)
        pause_writes(dir, err->text);
    return err->status;
}

// The name under which the list has this head; false: it went meanwhile.
static bool listed_name(struct lf_spill_dir *dir, const struct lf_spill_head *head,
                        char name[LF_SPILL_NAME_BYTES]) {
    bool found = false;
    pthread_mutex_lock(&dir->lock);
    for (size_t i = 0; i < dir->n && !found; i++) {
        struct lf_spilled *f = &dir->file[i];
        found = f->head.rows == head->rows && f->head.hash == head->hash;
        if (found)
            memcpy(name, f->name, LF_SPILL_NAME_BYTES);
    }
    pthread_mutex_unlock(&dir->lock);
    return found;
}

static void note_use(struct lf_spill_dir *dir, const char *name, int fd) {
    // The order of use outlives the server in the files' times.
    (void)!futimens(fd, NULL);
    pthread_mutex_lock(&dir->lock);
    struct lf_spilled *file = lf_spilled_named(dir, name);
    if (file)
        file->used = ++dir->clock;
    dir->stats.returned++;
    pthread_mutex_unlock(&dir->lock);
}

enum lf_status lf_spill_dir_read(struct lf_spill_dir *dir, struct lf_target *target,
                                 const struct lf_spill_head *head, struct lf_spill_parts *parts,
                                 struct lf_error *err) {
    char name[LF_SPILL_NAME_BYTES];
    parts->state = parts->logits = NULL;
    if (!listed_name(dir, head, name))
        return lf_fail(err, LF_E_NOT_FOUND, "the file went meanwhile");
    int fd = openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        forget(dir, name, NULL);
        return lf_fail_errno(err, LF_E_NOT_FOUND, "cannot open %s", name);
    }
    enum lf_status status = lf_spill_file_read(fd, target, head, parts, err);
    if (status == LF_OK)
        note_use(dir, name, fd);
    close(fd);
    // No memory, or a disk that does not answer, is no fault of the file.
    if (status != LF_OK && status != LF_E_MEM && status != LF_E_IO) {
        unlinkat(dir->fd, name, 0);
        forget(dir, name, &dir->stats.damaged);
        lf_log(LF_LOG_WARN, "spill: %s/%s is damaged (%s): removed", dir->options.dir, name,
               err->text);
    }
    return status;
}
