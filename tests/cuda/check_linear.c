// Problems of linear: tensor-core sums against integers (linear_steps.h), others against the CPU.
#include "cuda/check.h"
#include "device/pool.h"
#include "kernel/linear/linear_groups.h"
#include "kernel/linear/linear_regular.h"
#include "kernel/linear/linear_steps.h"
#include "kernel/linear/linear_turn.h"

#define MIRROR(c, args, field) ((args).field = check_mirror(c, (args).field))

enum { JOBS_MAX = 8, IN_MAX = 20480, OUTS_A_TASK = 16, GROUP_FIRST = 3 };

// The job whose outputs the tasks of a pool share.
struct expected {
    const struct lf_linear_job *job;
};

static void expected_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct lf_linear_job *job = ((struct expected *)ctx)->job;
    const struct lf_matrix *m = job->w;
    uint16_t w[IN_MAX];
    (void)worker;
    for (uint32_t o = i * OUTS_A_TASK; o < m->out && o < (i + 1) * OUTS_A_TASK; o++) {
        for (uint32_t k = 0; k < m->in; k++)
            w[k] = lf_linear_step_weight(m, o, k);
        for (uint32_t r = 0; r < job->rows; r++) {
            const uint16_t *x = job->x + (job->x_index ? job->x_index[r] : r) * job->x_stride;
            float sum = lf_linear_steps(m, w, x);
            size_t at = r * job->y_stride + o;
            if (job->y_f32)
                ((float *)job->y)[at] = sum != sum ? lf_f32_from_bits(0x7FC00000u) : sum;
            else
                ((uint16_t *)job->y)[at] = sum != sum ? 0x7FC0 : lf_bf16_from_f32(sum);
        }
    }
}

static void expect(struct check *c, const struct lf_linear_args *a) {
    for (uint32_t j = 0; j < a->n_jobs; j++) {
        struct lf_linear_job job = a->job[j].group ? lf_linear_group(&a->job[j]) : a->job[j];
        bool is_plain = job.w->format == LF_WEIGHT_F16 || job.w->format == LF_WEIGHT_F32;
        LF_ASSERT(job.w->in <= IN_MAX);
        if (is_plain)
            c->cpu.linear(&c->on, &(struct lf_linear_args){.n_jobs = 1, .job = &job});
        else
            lf_pool_run(c->on.pool, (job.w->out + OUTS_A_TASK - 1) / OUTS_A_TASK, expected_task,
                        &(struct expected){&job});
    }
}

// A weight of any format. STYLE_ANY: every code and scale; STYLE_WIDE: some warps' scales are odd.
static struct lf_matrix new_weight(struct check *c, enum lf_weight_format format, uint32_t out,
                                   uint32_t in, enum style style) {
    bool wild = style == STYLE_ANY;
    struct lf_matrix m = {.format = format, .out = out, .in = in};
    size_t n = (size_t)out * in;
    if (format == LF_WEIGHT_BF16 || format == LF_WEIGHT_F16) {
        m.data = (uint8_t *)check_new_bf16(c, "weight", n, wild ? STYLE_ANY : STYLE_NORMAL);
    } else if (format == LF_WEIGHT_F32) {
        m.data = (uint8_t *)check_new_f32(c, "weight", n, wild ? STYLE_ANY : STYLE_NORMAL);
    } else {
        size_t bytes = format == LF_WEIGHT_FP8 ? n : n / 2;
        size_t lines = format == LF_WEIGHT_FP8 ? (out + 31) / 32 : out, scales = lines * (in / 32);
        uint8_t *codes = check_new(c, "weight", bytes), *scale = check_new(c, "scale", scales);
        check_bytes(c, codes, bytes);
        for (size_t i = 0; !wild && format == LF_WEIGHT_FP8 && i < bytes; i++)
            codes[i] = (codes[i] & 0x7F) == 0x7F ? 0x55 : codes[i];
        check_range(c, scale, scales, wild ? 0 : 115, wild ? 255 : 122);
        for (size_t i = 0; style == STYLE_WIDE && i < lines; i++)
            if ((format == LF_WEIGHT_FP8 ? i : i / 16) % 2)
                check_range(c, scale + i * (in / 32), in / 32, 136, 140);
        m.data = codes, m.scale = scale;
    }
    return m;
}

struct map {
    enum lf_weight_format format;
    uint32_t out, in, rows;
};

