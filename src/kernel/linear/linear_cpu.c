#include "kernel/linear/linear.h"

#include "base/error.h"
#include "kernel/isa.h"
#include "kernel/linear/linear_groups.h"
#if defined(__AVX2__) || defined(LF_NEON)
#include "kernel/linear/linear_forms.h"
#include "kernel/linear/linear_waves.h"
#else
#include "kernel/linear/linear_forms_plain.h"
#endif

enum { FEW_TASK_ROWS = 128 };

struct launch {
    struct lf_pool *pool;
    const struct lf_linear_args *args;
    uint32_t share;  // outputs of a task if all threads are to get some
    uint32_t inputs; // jobs whose x is ready in the scratch of worker 0
};

static uint32_t row_tasks(const struct lf_linear_job *job) {
    return (job->rows + FEW_TASK_ROWS - 1) / FEW_TASK_ROWS;
}

static uint32_t job_tasks(const struct launch *launch, const struct lf_linear_job *job) {
    uint32_t outs = task_outputs(launch->share);
    if (job_in_waves(job))
        return 0;
    return row_tasks(job) * ((job->w->out + outs - 1) / outs);
}

// Tasks of the same outputs follow each other: their weights are near.
static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct launch *launch = ctx;
    const struct lf_linear_job *job = launch->args->job;
    for (uint32_t tasks; i >= (tasks = job_tasks(launch, job)); job++)
        i -= tasks;
    struct scratch *scratch = lf_pool_scratch(launch->pool, worker, sizeof *scratch);
    struct scratch *shared = lf_pool_scratch(launch->pool, 0, sizeof *scratch);
    uint32_t outs = task_outputs(launch->share), j = (uint32_t)(job - launch->args->job);
    struct block b = {.job = job, .o0 = i / row_tasks(job) * outs};
    b.r0 = i % row_tasks(job) * FEW_TASK_ROWS;
    b.rows = at_most(job->rows - b.r0, FEW_TASK_ROWS);
    b.outs = at_most(job->w->out - b.o0, outs);
#if LF_FAULT == 4 // past the first task, the scale of the block before
    struct lf_matrix wrong = *job->w;
    struct lf_linear_job same = *job;
    wrong.scale -= wrong.scale && b.o0 ? 1 : 0;
    same.w = &wrong, b.job = &same;
#endif
    run_block(&b, j < launch->inputs ? &shared->input[j] : &(struct input){0}, scratch);
}

void LF_KERNEL_NAME(lf_linear)(struct lf_device *device, const struct lf_linear_args *args) {
    struct lf_linear_args known = lf_linear_known(args);
    struct launch launch = {.pool = device->pool, .args = args = &known};
    uint64_t outputs = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_matrix *m = args->job[j].w;
        LF_ASSERT(m->in > 0 && (!lf_matrix_quantizes_input(m) || m->in % 32 == 0));
        outputs += (uint64_t)row_tasks(&args->job[j]) * m->out;
    }
    launch.share = task_share(outputs, lf_pool_threads(device->pool));
    launch.inputs = make_inputs(args, lf_pool_scratch(device->pool, 0, sizeof(struct scratch)));
    uint32_t tasks = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++)
        tasks += job_tasks(&launch, &args->job[j]);
    lf_pool_run(device->pool, tasks, run_task, &launch);
    run_waves(device->pool, args);
}
