#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum lf_status open_regular(int *fd, size_t *bytes, const char *path, struct lf_error *err) {
    struct stat st;
    // O_NONBLOCK keeps a FIFO from blocking the open before it is refused.
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot open %s", path);
    if (fstat(*fd, &st) != 0) {
        lf_fail_errno(err, LF_E_IO, "cannot stat %s", path);
    } else if (!S_ISREG(st.st_mode)) {
        lf_fail(err, LF_E_IO, "%s is not a regular file", path);
    } else {
        *bytes = (size_t)st.st_size;
        return LF_OK;
    }
    close(*fd);
    return err->status;
}

enum lf_status lf_map_open(struct lf_map *map, const char *path, struct lf_error *err) {
    int fd;
    *map = (struct lf_map){0};
    LF_TRY(open_regular(&fd, &map->bytes, path, err));
    if (map->bytes) {
        void *data = mmap(NULL, map->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            lf_fail_errno(err, LF_E_IO, "cannot map %s (%zu bytes)", path, map->bytes);
        else
            map->data = data;
    }
    close(fd);
    if (err->status != LF_OK)
        *map = (struct lf_map){0};
    return err->status;
}

void lf_map_close(struct lf_map *map) {
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->bytes);
    *map = (struct lf_map){0};
}

static enum lf_status read_all(int fd, struct lf_buffer *out, const char *path, size_t limit,
                               struct lf_error *err) {
    char chunk[65536];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lf_fail_errno(err, LF_E_IO, "cannot read %s", path);
        if (got == 0)
            return LF_OK;
        if (out->len + (size_t)got > limit)
            return lf_fail(err, LF_E_TOO_LARGE, "%s has more than %zu bytes", path, limit);
        lf_buffer_add(out, chunk, (size_t)got);
        if (out->failed)
            return lf_fail(err, LF_E_MEM, "out of memory reading %s", path);
    }
}

enum lf_status lf_file_read(struct lf_buffer *out, const char *path, size_t limit,
                            struct lf_error *err) {
    int fd;
    size_t bytes;
    lf_buffer_clear(out);
    LF_TRY(open_regular(&fd, &bytes, path, err));
    if (bytes > limit)
        lf_fail(err, LF_E_TOO_LARGE, "%s has %zu bytes, the limit is %zu", path, bytes, limit);
    else if (read_all(fd, out, path, limit, err) == LF_OK)
        lf_buffer_add(out, "", 0);
    close(fd);
    return err->status;
}
