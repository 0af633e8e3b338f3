#include "device/cpus.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include "base/cgroup.h"
#include "base/process.h"

struct quota {
    const char *root;
    struct lf_buffer text;
    uint32_t cpus;
};

// cpu.max: time and period in microseconds, or the word max.
static void apply_quota(void *ctx, const char *folder) {
    struct quota *quota = ctx;
    char *rest;
    if (!lf_proc_text(&quota->text, quota->root, folder, "cpu.max"))
        return;
    unsigned long long time = strtoull(quota->text.data, &rest, 10);
    unsigned long long period = strtoull(rest, NULL, 10);
    if (rest == quota->text.data || !period)
        return;
    unsigned long long cpus = time < period ? 1 : time / period;
    if (!quota->cpus || cpus < quota->cpus)
        quota->cpus = cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
}

uint32_t lf_cpus_quota(const char *root) {
    struct quota quota = {.root = root};
    lf_cgroup_visit(root, apply_quota, &quota);
    lf_buffer_free(&quota.text);
    return quota.cpus;
}

// The number of what kind of object the hardware thread lies in, or other where none is told.
static uint32_t number_of(hwloc_topology_t topology, hwloc_obj_t pu, hwloc_obj_type_t kind,
                          uint32_t other) {
    hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(topology, kind, pu);
    return object ? object->logical_index : other;
}

static void fill(struct lf_cpus *out, hwloc_topology_t topology, hwloc_const_bitmap_t mask) {
    hwloc_const_bitmap_t group = hwloc_topology_get_allowed_cpuset(topology);
    for (uint32_t i = 0; i < out->n; i++) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, i);
        int node = pu->nodeset ? hwloc_bitmap_first(pu->nodeset) : -1;
        out->cpu[i] = (struct lf_cpu){
            .os = pu->os_index,
            .core = number_of(topology, pu, HWLOC_OBJ_CORE, i),
            .cache = number_of(topology, pu, HWLOC_OBJ_L3CACHE, UINT32_MAX),
            .package = number_of(topology, pu, HWLOC_OBJ_PACKAGE, 0),
            .node = node < 0 ? 0 : (uint32_t)node,
            .allowed = hwloc_bitmap_isset(group, pu->os_index) &&
                       hwloc_bitmap_isset(mask, pu->os_index),
        };
    }
}

// The thread's mask is what threads that it starts inherit; a made-up machine has none.
static enum lf_status read_loaded(struct lf_cpus *out, hwloc_topology_t topology,
                                  struct lf_error *err) {
    hwloc_bitmap_t mask = hwloc_bitmap_alloc_full();
    int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    out->here = hwloc_topology_is_thissystem(topology);
    if (mask && out->here && hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_THREAD))
        hwloc_bitmap_fill(mask);
    out->cpu = n > 0 ? calloc((size_t)n, sizeof *out->cpu) : NULL;
    if (mask && out->cpu) {
        out->n = (uint32_t)n;
        fill(out, topology, mask);
        out->quota = out->here ? lf_cpus_quota("") : 0;
    } else {
        lf_fail(err, LF_E_MEM, "no memory for a list of %d processors", n);
    }
    hwloc_bitmap_free(mask);
    return err->status;
}

enum lf_status lf_cpus_read(struct lf_cpus *out, const char *made_up, struct lf_error *err) {
    hwloc_topology_t topology;
    *out = (struct lf_cpus){0};
    if (hwloc_topology_init(&topology))
        return lf_fail(err, LF_E_MEM, "hwloc has no memory for a topology");
    if (made_up && hwloc_topology_set_synthetic(topology, made_up))
        lf_fail(err, LF_E_VALUE, "%s: expected a synthetic topology of hwloc", made_up);
    else if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) ||
             hwloc_topology_load(topology))
        lf_fail(err, LF_E_IO, "hwloc cannot read the processors of this machine");
    else
        (void)!read_loaded(out, topology, err);
    hwloc_topology_destroy(topology);
    return err->status;
}

void lf_cpus_free(struct lf_cpus *cpus) {
    free(cpus->cpu);
    *cpus = (struct lf_cpus){0};
}
