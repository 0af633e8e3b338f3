#include <stdlib.h>
#include "bench/kernel_times.h"
#include "device/memory.h"
#include "format/matrix.h"

struct cost {
    double operations, bytes;
};

// Rows of width bf16 elements, that many of them read or written.
static struct cost halves(uint32_t rows, double width) {
    return (struct cost){0, 2.0 * rows * width};
}

static double matrix_bytes(const struct lf_matrix *m) {
    double bytes = (double)m->out * (double)lf_matrix_row_bytes(m);
    if (m->format == LF_WEIGHT_FP8)
        bytes += (double)((m->out + 31) / 32) * (m->in / 32);
    if (m->format == LF_WEIGHT_MXFP4)
        bytes += (double)m->out * (m->in / 32);
    return bytes;
}

enum { LOOKS = 4 }; // at most, of one kernel

// Tables that kernels read, where the host can: at itself, or a copy of it.
struct reader {
    struct lf_mem *memory; // NULL: the host's
    char *copy[LOOKS];
    int n;
};

static const void *look(struct reader *reader, const void *at, size_t bytes) {
    if (!reader->memory)
        return at;
    char *copy = malloc(bytes);
    LF_ASSERT(copy && reader->n < LOOKS);
    reader->copy[reader->n++] = copy;
    return lf_mem_read(reader->memory, at, bytes, copy);
}

// Rows of a job: where kernels chose them, [0] and [1] of its group, which all lie in one table.
struct groups {
    const uint32_t *first, *seen;
};

static struct groups look_at_groups(struct reader *reader, const struct lf_linear_args *a) {
    const uint32_t *least = NULL, *most = NULL;
    for (uint32_t j = 0; j < a->n_jobs; j++) {
        const uint32_t *group = a->job[j].group;
        least = group && (!least || group < least) ? group : least;
        most = group && (!most || group > most) ? group : most;
    }
    if (!least)
        return (struct groups){0};
    return (struct groups){least, look(reader, least, (size_t)(most + 2 - least) * sizeof *least)};
}

static struct cost linear(struct reader *reader, const struct lf_linear_args *a) {
    struct groups groups = look_at_groups(reader, a);
    struct cost cost = {0};
    for (uint32_t j = 0; j < a->n_jobs; j++) {
        const struct lf_linear_job *job = &a->job[j];
        const struct lf_matrix *w = job->w;
        const uint32_t *group = job->group ? groups.seen + (job->group - groups.first) : NULL;
        double rows = group ? group[1] - group[0] : job->rows;
        if (rows == 0)
            continue;
        cost.operations += 2.0 * rows * w->out * w->in;
        cost.bytes += matrix_bytes(w) + rows * (2.0 * w->in + (job->y_f32 ? 4.0 : 2.0) * w->out);
    }
    return cost;
}

// Every key that a row attends to; window keys that rows share count once a row.
static struct cost attention(struct reader *reader, const struct lf_attention_args *a) {
    const struct lf_row *row = look(reader, a->row, a->rows * sizeof *row);
    const uint32_t *n_selected = a->entries ? look(reader, a->n_selected,
                                                   a->rows * sizeof *n_selected) : NULL;
    double window = 0, selected = 0;
    for (uint32_t r = 0; r < a->rows; r++) {
        double keys = (double)row[r].position + 1;
        window += keys < a->window ? keys : a->window;
        selected += n_selected ? n_selected[r] : 0;
    }
    return (struct cost){
        4.0 * (window + selected) * a->heads * a->head_dim,
        window * lf_qa8_row_bytes(a->head_dim) + selected * lf_qf4s_row_bytes(a->head_dim) +
            4.0 * a->rows * a->heads * a->head_dim};
}

static struct lf_candidates look_at_candidates(struct reader *reader, uint32_t rows,
                                               const struct lf_candidates *there) {
    struct lf_candidates here = *there;
    size_t blocks = (size_t)rows * there->topk_blocks;
    if (there->blocks) {
        here.blocks = look(reader, there->blocks, blocks * sizeof *here.blocks);
        here.n_blocks = look(reader, there->n_blocks, rows * sizeof *here.n_blocks);
    }
    return here;
}

