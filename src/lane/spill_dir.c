#include "lane/spill_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "lane/spill_list.h"

enum { DIGITS = 32, RETRY_S = 30 };

static const char suffix[] = ".lfstate", temporary[] = ".lfstate.tmp";

// The resolved form of a path whose last part need not exist.
static bool resolve(char out[PATH_MAX], const char *path) {
    char parent[PATH_MAX];
    if (realpath(path, out))
        return true;
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    size_t last = len;
    while (last && path[last - 1] != '/')
        last--;
    if (len >= sizeof parent)
        return false;
    memcpy(parent, path, last);
    parent[last] = 0;
    char above[PATH_MAX];
    if (!realpath(last ? parent : ".", above))
        return false;
    return snprintf(out, PATH_MAX, "%s/%.*s", above, (int)(len - last), path + last) < PATH_MAX;
}

enum lf_status lf_spill_dir_check(const char *dir, const char *folder, struct lf_error *err) {
    char inner[PATH_MAX], outer[PATH_MAX];
    if (!resolve(inner, dir))
        return lf_fail_errno(err, LF_E_USAGE, "the spill folder %s has no parent folder", dir);
    if (!resolve(outer, folder))
        return LF_OK;
    size_t len = strlen(outer);
    if (!strncmp(inner, outer, len) && (!inner[len] || inner[len] == '/'))
        return lf_fail(err, LF_E_USAGE, "the spill folder %s lies in the checkpoint %s: nothing is "
                                        "written there", dir, folder);
    return LF_OK;
}

static bool ends_in(const char *name, const char *end) {
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && !strcmp(name + len - end_len, end);
}

// Names that this program gives: the digest of the keys, the fingerprint, the suffix.
static bool is_ours(const char *name, const char *end) {
    size_t digits = 0;
    while (isxdigit((unsigned char)name[digits]))
        digits++;
    return digits == DIGITS && name[digits] == '-' && strlen(name) < LF_SPILL_NAME_BYTES &&
           ends_in(name, end);
}

static void say_removed(const struct lf_spill_dir *dir, const char *name, const char *why) {
    lf_log(LF_LOG_WARN, "spill: %s/%s is damaged (%s): removed", dir->options.dir, name, why);
}

static void list_file(struct lf_spill_dir *dir, const char *name, struct lf_error *err) {
    struct lf_spilled file = {0};
    struct lf_error why = LF_ERROR_INIT;
    struct stat st;
    int fd = openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    snprintf(file.name, sizeof file.name, "%s", name);
    file.bytes = (uint64_t)st.st_size;
    file.used = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    enum lf_status status = lf_spill_head_read(&file.head, fd, &why);
    close(fd);
    if (status == LF_E_FORMAT) {
        unlinkat(dir->fd, name, 0);
        dir->stats.damaged++;
        say_removed(dir, name, why.text);
        return;
    }
    // Files of others count, and go first when the cap needs room (C-19).
    if (status != LF_OK || strcmp(file.head.fingerprint, dir->options.fingerprint))
        file.head = (struct lf_spill_head){.rows = UINT64_MAX};
    if (!lf_spilled_add(dir, &file))
        lf_fail(err, LF_E_MEM, "out of memory for the list of %s", dir->options.dir);
}

static enum lf_status scan(struct lf_spill_dir *dir, struct lf_error *err) {
    int again = dup(dir->fd);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    if (!folder) {
        if (again >= 0)
            close(again);
        return lf_fail_errno(err, LF_E_IO, "cannot list %s", dir->options.dir);
    }
    for (struct dirent *entry; (entry = readdir(folder)) && err->status == LF_OK;) {
        if (is_ours(entry->d_name, temporary))
            unlinkat(dir->fd, entry->d_name, 0);
        else if (is_ours(entry->d_name, suffix))
            list_file(dir, entry->d_name, err);
    }
    closedir(folder);
    return err->status;
}

// A folder that a server with a larger cap left.
static void cut_to_cap(struct lf_spill_dir *dir) {
    while (dir->stats.held_bytes > dir->options.cap_bytes) {
        struct lf_spilled *victim = lf_spilled_victim(dir);
        unlinkat(dir->fd, victim->name, 0);
        lf_spilled_remove(dir, victim);
        dir->stats.removed++;
    }
}

static enum lf_status check_fingerprint(const char *name, struct lf_error *err) {
    size_t len = 0;
    while (isalnum((unsigned char)name[len]) || name[len] == '_')
        len++;
    if (!len || name[len] || len >= LF_FINGERPRINT_BYTES)
        return lf_fail(err, LF_E_VALUE, "fingerprint \"%s\": expected 1 to %d letters, digits, _",
                       name, LF_FINGERPRINT_BYTES - 1);
    return LF_OK;
}

static enum lf_status open_folder(struct lf_spill_dir *dir, struct lf_error *err) {
    const char *path = dir->options.dir;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return lf_fail_errno(err, LF_E_IO, "cannot make the spill folder %s", path);
    dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot open the spill folder %s", path);
    if (faccessat(dir->fd, ".", W_OK | X_OK, 0) != 0)
        return lf_fail_errno(err, LF_E_IO, "cannot write in the spill folder %s", path);
    // A second server would delete this one's temporary files, and both would count alone.
    if (flock(dir->fd, LOCK_EX | LOCK_NB) != 0)
        return lf_fail(err, LF_E_IO, "the spill folder %s is used by another server", path);
    return LF_OK;
}

enum lf_status lf_spill_dir_open(struct lf_spill_dir *dir, const struct lf_spill_options *options,
                                 struct lf_error *err) {
    *dir = (struct lf_spill_dir){.options = *options, .fd = -1};
    if (dir->options.retry_s <= 0)
        dir->options.retry_s = RETRY_S;
    pthread_mutex_init(&dir->lock, NULL);
    if (check_fingerprint(options->fingerprint, err) != LF_OK || open_folder(dir, err) != LF_OK ||
        scan(dir, err) != LF_OK)
        lf_spill_dir_close(dir);
    else
        cut_to_cap(dir);
    return err->status;
}

void lf_spill_dir_close(struct lf_spill_dir *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->file);
    pthread_mutex_destroy(&dir->lock);
    *dir = (struct lf_spill_dir){.fd = -1};
}
