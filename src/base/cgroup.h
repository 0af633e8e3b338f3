// Control groups of version 2: the folders whose limits bind this process.
#pragma once

// One folder below a root, such as /sys/fs/cgroup/pod.
typedef void lf_cgroup_fn(void *ctx, const char *folder);
// Visits the process's own group first, then each above it, the top last; root: "" or a test's.
void lf_cgroup_visit(const char *root, lf_cgroup_fn *visit, void *ctx);