// Keys that rows of a lane share count once: such rows stand together.
static struct cost index_score(struct reader *reader, const struct lf_index_score_args *a) {
    const struct lf_row *row = look(reader, a->row, a->rows * sizeof *row);
    const uint32_t *visible = look(reader, a->visible, a->rows * sizeof *visible);
    struct lf_candidates candidates = look_at_candidates(reader, a->rows, &a->candidates);
    struct cost cost = {0};
    double most = 0;
    for (uint32_t r = 0; r < a->rows; r++) {
        struct lf_items items = lf_items_of(&candidates, r, visible[r]);
        cost.operations += 2.0 * items.n * a->heads * a->dim;
        cost.bytes += 4.0 * items.n;
        most = items.n > most ? items.n : most;
        if (items.blocks || r + 1 == a->rows || row[r + 1].lane != row[r].lane) {
            cost.bytes += most * lf_qf4e_row_bytes(a->dim);
            most = 0;
        }
    }
    return cost;
}

static struct cost index_select(struct reader *reader, const struct lf_index_select_args *a) {
    const uint32_t *visible = look(reader, a->visible, a->rows * sizeof *visible);
    const uint32_t *n_selected = look(reader, a->n_selected, a->rows * sizeof *n_selected);
    bool restricted = a->mode == LF_CANDIDATES_RESTRICT;
    const uint32_t *n_blocks = restricted ? look(reader, a->n_blocks, a->rows * sizeof *n_blocks)
                                          : NULL;
    struct cost cost = {0};
    for (uint32_t r = 0; r < a->rows; r++) {
        double read = restricted ? (double)n_blocks[r] * a->block_size : visible[r];
        if (visible[r] > a->topk)
            cost.bytes += 4.0 * read;
        cost.bytes += 4.0 * n_selected[r];
    }
    return cost;
}

static struct cost hc_mix(const struct lf_hc_mix_args *a) {
    double wide = (double)a->streams * a->dim, mixes = a->streams * (2.0 + a->streams);
    return (struct cost){2.0 * a->rows * wide * (mixes + 1), 2.0 * a->rows * wide +
                                                                 4.0 * mixes * wide};
}

// Streams in and out, what they take, and what follows.
static struct cost hc_expand(const struct lf_hc_expand_args *a) {
    double taken = a->pair ? a->top + (a->shared ? 1.0 : 0.0) : 1.0;
    return halves(a->rows, (2.0 * a->streams + taken + (a->pre ? 2.0 : 0.0)) * a->dim);
}

static struct cost engram_gather(const struct lf_engram_gather_args *a) {
    double row = a->dim + a->dim / 32.0 + 2.0 * a->dim;
    return (struct cost){0, a->rows * (double)a->columns * row};
}

static struct cost row_gather(const struct lf_row_gather_args *a) {
    struct cost cost = {0};
    for (uint32_t j = 0; j < a->n_jobs; j++)
        cost.bytes += 2.0 * a->job[j].rows * (double)a->job[j].row_bytes;
    return cost;
}

#define COST(name, cost_)                                                                          \
    case LF_TIMED_##name: {                                                                        \
        const struct lf_##name##_args *a = args;                                                   \
        cost = cost_;                                                                              \
        break;                                                                                     \
    }

void lf_kernel_cost_add(struct lf_kernel_time *time, uint32_t kernel, const void *args,
                        struct lf_mem *memory) {
    struct reader reader = {.memory = memory};
    struct cost cost = {0};
    switch (kernel) {
        COST(linear, linear(&reader, a))
        COST(attention, attention(&reader, a))
        COST(index_score, index_score(&reader, a))
        COST(index_select, index_select(&reader, a))
        COST(hc_mix, hc_mix(a))
        COST(engram_gather, engram_gather(a))
        COST(embed, halves(a->rows, (a->streams + 1.0) * a->table->in))
        COST(rms_norm, halves(a->rows, (a->quantized ? 3.0 : 2.0) * a->dim))
        COST(act_quant, halves(a->rows, 2.0 * a->dim))
        COST(cache_pack, halves(a->rows, 2.5 * a->dim))
        COST(rope, halves(a->rows, 2.0 * a->heads * a->rope_dim))
        COST(hc_collapse, halves(a->rows, (a->streams + (a->quantized ? 2.0 : 1.0)) * a->dim))
        COST(hc_expand, hc_expand(a))
        COST(stream_mean, halves(a->rows, (a->streams + 1.0) * a->dim))
        COST(compress_pool, halves(a->entries, 9.0 * a->dim))
        COST(swiglu, halves(a->rows, (a->quantized ? 4.0 : 3.0) * a->dim))
        COST(router, halves(a->rows, 2.0 * a->experts))
        COST(engram_gate, halves(a->rows, (3.0 * a->streams + 1.0) * a->dim))
        COST(row_gather, row_gather(a))
    default:
        break;
    }
    while (reader.n)
        free(reader.copy[--reader.n]);
    time->operations += cost.operations;
    time->bytes += cost.bytes;
}
