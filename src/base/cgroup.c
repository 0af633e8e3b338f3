#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>
#include "base/process.h"

enum { PATH_BYTES = 4096 };
static const char top[] = "/sys/fs/cgroup";

// The process's own folder; false where no group of version 2 is named.
static bool own_folder(char *folder, size_t bytes, const char *groups) {
    const char *line = groups;
    while (line && strncmp(line, "0::/", 4))
        line = (line = strchr(line, '\n')) ? line + 1 : NULL;
    if (!line)
        return false;
    size_t path = strcspn(line + 3, "\n");
    int len = snprintf(folder, bytes, "%s%.*s", top, (int)path, line + 3);
    return len > 0 && (size_t)len < bytes;
}

void lf_cgroup_visit(const char *root, lf_cgroup_fn *visit, void *ctx) {
    struct lf_buffer text = {0};
    char folder[PATH_BYTES];
    bool named = lf_proc_text(&text, root, "/proc/self", "cgroup") &&
                 own_folder(folder, sizeof folder, text.data);
    lf_buffer_free(&text);
    if (!named)
        return;
    for (char *slash; (slash = strrchr(folder, '/')) && slash >= folder + sizeof top - 1;
         *slash = 0)
        visit(ctx, folder);
    visit(ctx, top);
}
