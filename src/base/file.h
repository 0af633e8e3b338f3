// Files: mapped read-only, or read whole up to a stated limit. The opened descriptor decides.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

struct lf_map {
    const uint8_t *data; // NULL for an empty file
    size_t bytes;
};

// Follows symlinks, then requires a regular file. Errors: LF_E_IO naming the path.
LF_CHECKED enum lf_status lf_map_open(struct lf_map *map, const char *path, struct lf_error *err);
void lf_map_close(struct lf_map *map);
// Reads a regular file of at most limit bytes; a larger one is LF_E_TOO_LARGE naming both sizes.
LF_CHECKED enum lf_status lf_file_read(struct lf_buffer *out, const char *path, size_t limit,
                                       struct lf_error *err);
