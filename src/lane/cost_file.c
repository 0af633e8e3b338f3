#include "lane/cost_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"

enum { BYTES_MAX = 16384, HEX = 64 };
static const char header[] = "lanefold launch times 1\n";

static void hash(char hex[HEX + 1], const char *text, size_t len) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, text, len);
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
}

bool lf_cost_path(char path[LF_COST_PATH], const char *folder, const struct lf_target_info *info) {
    char key[256], hex[HEX + 1];
    if (!folder || !info->name[0])
        return false;
    snprintf(key, sizeof key, "%s%s slots %u context %llu window %u rows %u", header, info->name,
             info->slots, (unsigned long long)info->context, info->window_max,
             info->launch_rows_max);
    hash(hex, key, strlen(key));
    int len = snprintf(path, LF_COST_PATH, "%s/times-%s", folder, hex);
    return len > 0 && len < LF_COST_PATH;
}

// One number a line; false where it is no time.
static bool take(const char **at, double *seconds) {
    char *end;
    *seconds = strtod(*at, &end);
    if (end == *at || *end != '\n' || !isfinite(*seconds) || *seconds < 0)
        return false;
    *at = end + 1;
    return true;
}

static bool take_table(const char **at, double table[LF_COST_ROWS + 1]) {
    for (uint32_t r = 1; r <= LF_COST_ROWS; r++)
        if (!take(at, &table[r]) || table[r] < table[r - 1])
            return false;
    return true;
}

static bool parse(struct lf_cost *c, const struct lf_buffer *text) {
    char hex[HEX + 1];
    size_t body = text->len > HEX + 1 ? text->len - HEX - 1 : 0;
    const char *at = text->data + sizeof header - 1;
    *c = (struct lf_cost){0};
    if (body < sizeof header || memcmp(text->data, header, sizeof header - 1))
        return false;
    hash(hex, text->data, body);
    if (memcmp(text->data + body, hex, HEX) || text->data[text->len - 1] != '\n')
        return false;
    if (!take(&at, &c->window) || !take_table(&at, c->rows[0]) || !take_table(&at, c->pass))
        return false;
    c->used[0] = c->measured = true;
    return at == text->data + body && c->rows[0][1] > 0;
}

bool lf_cost_read(struct lf_cost *c, const char *path) {
    struct lf_error none = LF_ERROR_INIT;
    struct lf_buffer text = {0};
    bool whole = lf_file_read(&text, path, BYTES_MAX, &none) == LF_OK && parse(c, &text);
    lf_buffer_free(&text);
    return whole;
}

// Every folder on the way to path.
static enum lf_status make_folders(char *path, struct lf_error *err) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        if (failed)
            lf_fail_errno(err, LF_E_IO, "cannot make the folder %s", path);
        *slash = '/';
        if (failed)
            return err->status;
    }
    return LF_OK;
}

static void print_table(struct lf_buffer *text, const double table[LF_COST_ROWS + 1]) {
    for (uint32_t r = 1; r <= LF_COST_ROWS; r++)
        lf_buffer_printf(text, "%a\n", table[r]);
}

static enum lf_status write_text(const struct lf_buffer *text, const char *path,
                                 struct lf_error *err) {
    FILE *file = fopen(path, "wx");
    if (!file)
        return lf_fail_errno(err, LF_E_IO, "cannot write %s", path);
    bool written = fwrite(text->data, 1, text->len, file) == text->len;
    if (fclose(file) || !written)
        return lf_fail_errno(err, LF_E_IO, "cannot write %s", path);
    return LF_OK;
}

enum lf_status lf_cost_write(const struct lf_cost *c, const char *path, struct lf_error *err) {
    char beside[LF_COST_PATH + 32], hex[HEX + 1];
    struct lf_buffer text = {0};
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    lf_buffer_printf(&text, "%s%a\n", header, c->window);
    print_table(&text, c->rows[0]);
    print_table(&text, c->pass);
    if (text.failed) {
        lf_buffer_free(&text);
        return lf_fail(err, LF_E_MEM, "out of memory for launch times");
    }
    hash(hex, text.data, text.len);
    lf_buffer_printf(&text, "%s\n", hex);
    if (make_folders(beside, err) == LF_OK && !text.failed) {
        (void)!unlink(beside);
        if (write_text(&text, beside, err) == LF_OK && rename(beside, path))
            lf_fail_errno(err, LF_E_IO, "cannot rename to %s", path);
        if (err->status != LF_OK)
            (void)!unlink(beside);
    }
    lf_buffer_free(&text);
    return err->status;
}

static enum lf_status fill(struct lf_cost *c, struct lf_target *target, const char *path,
                           lf_clock_fn *clock, void *ctx, struct lf_error *err) {
    struct lf_error unkept = LF_ERROR_INIT;
    if (path && lf_cost_read(c, path)) {
        LF_TRY(lf_cost_sample(c, target, clock, ctx, err));
        if (c->measured)
            return LF_OK;
    }
    LF_TRY(lf_cost_measure(c, target, clock, ctx, err));
    if (path && c->measured && lf_cost_write(c, path, &unkept) != LF_OK)
        lf_log(LF_LOG_WARN, "launch times are not kept: %s", unkept.text);
    return LF_OK;
}

void lf_cost_start(struct lf_cost *c, struct lf_target *target, const char *folder,
                   lf_clock_fn *clock, void *ctx) {
    struct lf_error err = LF_ERROR_INIT;
    char path[LF_COST_PATH];
    bool kept = lf_cost_path(path, folder, target->ops->info(target));
    if (fill(c, target, kept ? path : NULL, clock, ctx, &err) != LF_OK)
        lf_log(LF_LOG_WARN, "no drafts: launches could not be timed: %s", err.text);
}
