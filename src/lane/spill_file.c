#include "lane/spill_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/sha256.h"

enum { VERSION = 1, SUM_BYTES = 32, SPAN_BYTES = 44, BUFFER_BYTES = 65536 };

static const char magic[8] = "LFSPILL\n";

struct disk_head {
    char magic[8];
    uint32_t version, images;
    char fingerprint[LF_FINGERPRINT_BYTES];
    uint64_t rows, hash, born, state_bytes, logits_bytes, file_bytes;
    uint32_t marks, zero;
    uint8_t sum[SUM_BYTES]; // of what stands before it
};
_Static_assert(sizeof(struct disk_head) == LF_SPILL_HEAD_BYTES, "the head has no gaps");

uint64_t lf_spill_file_bytes(const struct lf_spill_head *head) {
    return LF_SPILL_HEAD_BYTES + head->rows * sizeof(uint32_t) +
           (uint64_t)head->images * SPAN_BYTES + head->state_bytes + head->logits_bytes +
           SUM_BYTES;
}

static void head_sum(const struct disk_head *disk, uint8_t sum[SUM_BYTES]) {
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, disk, offsetof(struct disk_head, sum));
    lf_sha256_finish(&sha, sum);
}

void lf_spill_head_pack(const struct lf_spill_head *head, uint8_t bytes[LF_SPILL_HEAD_BYTES]) {
    struct disk_head disk = {.version = VERSION, .images = head->images, .rows = head->rows,
                             .hash = head->hash, .born = head->born, .marks = head->marks,
                             .state_bytes = head->state_bytes,
                             .logits_bytes = head->logits_bytes,
                             .file_bytes = lf_spill_file_bytes(head)};
    memcpy(disk.magic, magic, sizeof magic);
    memcpy(disk.fingerprint, head->fingerprint, sizeof disk.fingerprint);
    head_sum(&disk, disk.sum);
    memcpy(bytes, &disk, sizeof disk);
}

// Each size is held to the file's before they are added, so that no sum can wrap.
static bool sizes_add_up(const struct lf_spill_head *head, uint64_t file_bytes) {
    return head->rows && head->rows <= file_bytes / sizeof(uint32_t) &&
           head->images <= head->rows && head->state_bytes <= file_bytes &&
           head->logits_bytes <= file_bytes && file_bytes < UINT64_MAX / 8 &&
           lf_spill_file_bytes(head) == file_bytes;
}

enum lf_status lf_spill_head_parse(struct lf_spill_head *head,
                                   const uint8_t bytes[LF_SPILL_HEAD_BYTES], uint64_t file_bytes,
                                   struct lf_error *err) {
    struct disk_head disk;
    uint8_t sum[SUM_BYTES];
    memcpy(&disk, bytes, sizeof disk);
    *head = (struct lf_spill_head){0};
    if (memcmp(disk.magic, magic, sizeof magic))
        return lf_fail_byte(err, LF_E_FORMAT, 0, "the file is no saved state");
    if (disk.version != VERSION)
        return lf_fail_byte(err, LF_E_UNSUPPORTED, 8, "format version %u: expected %d",
                            disk.version, VERSION);
    head_sum(&disk, sum);
    if (memcmp(sum, disk.sum, sizeof sum))
        return lf_fail_byte(err, LF_E_FORMAT, offsetof(struct disk_head, sum),
                            "the head does not have its checksum");
    if (!memchr(disk.fingerprint, 0, sizeof disk.fingerprint))
        return lf_fail_byte(err, LF_E_FORMAT, offsetof(struct disk_head, fingerprint),
                            "the fingerprint does not end");
    *head = (struct lf_spill_head){.rows = disk.rows, .hash = disk.hash, .born = disk.born,
                                   .state_bytes = disk.state_bytes, .marks = disk.marks,
                                   .logits_bytes = disk.logits_bytes, .images = disk.images};
    memcpy(head->fingerprint, disk.fingerprint, sizeof head->fingerprint);
    if (disk.file_bytes != file_bytes || !sizes_add_up(head, file_bytes))
        return lf_fail_byte(err, LF_E_FORMAT, offsetof(struct disk_head, rows),
                            "the head tells of %llu bytes, the file has %llu",
                            (unsigned long long)disk.file_bytes, (unsigned long long)file_bytes);
    return LF_OK;
}

// A file that is read or written in order, with the checksum of what went by.
struct stream {
    int fd;
    struct lf_sha256 sha;
    uint64_t passed; // bytes of the caller's so far
    size_t at, len;  // reading: the part of the buffer that is left
    uint8_t buffer[BUFFER_BYTES];
};

