#include "contract/controls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"

// What the outcome says when the module cannot be used.
struct reason {
    char *text;
    size_t bytes;
};

static void *open_module(const char *path, const struct reason *why) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        snprintf(why->text, why->bytes, "no module: %s", dlerror());
    return module;
}

static void *find(void *module, const char *symbol, const struct reason *why) {
    void *found = dlsym(module, symbol);
    if (!found)
        snprintf(why->text, why->bytes, "the module has no %s", symbol);
    return found;
}

static bool replace(struct lf_entry *entry, uint32_t set, void *module, const struct reason *why) {
    char symbol[128];
    snprintf(symbol, sizeof symbol, "lf_%s_%s", entry->name, lf_set_name(set));
    void *found = find(module, symbol, why);
    if (found)
        memcpy(&entry->fn[set], &found, sizeof found);
    return found;
}

// The CUDA column with all faults; which one shows is a number in it.
static bool load_cuda(const struct lf_control_run *run, struct lf_entry *entry,
                      const struct reason *why) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cuda.so", run->faults);
    void *module = open_module(path, why);
    uint32_t *fault = module ? find(module, "lf_cuda_fault", why) : NULL;
    if (!fault)
        return false;
    *fault = run->control->number;
    return replace(entry, LF_SET_CUDA, module, why);
}

// The module's functions in place of the served ones.
static bool load(const struct lf_control_run *run, struct lf_entry *entry,
                 const struct reason *why) {
    char path[4096];
    *entry = *run->entry;
    if (run->sets >> LF_SET_CUDA & 1)
        return load_cuda(run, entry, why);
    snprintf(path, sizeof path, "%s/%s.%u.so", run->faults, run->record->name,
             run->control->number);
    void *module = open_module(path, why);
    for (uint32_t set = LF_ISA_PORTABLE; module && set < LF_ISAS; set++)
        if (entry->fn[set] && (run->sets | 1u << LF_ISA_PORTABLE) >> set & 1 &&
            !replace(entry, set, module, why))
            return false;
    return module;
}

void lf_control_work(void *ctx, struct lf_outcome *outcome) {
    struct lf_control_run *run = ctx;
    struct lf_entry entry;
    struct reason why = {outcome->text, sizeof outcome->text};
    uint32_t wanted = run->control->red_in, red = LF_GATES_ALL;
    uint32_t sets = run->control->sets ? run->sets & run->control->sets : run->sets;
    if (!load(run, &entry, &why))
        return;
    for (uint32_t set = LF_ISA_PORTABLE; set < LF_SETS; set++) {
        if (!(sets >> set & 1) || (wanted & ~red))
            continue;
        struct lf_outcome one = {0};
        struct lf_trial trial = {.record = run->record, .entry = &entry, .all = run->all,
                                 .shapes = run->shapes, .sets = 1u << set,
                                 .plain_memory = run->plain_memory, .seed = run->seed,
                                 .effort = run->effort, .outcome = &one};
        lf_trial_run(&trial, wanted);
        // A device that was lost shows no values.
        red &= one.lost ? 0 : one.failed;
        *outcome = one;
        if (!one.lost && (wanted & ~one.failed))
            snprintf(outcome->text, sizeof outcome->text, "on %s gates %#x of %#x passed",
                     lf_set_name(set), wanted & ~one.failed, wanted);
    }
    outcome->failed = sets ? red & wanted : wanted;
}