// A map's job: the second of a launch has its rows by an index, the third from a group.
static struct lf_linear_job new_job(struct check *c, const struct lf_matrix *w, uint32_t rows,
                                    uint32_t j, enum style style) {
    uint32_t first = j == 2 ? GROUP_FIRST : 0, all = first + rows + 1;
    size_t stride = w->in + (rows % 3 ? 8 : 3);
    struct lf_linear_job job = {.w = w, .rows = rows, .x_stride = stride, .y_stride = w->out + 1,
                                .y_f32 = (rows + j) % 2 == 0};
    job.x = check_new_bf16(c, "x", all * stride, style);
    if (j == 1 || rows % 2) {
        uint32_t *index = check_new(c, "x_index", all * sizeof *index);
        for (uint32_t r = 0; r < all; r++)
            index[r] = check_random(c, all);
        job.x_index = index;
    }
    if (j == 2) {
        uint32_t *group = check_new(c, "group", 2 * sizeof *group);
        group[0] = first, group[1] = first + rows;
        job.group = group;
        job.rows = rows + j; // at most
    }
    job.y = check_new(c, "y", (size_t)all * (w->out + 1) * (job.y_f32 ? 4 : 2));
    return job;
}

// Codes as a device has them; on_device: the mirror's, by its own kernel.
static void turn_codes(struct check *c, const struct lf_matrix *m, bool on_device) {
    size_t bytes = m->out * lf_matrix_row_bytes(m);
    void *codes = (void *)(uintptr_t)m->data;
    if (m->format != LF_WEIGHT_MXFP4)
        return;
    if (on_device)
        lf_linear_turn_cuda(&c->on, check_mirror(c, codes), bytes);
    else
        lf_mxfp4_turn(codes, bytes, false);
}

static void linear_problem(struct check *c, const char *name, const struct map *map, uint32_t n,
                           enum style style) {
    struct lf_matrix weight[JOBS_MAX], weight_at[JOBS_MAX];
    struct lf_linear_job job[JOBS_MAX], job_at[JOBS_MAX];
    struct lf_error err = LF_ERROR_INIT;
    check_start(c, "%s: format %d, %u x %u, %u rows, style %d", name, map[0].format, map[0].out,
                map[0].in, map[0].rows, style);
    for (uint32_t j = 0; j < n; j++) {
        weight[j] = weight_at[j] =
            new_weight(c, map[j].format, map[j].out, map[j].in, style);
        MIRROR(c, weight_at[j], data), MIRROR(c, weight_at[j], scale);
        job[j] = job_at[j] = new_job(c, &weight[j], map[j].rows, j, style);
        job_at[j].w = &weight_at[j];
        MIRROR(c, job_at[j], x), MIRROR(c, job_at[j], x_index), MIRROR(c, job_at[j], y);
        MIRROR(c, job_at[j], group);
    }
    struct lf_linear_args a = {.n_jobs = n, .job = job}, d = {.n_jobs = n, .job = job_at};
    uint32_t *is_odd = check_new(c, "is_odd", n * sizeof *is_odd);
    memset(is_odd, 0, n * sizeof *is_odd);
    check_keep(c);
    expect(c, &a);
    for (uint32_t j = 0; j < n; j++) {
        is_odd[j] = !lf_linear_is_regular(&weight[j]);
        turn_codes(c, &weight[j], false);
    }
    // Once as maps that may be odd, once as what they are, and as groups of known rows in all.
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t j = 0; j < n; j++)
            weight_at[j].is_regular = turn && lf_linear_is_regular(&weight[j]);
        check_send(c);
        for (uint32_t j = 0; j < n; j++) {
            turn_codes(c, &weight[j], true);
            if (lf_matrix_quantizes_input(&weight[j]))
                lf_linear_look_cuda(&c->on, &weight_at[j], check_mirror(c, is_odd + j));
        }
        // Maps may read their weights before launches ahead have ended.
        LF_ASSERT(lf_cuda_wait(c->on.cuda, &err) == LF_OK);
        d.groups_are_old = turn;
        d.group_rows = turn && n > 2 ? GROUP_FIRST + map[2].rows : 0;
        lf_cuda_kernels.linear(&c->on, &d);
        check_compare(c);
    }
}

static const enum lf_weight_format formats[] = {LF_WEIGHT_BF16, LF_WEIGHT_FP8, LF_WEIGHT_MXFP4,
                                                LF_WEIGHT_F16, LF_WEIGHT_F32};

