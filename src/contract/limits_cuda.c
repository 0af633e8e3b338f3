// What launches ask of a device of capability 9.0: of few rows, which choose others, and of most.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "contract/launch.h"
#include "contract/limits.h"

enum {
    GRID_X = INT32_MAX,
    GRID_YZ = 65535,
    THREADS = 1024,
    SHARED_BYTES = 227 << 10, // a block's, once it is asked for
    REGISTERS = 65536,        // a block's, given out to warps by so many
    WARP_REGISTERS = 256,
    WARP = 32
};
static const char device_name[] = "CUDA 9.0";

static void limit(struct lf_limit_pass *pass, const struct lf_cuda_shape *launch, const char *what,
                  uint64_t need, uint64_t most) {
    char text[120];
    snprintf(text, sizeof text, "%s of a launch of %s", what, launch->name);
    if (need > most)
        lf_limit_breach(pass, device_name, text, need, most);
}

static void look_at(void *ctx, const struct lf_cuda_shape *launch) {
    struct lf_limit_pass *pass = ctx;
    uint64_t warps = (launch->threads + WARP - 1) / WARP;
    uint64_t registers = ((uint64_t)launch->registers * WARP + WARP_REGISTERS - 1) /
                         WARP_REGISTERS * WARP_REGISTERS;
    limit(pass, launch, "grid x", launch->grid[0], GRID_X);
    limit(pass, launch, "grid y", launch->grid[1], GRID_YZ);
    limit(pass, launch, "grid z", launch->grid[2], GRID_YZ);
    limit(pass, launch, "threads", launch->threads,
          launch->threads_most < THREADS ? launch->threads_most : THREADS);
    limit(pass, launch, "shared bytes", launch->shared_bytes, SHARED_BYTES);
    limit(pass, launch, "registers", warps * registers, REGISTERS);
}

static size_t bytes_of(const struct lf_operand *o, uint32_t rows) {
    size_t each = o->role == LF_POINTER ? sizeof(void *) : lf_type_bytes(o->type);
    return ((o->role == LF_WEIGHT ? 0 : rows - 1) * lf_operand_pitch(o) + o->n) * each;
}

// Room that nobody writes takes no memory: wrappers read rules alone.
static void open_operand(struct lf_launch *launch, uint32_t operand) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    const struct lf_shape *shape = launch->problem->shape;
    void *room = mmap(NULL, bytes_of(o, launch->call.rows), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LF_ASSERT(room != MAP_FAILED);
    launch->call.data[operand] = room;
    for (uint32_t row = 0; o->role == LF_RULE && row < launch->call.rows; row++) {
        struct lf_check_rng rng = {row};
        struct lf_fill fill = {.rng = &rng, .args = shape->args, .row = row};
        o->fill(&fill, lf_call_at(&launch->call, operand, row, 0), o->n);
    }
}

static void look_at_rows(struct lf_trial *trial, struct lf_problem *problem, uint32_t rows) {
    struct lf_launch launch = {.problem = problem};
    uint32_t *source = malloc(rows * sizeof *source);
    LF_ASSERT(source);
    for (uint32_t row = 0; row < rows; row++)
        source[row] = row;
    launch.call = (struct lf_call){.trial = trial, .shape = problem->shape, .rows = rows,
                                   .source = source};
    for (uint32_t i = 0; i < trial->record->operands; i++)
        if (problem->operand[i].n)
            open_operand(&launch, i);
    lf_launch_bind(&launch);
    trial->entry->call(trial->entry->fn[LF_SET_CUDA],
                       &(struct lf_device){.cuda = trial->device->cuda}, launch.call.args);
    for (uint32_t i = 0; i < trial->record->operands; i++)
        if (problem->operand[i].n)
            munmap(launch.call.data[i], bytes_of(&problem->operand[i], rows));
    free(source);
}

void lf_limits_of_launches(struct lf_limit_pass *pass, const struct lf_entry *entry,
                           const struct lf_shapes *shapes) {
    static const uint32_t few[] = {1, 16, 64};
    struct lf_trial trial = {.record = pass->record, .entry = entry, .set = LF_SET_CUDA};
    struct lf_error err = LF_ERROR_INIT;
    enum lf_status status = lf_trial_cuda_open(&trial.device, &err);
    if (status == LF_OK)
        lf_cuda_watch(trial.device->cuda, look_at, pass);
    for (uint32_t s = 0; status == LF_OK && s < shapes->n && !pass->problems; s++) {
        const struct lf_shape *shape = &shapes->shape[s];
        struct lf_problem problem = {.trial = &trial, .shape = shape, .rows = shape->rows};
        pass->record->describe(shape->args, problem.operand);
        for (size_t i = 0; i < sizeof few / sizeof *few && few[i] < shape->rows; i++)
            look_at_rows(&trial, &problem, few[i]);
        look_at_rows(&trial, &problem, shape->rows);
        status = lf_cuda_wait(trial.device->cuda, &err);
    }
    if (status != LF_OK) {
        lf_buffer_printf(pass->lines, "LIMIT %s on %s: %s\n", pass->record->name, device_name,
                         err.text);
        pass->problems++;
    }
    lf_trial_cuda_close(trial.device);
}
