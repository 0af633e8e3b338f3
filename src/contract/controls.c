#include "contract/controls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"

// The module's functions in place of the served ones.
static bool load(const struct lf_control_run *run, struct lf_entry *entry, char *text,
                 size_t text_bytes) {
    char path[4096];
    const char *name = run->record->name;
    snprintf(path, sizeof path, "%s/%s.%u.so", run->faults, name, run->control->number);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        snprintf(text, text_bytes, "no module: %s", dlerror());
        return false;
    }
    *entry = *run->entry;
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        char symbol[128];
        if (!entry->fn[isa] || !((run->isas | 1u << LF_ISA_PORTABLE) >> isa & 1))
            continue;
        snprintf(symbol, sizeof symbol, "lf_%s_%s", name, lf_isa_name(isa));
        void *found = dlsym(module, symbol);
        if (!found) {
            snprintf(text, text_bytes, "the module has no %s", symbol);
            return false;
        }
        memcpy(&entry->fn[isa], &found, sizeof found);
    }
    return true;
}

void lf_control_work(void *ctx, struct lf_outcome *outcome) {
    struct lf_control_run *run = ctx;
    struct lf_entry entry;
    uint32_t wanted = run->control->red_in, red = LF_GATES_ALL;
    uint32_t isas = run->control->isas ? run->isas & run->control->isas : run->isas;
    if (!load(run, &entry, outcome->text, sizeof outcome->text))
        return;
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!(isas >> isa & 1) || (wanted & ~red))
            continue;
        struct lf_outcome one = {0};
        struct lf_trial trial = {.record = run->record, .entry = &entry, .all = run->all,
                                 .shapes = run->shapes, .isas = 1u << isa, .seed = run->seed,
                                 .effort = run->effort, .outcome = &one};
        lf_trial_run(&trial, wanted);
        red &= one.failed;
        *outcome = one;
        if (wanted & ~one.failed)
            snprintf(outcome->text, sizeof outcome->text, "on %s gates %#x of %#x passed",
                     lf_isa_name(isa), wanted & ~one.failed, wanted);
    }
    outcome->failed = isas ? red & wanted : wanted;
}
