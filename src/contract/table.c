#include "contract/table.h"

#include <string.h>
#include "base/error.h"
#include "kernel/cuda_table.h"

#define LF_RECORD(name) extern const struct lf_record lf_##name##_record;
#include "contract/records.def"
#undef LF_RECORD

static const struct lf_record *const records[] = {
#define LF_RECORD(name) &lf_##name##_record,
#include "contract/records.def"
#undef LF_RECORD
};

#define LF_KERNEL(name)                                                                            \
    static void call_##name(lf_any_fn *fn, struct lf_device *device, const void *args) {           \
        ((void (*)(struct lf_device *, const struct lf_##name##_args *))fn)(device, args);         \
    }                                                                                              \
    static void reference_##name(const void *args, double *out) {                                  \
        lf_##name##_f64(args, out);                                                                \
    }
#include "kernel/registry.def"
#undef LF_KERNEL

static const struct lf_entry plain[] = {
#define LF_KERNEL(name_) {.name = #name_, .call = call_##name_, .reference = reference_##name_},
#include "kernel/registry.def"
#undef LF_KERNEL
};
enum { ENTRIES = sizeof plain / sizeof *plain };
_Static_assert((int)ENTRIES <= (int)LF_ENTRIES_MAX, "room for every kernel");

static void fill_set(struct lf_entry *entry, uint32_t set, const struct lf_kernels *kernels) {
    uint32_t i = 0;
#define LF_KERNEL(name) entry[i++].fn[set] = (lf_any_fn *)kernels->name;
#include "kernel/registry.def"
#undef LF_KERNEL
}

uint32_t lf_contract_sets(void) {
    uint32_t sets = 0;
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++)
        sets |= (uint32_t)lf_isa_present(isa) << isa;
    return sets;
}

void lf_contract_table_fill(struct lf_contract_table *table, struct lf_entry *entry) {
    struct lf_kernels kernels;
    struct lf_error err = LF_ERROR_INIT;
    memcpy(entry, plain, sizeof plain);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++)
        if (lf_isa_present(isa)) {
            LF_ASSERT(lf_kernels_init(&kernels, isa, &err) == LF_OK);
            fill_set(entry, isa, &kernels);
        }
    fill_set(entry, LF_SET_CUDA, &lf_cuda_kernels);
    *table = (struct lf_contract_table){.entry = entry, .entries = ENTRIES, .record = records,
                                        .records = sizeof records / sizeof *records};
}

const struct lf_entry *lf_contract_entry(const struct lf_contract_table *table, const char *name) {
    for (uint32_t i = 0; i < table->entries; i++)
        if (!strcmp(table->entry[i].name, name))
            return &table->entry[i];
    return NULL;
}