static enum lf_status flush(struct stream *s, struct lf_error *err) {
    for (size_t at = 0; at < s->len;) {
        ssize_t put = write(s->fd, s->buffer + at, s->len - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return lf_fail_errno(err, LF_E_IO, "cannot write a saved state");
        at += (size_t)put;
    }
    s->len = 0;
    return LF_OK;
}

static enum lf_status stream_out(void *ctx, const void *bytes, uint64_t len,
                                 struct lf_error *err) {
    struct stream *s = ctx;
    const uint8_t *from = bytes;
    lf_sha256_add(&s->sha, bytes, len);
    s->passed += len;
    while (len) {
        size_t n = sizeof s->buffer - s->len;
        n = len < n ? (size_t)len : n;
        memcpy(s->buffer + s->len, from, n);
        s->len += n;
        from += n;
        len -= n;
        if (s->len == sizeof s->buffer)
            LF_TRY(flush(s, err));
    }
    return LF_OK;
}

static enum lf_status refill(struct stream *s, struct lf_error *err) {
    ssize_t got;
    while ((got = read(s->fd, s->buffer, sizeof s->buffer)) < 0 && errno == EINTR)
        ;
    if (got < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot read a saved state");
    if (!got)
        return lf_fail_byte(err, LF_E_FORMAT, (int64_t)s->passed, "the file ends at byte %llu",
                            (unsigned long long)s->passed);
    s->at = 0;
    s->len = (size_t)got;
    return LF_OK;
}

static enum lf_status stream_in(void *ctx, void *bytes, uint64_t len, struct lf_error *err) {
    struct stream *s = ctx;
    uint8_t *to = bytes;
    for (uint64_t left = len; left;) {
        if (!s->len)
            LF_TRY(refill(s, err));
        size_t n = left < s->len ? (size_t)left : s->len;
        memcpy(to, s->buffer + s->at, n);
        s->at += n;
        s->len -= n;
        s->passed += n;
        to += n;
        left -= n;
    }
    lf_sha256_add(&s->sha, bytes, len);
    return LF_OK;
}

static enum lf_status write_spans(struct stream *s, const struct lf_image_span *image, uint32_t n,
                                  struct lf_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        LF_TRY(stream_out(s, &image[i].start, sizeof image->start, err));
        LF_TRY(stream_out(s, &image[i].rows, sizeof image->rows, err));
        LF_TRY(stream_out(s, image[i].digest, sizeof image->digest, err));
    }
    return LF_OK;
}

// Spans ascend and do not overlap, as every list of row keys.
static enum lf_status read_spans(struct stream *s, struct lf_image_span *image, uint32_t n,
                                 uint64_t rows, struct lf_error *err) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        LF_TRY(stream_in(s, &image[i].start, sizeof image->start, err));
        LF_TRY(stream_in(s, &image[i].rows, sizeof image->rows, err));
        LF_TRY(stream_in(s, image[i].digest, sizeof image->digest, err));
        if (image[i].start < end || image[i].start >= rows || !image[i].rows)
            return lf_fail(err, LF_E_FORMAT, "image %u of %u starts at row %llu of %llu", i, n,
                           (unsigned long long)image[i].start, (unsigned long long)rows);
        end = image[i].start + image[i].rows;
    }
    return LF_OK;
}

static enum lf_status write_all(struct stream *s, struct lf_target *target,
                                const struct lf_spill_head *head,
                                const struct lf_spill_parts *parts, struct lf_error *err) {
    uint8_t bytes[LF_SPILL_HEAD_BYTES], sum[SUM_BYTES];
    lf_spill_head_pack(head, bytes);
    LF_TRY(stream_out(s, bytes, sizeof bytes, err));
    LF_TRY(stream_out(s, parts->token, head->rows * sizeof *parts->token, err));
    LF_TRY(write_spans(s, parts->image, head->images, err));
    LF_TRY(target->ops->write(target, parts->state, stream_out, s, err));
    if (parts->logits)
        LF_TRY(target->ops->write(target, parts->logits, stream_out, s, err));
    LF_ASSERT(s->passed + SUM_BYTES == lf_spill_file_bytes(head));
    lf_sha256_finish(&s->sha, sum);
    lf_sha256_init(&s->sha);
    LF_TRY(stream_out(s, sum, sizeof sum, err));
    LF_TRY(flush(s, err));
    return fsync(s->fd) == 0 ? LF_OK : lf_fail_errno(err, LF_E_IO, "cannot sync a saved state");
}

enum lf_status lf_spill_file_write(int fd, struct lf_target *target,
                                   const struct lf_spill_head *head,
                                   const struct lf_spill_parts *parts, struct lf_error *err) {
    struct stream s = {.fd = fd};
    uint8_t unused[SUM_BYTES];
    lf_sha256_init(&s.sha);
    enum lf_status status = write_all(&s, target, head, parts, err);
    lf_sha256_finish(&s.sha, unused);
    return status;
}