static void linear_small(struct check *c, const struct sizes *s) {
    static const uint32_t rows[] = {1, 2, 7, 8, 9, 33};
    for (uint32_t i = 0; i < 6; i++)
        for (int f = 0; f < LF_WEIGHT_FORMATS; f++) {
            // Two parts of K and a third begun; outputs and rows that fill no tile.
            struct map map[] = {{formats[f], 50, i == 1 ? 1376 : 96, rows[i]},
                                {formats[(f + 1) % 5], 16, 256, rows[i] / 2},
                                {formats[f], 19, 32, rows[5 - i]}};
            linear_problem(c, s->name, map, 3, i % STYLES);
        }
    for (int f = 0; f < LF_WEIGHT_FORMATS; f++) {
        // Many rows: several tiles of them and a part of K begun; several tiles of outputs.
        struct map many[] = {
            {formats[f], 90, 672, 200}, {formats[f], 135, 96, 67}, {formats[f], 20, 32, 130}};
        linear_problem(c, s->name, many, 3, f % STYLES);
        // Rows that other tiles suit, of aligned strides; more stages than wait at once, and fewer.
        struct map between[] = {{formats[f], 130, 1312, 30}, {formats[f], 24, 1440, 61},
                                {formats[f], 40, 160, 301}, {formats[f], 300, 1120, 40}};
        linear_problem(c, s->name, between, 4, (f + 1) % STYLES);
    }
    // Warps that decode one way beside warps that decode the other, in tiles of every size.
    static const uint32_t many_rows[] = {20, 40, 60, 130};
    for (uint32_t i = 0; i < 4; i++) {
        struct map mixed[] = {{LF_WEIGHT_FP8, 100, 672, many_rows[i]},
                              {LF_WEIGHT_MXFP4, 100, 672, many_rows[i]}};
        linear_problem(c, s->name, &mixed[0], 1, STYLE_WIDE);
        linear_problem(c, s->name, &mixed[1], 1, STYLE_WIDE);
    }
    // Where the host plays: more tiles than those that blocks have from the start.
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_MXFP4, 4000, 96, 3}, 1, STYLE_NORMAL);
    // Of one row, and of two.
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_MXFP4, 520, 5120, 1}, 1, STYLE_NORMAL);
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_MXFP4, 520, 5120, 2}, 1, STYLE_WIDE);
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_FP8, 2400, 96, 9}, 1, STYLE_WIDE);
    // Rows too long for a warp a part, or of which no two tiles find room.
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_MXFP4, 20, 11520, 1}, 1, STYLE_NORMAL);
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_MXFP4, 40, 9600, 5}, 1, STYLE_WIDE);
    // There: tiles that neighbouring blocks share, one that all three do; a job of shorter rows.
    static const uint32_t few_rows[] = {1, 3, 8, 9, 16};
    for (uint32_t i = 0; i < 5; i++) {
        struct map shared[] = {{LF_WEIGHT_FP8, i % 2 ? 41 : 57, 5792, few_rows[i]},
                               {LF_WEIGHT_FP8, 16, 1312, few_rows[i]}};
        linear_problem(c, s->name, shared, 1 + i % 2, i % STYLES);
        linear_problem(c, s->name, &(struct map){LF_WEIGHT_BF16, 13, 11520, few_rows[i]}, 1,
                       i % STYLES);
    }
    // The same on a device.
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_FP8, 2230, 5792, 2}, 1, STYLE_NORMAL);
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_BF16, 5, 37, 3}, 1, STYLE_NORMAL);
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_BF16, 5, 651, 3}, 1, STYLE_WIDE);
}

void check_linear(struct check *c, const struct sizes *s) {
    if (s->hidden < 1024) {
        linear_small(c, s);
        return;
    }
    // More tiles than those that blocks have from the start.
    linear_problem(c, s->name, &(struct map){LF_WEIGHT_MXFP4, 20480, 5120, 2}, 1, STYLE_WIDE);
    // More rows than a device has memory to put in order at once, and two jobs of them.
    struct map long_many[] = {{LF_WEIGHT_FP8, 4, IN_MAX, 1700}, {LF_WEIGHT_FP8, 2, IN_MAX, 130}};
    linear_problem(c, s->name, long_many, 2, STYLE_NORMAL);
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (enum style style = STYLE_NORMAL; style < STYLES; style++) {
            uint32_t rows = s->rows[i] < 70 ? s->rows[i] : 70;
            struct map experts[] = {{LF_WEIGHT_MXFP4, s->expert_dim, s->hidden, rows},
                                    {LF_WEIGHT_MXFP4, 256, s->expert_dim, rows},
                                    {LF_WEIGHT_FP8, 256, s->hidden, 2}};
            linear_problem(c, s->name, experts, 3, style);
            struct map wide = {LF_WEIGHT_FP8, rows < 9 ? 32768 : 4096, 1280, rows};
            linear_problem(c, s->name, &wide, 1, style);
            struct map long_rows = {LF_WEIGHT_FP8, rows < 9 ? 5120 : 512, 8192, rows};
            linear_problem(c, s->name, &long_rows, 1, style);
            struct map plain[] = {{LF_WEIGHT_BF16, 1024, s->hidden, rows},
                                  {LF_WEIGHT_F32, s->experts, s->hidden, rows}};
            linear_problem(c, s->name, plain, 2, style);
        }
}
