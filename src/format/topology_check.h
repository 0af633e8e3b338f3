// What must hold between the fields of a configuration (checkpoint.md 2.2).
#pragma once
#include "base/error.h"
#include "format/topology.h"

// Derives kv_source and index_source as well; origin names the file.
LF_CHECKED enum lf_status lf_topology_check(struct lf_topology *t, const char *origin,
                                            struct lf_error *err);
