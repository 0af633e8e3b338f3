#include "kernel/linear/linear.h"

#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"
#if defined(__AVX2__) || defined(LF_NEON)
#include "kernel/linear/linear_forms.h"
#else
#include "kernel/linear/linear_forms_plain.h"
#endif

struct launch {
    struct lf_pool *pool;
    const struct lf_linear_args *args;
    uint32_t outs_few; // outputs of a task of few rows: a multiple of 32, the FP8 block
    uint32_t inputs;   // jobs whose x is ready in the scratch of worker 0
};

static uint32_t job_tasks(const struct launch *launch, const struct lf_linear_job *job) {
    uint32_t outs = job_outputs(job, launch->outs_few);
    return job->rows ? (job->w->out + outs - 1) / outs : 0;
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct launch *launch = ctx;
    const struct lf_linear_job *job = launch->args->job;
    for (uint32_t tasks; i >= (tasks = job_tasks(launch, job)); job++)
        i -= tasks;
    struct scratch *scratch = lf_pool_scratch(launch->pool, worker, sizeof *scratch);
    struct scratch *shared = lf_pool_scratch(launch->pool, 0, sizeof *scratch);
    uint32_t outs = job_outputs(job, launch->outs_few), j = (uint32_t)(job - launch->args->job);
    struct block b = {.job = job, .o0 = i * outs, .rows = job->rows};
    b.outs = at_most(job->w->out - b.o0, outs);
    run_block(&b, j < launch->inputs ? &shared->input[j] : &(struct input){0}, scratch);
}

void LF_KERNEL_NAME(lf_linear)(struct lf_pool *pool, const struct lf_linear_args *args) {
    struct launch launch = {.pool = pool, .args = args};
    uint64_t outputs = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_matrix *m = args->job[j].w;
        LF_ASSERT(m->in > 0 && (!lf_matrix_quantizes_input(m) || m->in % 32 == 0));
        outputs += args->job[j].rows ? m->out : 0;
    }
    // Four tasks a thread even out what threads get done.
    uint64_t share = outputs / (4 * (uint64_t)lf_pool_threads(pool));
    launch.outs_few = share >= FEW_OUTS ? FEW_OUTS : ceil_to((uint32_t)share + 1, 32);
    launch.outs_few = at_most(launch.outs_few, FEW_OUTS);
    launch.inputs = make_inputs(args, lf_pool_scratch(pool, 0, sizeof(struct scratch)));
    uint32_t tasks = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++)
        tasks += job_tasks(&launch, &args->job[j]);
    lf_pool_run(pool, tasks, run_task, &launch);
}
