#include "contract/shapes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "model/model.h"

// What serve allows at most (--chunk-rows, --context, --parallel) and a window with its drafts.
enum { CHUNK_ROWS = 4096, CONTEXT = 1048576, SLOTS = 64, WINDOW_ROWS = 16 };

static enum lf_status read_one(struct lf_configs *configs, const char *name, const char *json,
                               size_t bytes, struct lf_error *err) {
    struct lf_topology *t = &configs->topology[configs->n];
    LF_TRY(lf_topology_parse(t, json, bytes, name, err));
    configs->served[configs->n++] =
        (struct lf_served){.name = name, .t = t, .chunk_rows = CHUNK_ROWS,
                           .launch_rows = LF_LAUNCH_ROWS, .window_rows = WINDOW_ROWS,
                           .slots = SLOTS, .context = CONTEXT};
    return LF_OK;
}

enum lf_status lf_configs_read(struct lf_configs *configs, struct lf_error *err) {
    configs->n = 0;
    LF_TRY(read_one(configs, "demo", lf_demo_config, lf_demo_config_bytes, err));
    return read_one(configs, "release", lf_release_config, lf_release_config_bytes, err);
}

struct lf_shape *lf_shapes_add(struct lf_shapes *shapes, uint32_t rows, const void *args,
                               size_t args_bytes, const char *name, ...) {
    struct lf_shape shape = {.rows = rows};
    LF_ASSERT(args_bytes <= sizeof shape.args && rows > 0);
    memcpy(shape.args, args, args_bytes);
    va_list list;
    va_start(list, name);
    vsnprintf(shape.name, sizeof shape.name, name, list);
    va_end(list);
    for (uint32_t i = 0; i < shapes->n; i++)
        if (!memcmp(shapes->shape[i].args, shape.args, sizeof shape.args) &&
            shapes->shape[i].rows == rows)
            return &shapes->shape[i];
    if (shapes->n == shapes->cap) {
        shapes->cap = 2 * shapes->cap + 16;
        shapes->shape = reallocarray(shapes->shape, shapes->cap, sizeof *shapes->shape);
        LF_ASSERT(shapes->shape);
    }
    shapes->shape[shapes->n] = shape;
    return &shapes->shape[shapes->n++];
}

void lf_shapes_of(struct lf_shapes *shapes, const struct lf_record *record,
                  const struct lf_configs *configs) {
    *shapes = (struct lf_shapes){0};
    for (uint32_t i = 0; record->shapes && i < configs->n; i++)
        record->shapes(&configs->served[i], shapes);
    if (record->ragged)
        record->ragged(shapes);
}

void lf_shapes_free(struct lf_shapes *shapes) {
    free(shapes->shape);
    *shapes = (struct lf_shapes){0};
}
