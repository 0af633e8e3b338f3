#include "device/placement.h"

#include <stdlib.h>
#include "device/bind.h"

// How many workers share each thing with one hardware thread, and whether one is on it.
struct load {
    uint32_t core, node, package, cache;
    bool taken;
};

// Cores before siblings, then even over nodes, packages and caches.
static bool is_lighter(const struct load *a, const struct load *b) {
    if (a->core != b->core)
        return a->core < b->core;
    if (a->node != b->node)
        return a->node < b->node;
    if (a->package != b->package)
        return a->package < b->package;
    return a->cache < b->cache;
}

static void add_worker(struct load *load, const struct lf_cpus *cpus, uint32_t to) {
    const struct lf_cpu *on = &cpus->cpu[to];
    load[to].taken = true;
    for (uint32_t i = 0; i < cpus->n; i++) {
        const struct lf_cpu *cpu = &cpus->cpu[i];
        load[i].core += cpu->core == on->core;
        load[i].node += cpu->node == on->node;
        load[i].package += cpu->package == on->package;
        load[i].cache += cpu->cache == on->cache;
    }
}

// Each worker takes the lightest place left, the first of equals; threads have a place each.
static enum lf_status place(struct lf_placement *p, const struct lf_cpus *cpus,
                            struct lf_error *err) {
    struct load *load = calloc(cpus->n, sizeof *load);
    if (!load)
        return lf_fail(err, LF_E_MEM, "no memory for a list of %u processors", cpus->n);
    for (uint32_t worker = 0; worker < p->threads; worker++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < cpus->n; i++)
            if (cpus->cpu[i].allowed && !load[i].taken &&
                (best == UINT32_MAX || is_lighter(&load[i], &load[best])))
                best = i;
        LF_ASSERT(best != UINT32_MAX);
        p->cpu[worker] = cpus->cpu[best].os;
        add_worker(load, cpus, best);
    }
    free(load);
    return LF_OK;
}

// What this process may use; returns its hardware threads.
static uint32_t count(struct lf_placement *p, const struct lf_cpus *cpus) {
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < cpus->n; i++) {
        bool core_new = cpus->cpu[i].allowed, node_new = core_new;
        for (uint32_t k = 0; k < i; k++) {
            if (!cpus->cpu[k].allowed)
                continue;
            core_new = core_new && cpus->cpu[k].core != cpus->cpu[i].core;
            node_new = node_new && cpus->cpu[k].node != cpus->cpu[i].node;
        }
        allowed += cpus->cpu[i].allowed;
        p->cores += core_new;
        p->nodes += node_new;
        if (node_new && cpus->cpu[i].node < 64)
            p->node_mask |= UINT64_C(1) << cpus->cpu[i].node;
    }
    return allowed;
}

// Binding must gain something, and a bound worker must not wait beside another program's thread.
static const char *why_not(const struct lf_placement *p, const struct lf_cpus *cpus,
                           uint32_t allowed) {
    if (!cpus->here)
        return "hwloc describes another machine";
    if (allowed < cpus->n)
        return "some processors are not for this process";
    if (cpus->quota)
        return "the control group limits processor time";
    if (p->threads == 1)
        return "one thread";
    if (p->threads > p->cores)
        return "more threads than cores";
    return p->nodes == 1 ? "one node" : "";
}

enum lf_status lf_placement_make(struct lf_placement *out, const struct lf_cpus *cpus,
                                 uint32_t threads, enum lf_pin pin, struct lf_error *err) {
    *out = (struct lf_placement){.why = "as asked"};
    uint32_t allowed = count(out, cpus);
    if (!allowed)
        return lf_fail(err, LF_E_UNSUPPORTED, "hwloc names no processor that this process may use");
    uint32_t most = cpus->quota && cpus->quota < out->cores ? cpus->quota : out->cores;
    out->threads = threads ? threads : most < LF_THREADS_MAX ? most : LF_THREADS_MAX;
    LF_ASSERT(out->threads <= LF_THREADS_MAX);
    if (out->nodes == 1 || !cpus->here)
        out->node_mask = 0;
    if (pin == LF_PIN_ON && !cpus->here)
        return lf_fail(err, LF_E_USAGE, "--pin on: hwloc describes another machine");
    if (pin == LF_PIN_ON && out->threads > allowed)
        return lf_fail(err, LF_E_USAGE, "--pin on: %u threads, this process may use %u processors",
                       out->threads, allowed);
    if (pin == LF_PIN_AUTO)
        out->why = why_not(out, cpus, allowed);
    out->bound = pin == LF_PIN_ON || (pin == LF_PIN_AUTO && !*out->why);
    if (!out->bound)
        return LF_OK;
    out->why = "";
    return place(out, cpus, err);
}

enum lf_status lf_placement_read(struct lf_placement *out, uint32_t threads, enum lf_pin pin,
                                 struct lf_error *err) {
    struct lf_cpus cpus;
    LF_TRY(lf_cpus_read(&cpus, NULL, err));
    enum lf_status status = lf_placement_make(out, &cpus, threads, pin, err);
    lf_cpus_free(&cpus);
    if (status == LF_OK && out->node_mask && !lf_bind_is_free())
        out->node_mask = 0;
    return status;
}

static const char *plural(uint32_t n) {
    return n == 1 ? "" : "s";
}

void lf_placement_print(struct lf_buffer *out, const struct lf_placement *p) {
    lf_buffer_printf(out, "%u thread%s, %u core%s, %u NUMA node%s: %s%s%s", p->threads,
                     plural(p->threads), p->cores, plural(p->cores), p->nodes, plural(p->nodes),
                     p->bound ? "bound" : "not bound, ", p->why,
                     p->node_mask ? ", memory interleaved" : "");
}
