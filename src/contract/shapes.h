// The served configurations and the shapes that records make of them.
#pragma once
#include "base/error.h"
#include "contract/record.h"

enum { LF_SERVED_MAX = 4 };
struct lf_configs {
    struct lf_topology topology[LF_SERVED_MAX];
    struct lf_served served[LF_SERVED_MAX];
    uint32_t n;
};
// The demo and the release, whose config.json travel inside the program.
LF_CHECKED enum lf_status lf_configs_read(struct lf_configs *configs, struct lf_error *err);

struct lf_shapes {
    struct lf_shape *shape;
    uint32_t n, cap;
};
// All shapes of a record: the configurations' first.
void lf_shapes_of(struct lf_shapes *shapes, const struct lf_record *record,
                  const struct lf_configs *configs);
void lf_shapes_free(struct lf_shapes *shapes);

extern const char lf_demo_config[], lf_release_config[];
extern const size_t lf_demo_config_bytes, lf_release_config_bytes;
