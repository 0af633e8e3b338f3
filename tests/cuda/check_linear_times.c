// How long linear maps take at the release's sizes, beside the device's limits in the same run.
#include <string.h>
#include "cuda/check_time.h"
#include "kernel/limits.h"

enum { JOBS_MAX = 768, EXPERTS = 384, STEPS = 20000 };

// Maps of one shape in a launch; of experts those after the first `live` have no rows.
struct shape {
    enum lf_weight_format format;
    uint32_t out, in, maps, live;
};

static const char *const names[] = {"BF16", "F16", "F32", "FP8", "MXFP4"};
static const double widths[] = {2, 2, 4, 1, 0.5};

static void time_maps(struct check *c, const struct regions *g, const struct shape *s,
                      uint32_t rows) {
    static struct lf_matrix matrix[VARIANTS * JOBS_MAX];
    static struct lf_linear_job job[VARIANTS * JOBS_MAX];
    struct lf_linear_args args[VARIANTS];
    uint32_t live = s->live ? s->live : s->maps, *group = (uint32_t *)g->out;
    double bytes = (double)s->out * s->in * widths[s->format];
    size_t step = (size_t)bytes;
    char text[80];
    for (uint32_t i = 0; i < VARIANTS * s->maps; i++) {
        size_t at = (i * step) % (WEIGHT_BYTES - step) / 256 * 256;
        matrix[i] = (struct lf_matrix){s->format, s->out, s->in, g->weight + at, g->scale};
        job[i] = (struct lf_linear_job){.w = &matrix[i], .rows = rows, .x = g->x,
                                        .x_stride = s->in, .y = g->out + (64 << 10),
                                        .y_stride = s->out};
        if (s->live)
            job[i].group = i % s->maps < s->live ? group : group + 2;
    }
    for (uint32_t v = 0; v < VARIANTS; v++)
        args[v] = (struct lf_linear_args){.n_jobs = s->maps, .job = job + v * s->maps};
    lf_cuda_upload(c->on.cuda, group, (uint32_t[]){0, rows, rows, rows}, 4 * sizeof *group);
    snprintf(text, sizeof text, "linear %s %u x %u, %u of %u maps, %u rows", names[s->format],
             s->out, s->in, live, s->maps, rows);
    TIME_CALLS(c, text, bytes * live, 2.0 * s->out * s->in * live * rows,
               lf_cuda_kernels.linear(&c->on, &args[i % VARIANTS]));
}

static void time_limits(struct check *c, const struct regions *g) {
    static const size_t sizes[] = {42 << 20, 94 << 20, 1300 << 20};
    for (int s = 0; s < 3; s++) {
        char text[80];
        size_t bytes = sizes[s], places = WEIGHT_BYTES / bytes;
        snprintf(text, sizeof text, "read of %zu MiB", bytes >> 20);
        TIME_CALLS(c, text, (double)bytes, 0,
                   lf_limit_read(&c->on, g->weight + (size_t)i % places * bytes, bytes,
                                    (uint32_t *)g->out));
    }
    TIME_CALLS(c, "products on wgmma, 192 rows", 0, lf_limit_operations(&c->on, STEPS),
               lf_limit_products(&c->on, g->x, STEPS, (float *)g->out));
}

void check_linear_times(struct check *c, const struct regions *g) {
    static const struct shape large[] = {{LF_WEIGHT_FP8, 32768, 1280, 1, 0},
                                         {LF_WEIGHT_FP8, 8192, 5120, 1, 0},
                                         {LF_WEIGHT_FP8, 5120, 8192, 1, 0},
                                         {LF_WEIGHT_BF16, 129280, 5120, 1, 0}};
    static const struct shape experts[] = {{LF_WEIGHT_MXFP4, 2304, 5120, 16, 0},
                                           {LF_WEIGHT_MXFP4, 2304, 5120, 768, 16},
                                           {LF_WEIGHT_MXFP4, 5120, 2304, 384, 8}};
    static const struct shape small[] = {{LF_WEIGHT_FP8, 1280, 5120, 1, 0},
                                         {LF_WEIGHT_F32, 384, 5120, 1, 0}};
    static const struct shape all_experts = {LF_WEIGHT_MXFP4, 2304, 5120, 768, 768};
    static const uint32_t expert_rows[] = {20, 43, 60, 170};
    static const uint32_t rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
    time_limits(c, g);
    for (int i = 0; i < 10; i++) {
        for (int s = 0; s < (rows[i] > 512 ? 3 : 4); s++)
            time_maps(c, g, &large[s], rows[i]);
        for (int s = 0; s < 3 && rows[i] <= 64; s++)
            time_maps(c, g, &experts[s], rows[i]);
    }
    for (int i = 0; i < 4; i++)
        time_maps(c, g, &all_experts, expert_rows[i]);
    time_maps(c, g, &small[0], 1);
    time_maps(c, g, &small[1], 1);
    time_limits(c, g);
}
