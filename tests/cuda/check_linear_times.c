// How long linear maps take at the release's sizes, beside the device's limits in the same run.
#include <string.h>
#include "cuda/check_time.h"
#include "kernel/limits.h"

enum { JOBS_MAX = 768, EXPERTS = 384, STEPS = 20000, CHUNK_ROWS = 2048, CHOSEN_MAX = 1 << 17 };

// Maps of one shape in a launch; of experts those after the first `live` have no rows.
struct shape {
    enum lf_weight_format format;
    uint32_t out, in, maps, live;
};

static const char *const names[] = {"BF16", "F16", "F32", "FP8", "MXFP4"};
static const double widths[] = {2, 2, 4, 1, 0.5};

// Launches of a shape, whose weights follow each other through the region.
struct maps {
    struct lf_matrix matrix[VARIANTS * JOBS_MAX];
    struct lf_linear_job job[VARIANTS * JOBS_MAX];
    struct lf_linear_args args[VARIANTS];
    uint32_t live;
    double bytes; // that a launch reads
};

// Two maps an expert, whose rows are `rows` of a chunk's.
static void choose_rows(struct check *c, const struct regions *g, uint32_t rows,
                        struct maps *maps) {
    static uint32_t table[JOBS_MAX / 2 + 1 + CHOSEN_MAX];
    uint32_t *group = (uint32_t *)g->out, all = maps->live / 2 * rows;
    uint32_t *index = table + maps->live / 2 + 1;
    LF_ASSERT(all <= CHOSEN_MAX);
    for (uint32_t e = 0; e <= maps->live / 2; e++)
        table[e] = e * rows;
    for (uint32_t r = 0; r < all; r++)
        index[r] = check_random(c, CHUNK_ROWS);
    for (uint32_t i = 0; i < VARIANTS * maps->live; i++) {
        maps->job[i].rows = CHUNK_ROWS;
        maps->job[i].group = group + i % maps->live / 2;
        maps->job[i].x_index = group + (index - table);
    }
    for (uint32_t v = 0; v < VARIANTS; v++)
        maps->args[v].group_rows = all;
    lf_cuda_upload(c->on.cuda, group, table, sizeof table);
}

static void fill_maps(struct check *c, const struct regions *g, const struct shape *s,
                      uint32_t rows, struct maps *maps) {
    uint32_t *group = (uint32_t *)g->out;
    double bytes = (double)s->out * s->in * widths[s->format];
    size_t step = (size_t)bytes;
    maps->live = s->live ? s->live : s->maps;
    maps->bytes = bytes * maps->live;
    for (uint32_t i = 0; i < VARIANTS * s->maps; i++) {
        size_t at = (i * step) % (WEIGHT_BYTES - step) / 256 * 256;
        maps->matrix[i] = (struct lf_matrix){.format = s->format, .out = s->out, .in = s->in,
                                             .data = g->weight + at, .scale = g->scale,
                                             .is_regular = true};
        maps->job[i] = (struct lf_linear_job){.w = &maps->matrix[i], .rows = rows, .x = g->x,
                                              .x_stride = s->in, .y = g->out + (1 << 20),
                                              .y_stride = s->out};
        if (s->live)
            maps->job[i].group = i % s->maps < s->live ? group : group + 2;
    }
    for (uint32_t v = 0; v < VARIANTS; v++)
        maps->args[v] = (struct lf_linear_args){.n_jobs = s->maps,
                                                .job = maps->job + v * s->maps};
    lf_cuda_upload(c->on.cuda, group, (uint32_t[]){0, rows, rows, rows}, 4 * sizeof *group);
    if (s->live == s->maps)
        choose_rows(c, g, rows, maps);
}

static void time_maps(struct check *c, const struct regions *g, const struct shape *s,
                      uint32_t rows) {
    static struct maps maps;
    char text[80];
    fill_maps(c, g, s, rows, &maps);
    snprintf(text, sizeof text, "linear %s %u x %u, %u of %u maps, %u rows", names[s->format],
             s->out, s->in, maps.live, s->maps, rows);
    TIME_CALLS(c, text, maps.bytes, 2.0 * s->out * s->in * maps.live * rows,
               lf_cuda_kernels.linear(&c->on, &maps.args[i % VARIANTS]));
}

// What rounds do between two maps: rows are written and quantized.
static void time_chain(struct check *c, const struct regions *g, const struct shape *first,
                       const struct shape *second, uint32_t rows) {
    static struct maps ahead, behind;
    char text[80];
    uint16_t *out = (uint16_t *)(g->out + (64 << 10));
    struct lf_rms_norm_args norm = {.rows = rows, .dim = second->in, .x = out,
                                    .x_stride = second->in, .w = g->x, .eps = 1e-6f, .y = g->x,
                                    .y_stride = second->in};
    struct lf_act_quant_args quant = {.rows = rows, .dim = second->in, .x = out,
                                      .x_stride = second->in, .y = g->x, .y_stride = second->in};
    fill_maps(c, g, first, rows, &ahead);
    fill_maps(c, g, second, rows, &behind);
    snprintf(text, sizeof text, "%s %u x %u, norm, quant, %u x %u, quant, %u rows",
             names[first->format], first->out, first->in, second->out, second->in, rows);
    TIME_CALLS(c, text, ahead.bytes + behind.bytes, 0, {
        lf_cuda_kernels.linear(&c->on, &ahead.args[i % VARIANTS]);
        lf_cuda_kernels.rms_norm(&c->on, &norm);
        lf_cuda_kernels.act_quant(&c->on, &quant);
        lf_cuda_kernels.linear(&c->on, &behind.args[(i + 1) % VARIANTS]);
        lf_cuda_kernels.act_quant(&c->on, &quant);
    });
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
                                         {LF_WEIGHT_BF16, 384, 5120, 1, 0},
                                         {LF_WEIGHT_FP8, 1792, 5120, 1, 0},
                                         {LF_WEIGHT_F32, 384, 5120, 1, 0}};
    static const struct shape all_experts = {LF_WEIGHT_MXFP4, 2304, 5120, 768, 768};
    static const uint32_t expert_rows[] = {20, 43, 60, 170};
    static const uint32_t rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
    time_limits(c, g);
    // A device that has multiplied a lot is slower for a while: small ones come first.
    for (int i = 0; i < 4; i++)
        time_maps(c, g, &small[i], 1);
    for (int i = 0; i < 4; i += 3) {
        time_maps(c, g, &small[1], rows[i]);
        time_chain(c, g, &small[1], &small[1], rows[i]);
        time_chain(c, g, &small[2], &small[2], rows[i]);
        time_chain(c, g, &large[1], &large[2], rows[i]);
        time_chain(c, g, &small[0], &large[0], rows[i]);
        time_chain(c, g, &experts[1], &experts[2], rows[i]);
    }
    for (int i = 0; i < 10; i++) {
        for (int s = 0; s < (rows[i] > 512 ? 3 : 4); s++)
            time_maps(c, g, &large[s], rows[i]);
        for (int s = 0; s < 3 && rows[i] <= 64; s++)
            time_maps(c, g, &experts[s], rows[i]);
    }
    for (int i = 0; i < 4; i++)
        time_maps(c, g, &all_experts, expert_rows[i]);
    time_limits(c, g);
}
