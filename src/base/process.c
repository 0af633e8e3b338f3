#include "base/process.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/file.h"

enum { PATH_BYTES = 4096, FILE_BYTES_MAX = 1 << 20 };

bool lf_proc_text(struct lf_buffer *out, const char *root, const char *folder, const char *name) {
    char path[PATH_BYTES];
    struct lf_error err = LF_ERROR_INIT;
    int len = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    lf_buffer_clear(out);
    return len > 0 && len < PATH_BYTES &&
           lf_file_read(out, path, FILE_BYTES_MAX, &err) == LF_OK && out->len && !out->failed;
}

bool lf_proc_number(const char *text, const char *name, uint64_t *out) {
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len))
            continue;
        const char *digits = line + len + strspn(line + len, " \t");
        if (!isdigit((unsigned char)*digits))
            return false;
        *out = strtoull(digits, NULL, 10);
        return true;
    }
    return false;
}

static uint64_t kib(const char *text, const char *name) {
    uint64_t n = 0;
    return lf_proc_number(text, name, &n) ? n * 1024 : 0;
}

void lf_process_memory_read(struct lf_process_memory *out) {
    struct lf_buffer text = {0};
    *out = (struct lf_process_memory){0};
    if (lf_proc_text(&text, "", "/proc/self", "status"))
        *out = (struct lf_process_memory){
            .resident = kib(text.data, "VmRSS:"), .resident_peak = kib(text.data, "VmHWM:"),
            .anonymous = kib(text.data, "RssAnon:"), .mapped = kib(text.data, "RssFile:"),
        };
    lf_buffer_free(&text);
}

void lf_memory_bring(const void *memory, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory;
    void *first = (void *)(at & ~(page - 1));
    size_t all = at + bytes - (uintptr_t)first;
    // The reads are queued together; then the pages are mapped with one call.
    (void)madvise(first, all, MADV_WILLNEED);
    (void)madvise(first, all, MADV_POPULATE_READ);
}

void lf_memory_give_back(void *memory, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory;
    uintptr_t first = (at + page - 1) & ~(page - 1), end = (at + bytes) & ~(page - 1);
    // Refused only where pages are locked: then they stay.
    if (end > first)
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}