static enum lf_status file_size(int fd, uint64_t *bytes, struct lf_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return lf_fail_errno(err, LF_E_IO, "cannot stat a saved state");
    if (!S_ISREG(st.st_mode) || st.st_size < LF_SPILL_HEAD_BYTES)
        return lf_fail(err, LF_E_FORMAT, "the file has %lld bytes, a head has %d",
                       (long long)st.st_size, LF_SPILL_HEAD_BYTES);
    *bytes = (uint64_t)st.st_size;
    return LF_OK;
}

static enum lf_status head_in(struct stream *s, struct lf_spill_head *head, struct lf_error *err) {
    uint8_t bytes[LF_SPILL_HEAD_BYTES];
    uint64_t file_bytes;
    LF_TRY(file_size(s->fd, &file_bytes, err));
    LF_TRY(stream_in(s, bytes, sizeof bytes, err));
    return lf_spill_head_parse(head, bytes, file_bytes, err);
}

enum lf_status lf_spill_head_read(struct lf_spill_head *head, int fd, struct lf_error *err) {
    struct stream s = {.fd = fd};
    uint8_t unused[SUM_BYTES];
    lf_sha256_init(&s.sha);
    enum lf_status status = head_in(&s, head, err);
    lf_sha256_finish(&s.sha, unused);
    return status;
}

static bool same_head(const struct lf_spill_head *a, const struct lf_spill_head *b) {
    return a->rows == b->rows && a->hash == b->hash && a->images == b->images &&
           a->state_bytes == b->state_bytes && a->logits_bytes == b->logits_bytes &&
           !strcmp(a->fingerprint, b->fingerprint);
}

static enum lf_status check_sections(struct lf_target *target, const struct lf_spill_head *head,
                                     struct lf_error *err) {
    const struct lf_target_ops *ops = target->ops;
    if (head->state_bytes != ops->file_bytes(target, head->rows, LF_SAVE_STATE) ||
        (head->logits_bytes &&
         head->logits_bytes != ops->file_bytes(target, head->rows, LF_SAVE_LOGITS)))
        return lf_fail(err, LF_E_FORMAT, "sections of %llu and %llu bytes do not hold %llu rows",
                       (unsigned long long)head->state_bytes,
                       (unsigned long long)head->logits_bytes, (unsigned long long)head->rows);
    return LF_OK;
}

static enum lf_status check_hash(const struct lf_spill_head *head,
                                 const struct lf_spill_parts *parts, struct lf_error *err) {
    struct lf_rowkeys keys = {.n = head->rows, .token = parts->token, .image = parts->image,
                              .n_images = head->images};
    struct lf_rowkeys_hash hash = {0};
    lf_rowkeys_hash_to(&hash, &keys, keys.n);
    return hash.value == head->hash ? LF_OK
                                    : lf_fail(err, LF_E_FORMAT, "the keys do not have their hash");
}

// Every section is checked as it comes, for the checksum stands behind them all.
static enum lf_status read_all(struct stream *s, struct lf_target *target,
                               const struct lf_spill_head *want, struct lf_spill_parts *parts,
                               struct lf_error *err) {
    const struct lf_target_ops *ops = target->ops;
    struct lf_spill_head head;
    uint8_t sum[SUM_BYTES], told[SUM_BYTES];
    LF_TRY(head_in(s, &head, err));
    if (!same_head(&head, want))
        return lf_fail(err, LF_E_FORMAT, "the file is not the one that was found before");
    LF_TRY(check_sections(target, &head, err));
    LF_TRY(stream_in(s, parts->token, head.rows * sizeof *parts->token, err));
    LF_TRY(read_spans(s, parts->image, head.images, head.rows, err));
    LF_TRY(check_hash(&head, parts, err));
    LF_TRY(ops->read(target, head.rows, LF_SAVE_STATE, stream_in, s, &parts->state, err));
    if (head.logits_bytes)
        LF_TRY(ops->read(target, head.rows, LF_SAVE_LOGITS, stream_in, s, &parts->logits, err));
    lf_sha256_finish(&s->sha, sum);
    lf_sha256_init(&s->sha);
    LF_TRY(stream_in(s, told, sizeof told, err));
    return memcmp(sum, told, sizeof sum)
               ? lf_fail(err, LF_E_FORMAT, "the file does not have its checksum")
               : LF_OK;
}

enum lf_status lf_spill_file_read(int fd, struct lf_target *target,
                                  const struct lf_spill_head *want, struct lf_spill_parts *parts,
                                  struct lf_error *err) {
    struct stream s = {.fd = fd};
    uint8_t unused[SUM_BYTES];
    parts->state = parts->logits = NULL;
    lf_sha256_init(&s.sha);
    enum lf_status status = read_all(&s, target, want, parts, err);
    lf_sha256_finish(&s.sha, unused);
    return status;
}
