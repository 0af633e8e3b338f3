#include "contract/limits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "contract/child.h"
#include "contract/launch.h"
#include "model/model.h"

// What the project claims; which set a CPU runs is the launch table's to say.
static const struct device {
    const char *name;
    uint32_t set;
    size_t stack_bytes; // of a thread with the smallest default of a C library; CUDA: none
} devices[] = {
    {"x86-64", LF_ISA_PORTABLE, 128 << 10},
    {"x86-64 AVX2", LF_ISA_AVX2, 128 << 10},
    {"x86-64 AVX-512", LF_ISA_AVX512, 128 << 10},
    {"AArch64 NEON", LF_ISA_NEON, 128 << 10},
    {"CUDA 9.0", LF_SET_CUDA, 0},
};

// What bench layers runs at most in a chunk on a device: more than serve.
enum { DEVICE_CHUNK_ROWS = 8192, LAUNCHES_LIMIT_S = 600 };

void lf_limit_breach(struct lf_limit_pass *pass, const char *device, const char *what,
                     uint64_t need, uint64_t limit) {
    lf_buffer_printf(pass->lines, "LIMIT %s on %s: %s %llu, limit %llu\n", pass->record->name,
                     device, what, (unsigned long long)need, (unsigned long long)limit);
    pass->problems++;
}

// Every product that the address computation holds in few bits, at the most rows of a launch.
static void check_products(struct lf_limit_pass *pass, const struct device *device,
                           const struct lf_shape *shape) {
    struct lf_product product[LF_PRODUCTS_MAX];
    bool cuda = device->set == LF_SET_CUDA;
    uint32_t (*list)(const void *, uint32_t, struct lf_product *) =
        cuda ? pass->record->cuda_products : pass->record->products;
    uint32_t n = list ? list(shape->args, shape->rows, product) : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t limit = product[i].bits < 64 ? (1ull << product[i].bits) - 1 : UINT64_MAX;
        if (product[i].value > limit)
            lf_limit_breach(pass, device->name, product[i].what, product[i].value, limit);
    }
}

// Operands are addressed with size_t: rows times pitch may not pass half of it.
static void check_extents(struct lf_limit_pass *pass, const struct device *device,
                          const struct lf_shape *shape) {
    struct lf_operand operand[LF_OPERANDS_MAX] = {0};
    pass->record->describe(shape->args, operand);
    for (uint32_t i = 0; i < pass->record->operands; i++) {
        const struct lf_operand *o = &operand[i];
        uint64_t rows = o->role == LF_WEIGHT ? 1 : shape->rows;
        uint64_t most = (uint64_t)PTRDIFF_MAX / lf_type_bytes(o->type);
        if (o->n && lf_operand_pitch(o) > most / rows)
            lf_limit_breach(pass, device->name, o->name, lf_operand_pitch(o), most / rows);
    }
}

static void check_scratch(struct lf_limit_pass *pass, const struct device *device,
                          const struct lf_shape *shape, const struct lf_configs *configs) {
    uint64_t need = pass->record->scratch ? pass->record->scratch(shape->args) : 0, most = 0;
    for (uint32_t i = 0; i < configs->n; i++) {
        uint64_t served = lf_model_scratch_bytes(configs->served[i].t);
        most = served > most ? served : most;
    }
    if (need > most)
        lf_limit_breach(pass, device->name, "scratch bytes a thread", need, most);
}

// The stack that this system gives a thread by default.
static uint64_t stack_here(void) {
    pthread_attr_t attr;
    size_t bytes = 0;
    if (!pthread_getattr_default_np(&attr)) {
        pthread_attr_getstacksize(&attr, &bytes);
        pthread_attr_destroy(&attr);
    }
    return bytes;
}

static void check_device(struct lf_limit_pass *pass, const struct device *device,
                         const struct lf_shapes *shapes, const struct lf_configs *configs) {
    bool cuda = device->set == LF_SET_CUDA;
    for (uint32_t s = 0; s < shapes->n; s++) {
        check_extents(pass, device, &shapes->shape[s]);
        check_products(pass, device, &shapes->shape[s]);
        if (!cuda)
            check_scratch(pass, device, &shapes->shape[s], configs);
    }
    if (!cuda && pass->record->stack_bytes > device->stack_bytes)
        lf_limit_breach(pass, device->name, "stack bytes", pass->record->stack_bytes,
                        device->stack_bytes);
}

// Nothing is run and nothing is cut: weights have their full size.
static void list_shapes(struct lf_shapes *shapes, const struct lf_record *record, bool cuda,
                        const struct lf_configs *configs) {
    struct lf_configs *most = malloc(sizeof *most);
    LF_ASSERT(most);
    *most = *configs;
    for (uint32_t i = 0; i < most->n; i++) {
        most->served[i].whole = true;
        if (cuda)
            most->served[i].chunk_rows = DEVICE_CHUNK_ROWS;
    }
    lf_shapes_of(shapes, record, most);
    free(most);
}

struct launches {
    struct lf_limit_pass *pass;
    const struct lf_entry *entry;
    const struct lf_shapes *shapes;
};

static void look_at_launches(void *ctx, struct lf_outcome *outcome) {
    struct launches *l = ctx;
    struct lf_buffer lines = {0};
    struct lf_limit_pass pass = {.record = l->pass->record, .lines = &lines};
    lf_limits_of_launches(&pass, l->entry, l->shapes);
    outcome->problems = pass.problems;
    snprintf(outcome->text, sizeof outcome->text, "%s", lines.len ? lines.data : "");
    lf_buffer_free(&lines);
}

// A child opens the device: this process could not fork any more.
static void check_launches(struct lf_limit_pass *pass, const struct lf_entry *entry,
                           const struct lf_shapes *shapes) {
    struct launches launches = {pass, entry, shapes};
    struct lf_outcome outcome = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_child child;
    if (lf_child_fork(&child, LAUNCHES_LIMIT_S, look_at_launches, &launches, &err) != LF_OK)
        snprintf(outcome.text, sizeof outcome.text, "%s", err.text);
    else if (lf_child_take(&child, &outcome) == LF_CHILD_DONE) {
        lf_buffer_printf(pass->lines, "%s", outcome.text);
        pass->problems += outcome.problems;
        return;
    }
    lf_buffer_printf(pass->lines, "LIMIT %s: looking at its launches: %s\n", pass->record->name,
                     outcome.text);
    pass->problems++;
}

uint32_t lf_limits_check(const struct lf_record *record, const struct lf_entry *entry,
                         uint32_t sets, const struct lf_configs *configs,
                         struct lf_buffer *lines) {
    struct lf_limit_pass pass = {.record = record, .lines = lines};
    bool cuda = sets >> LF_SET_CUDA & 1;
    struct lf_shapes shapes;
    list_shapes(&shapes, record, cuda, configs);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        const struct device *device = &devices[d];
        bool here = (sets | (cuda ? 0 : lf_contract_sets())) >> device->set & 1;
        if (cuda != (device->set == LF_SET_CUDA))
            continue;
        if (here && !entry->fn[device->set])
            lf_limit_breach(&pass, device->name, "functions", 0, 1);
        check_device(&pass, device, &shapes, configs);
    }
    if (cuda && entry->fn[LF_SET_CUDA])
        check_launches(&pass, entry, &shapes);
    if (!cuda && record->stack_bytes > stack_here())
        lf_limit_breach(&pass, "this machine", "stack bytes", record->stack_bytes, stack_here());
    lf_shapes_free(&shapes);
    return pass.problems;
}
