#include "contract/launch.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

enum { DEVICE_WEIGHT_ALIGN = 16 };

size_t lf_type_bytes(enum lf_type type) {
    static const size_t bytes[] = {1, 2, 4, 4, 8};
    return bytes[type];
}

size_t lf_operand_align(const struct lf_operand *o) {
    if (o->role == LF_POINTER)
        return sizeof(void *);
    return o->align ? o->align : o->type == LF_U8 ? 8 : lf_type_bytes(o->type);
}

// A device reads whole elements, and weights 16 bytes at a time.
static size_t device_align(const struct lf_operand *o) {
    size_t align = lf_operand_align(o), least = lf_type_bytes(o->type);
    least = o->role == LF_WEIGHT ? DEVICE_WEIGHT_ALIGN : least;
    return align > least ? align : least;
}

struct lf_check_place lf_operand_place(const struct lf_trial *trial, const struct lf_operand *o,
                                       struct lf_layout layout) {
    size_t align = trial->device ? device_align(o) : lf_operand_align(o);
    return (struct lf_check_place){.space = trial->space, .band = layout.tail / align * align,
                                   .align = align, .front = layout.front, .guard = layout.guard};
}

size_t lf_operand_pitch(const struct lf_operand *o) {
    return o->pitch ? o->pitch : o->n;
}

bool lf_operand_is_result(const struct lf_operand *o) {
    return o->n && (o->role == LF_OUT || o->role == LF_INOUT);
}

uint64_t lf_hash(const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint64_t h = 0x9E3779B97F4A7C15u ^ n, word = 0;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    for (; n; n--)
        h = (h ^ *p++) * 0xD6E8FEB86659FD93u;
    return h;
}

// Each row of each operand has a stream of its own, so rows do not depend on how many there are.
static struct lf_check_rng stream_of(const struct lf_problem *p, uint32_t operand, uint32_t row) {
    const struct lf_record *record = p->trial->record;
    struct lf_check_rng rng = {p->trial->seed ^ lf_hash(record->name, strlen(record->name))};
    rng.state ^= lf_hash(p->shape->name, strlen(p->shape->name)) * 3;
    rng.state ^= (uint64_t)p->trial->style << 56 ^ (uint64_t)operand << 48 ^ row;
    rng.state = lf_check_next(&rng);
    return rng;
}

static void fill_plain(const struct lf_operand *o, struct lf_fill *fill, void *data) {
    float scale = o->scale != 0.0f ? o->scale : 1.0f;
    uint8_t *bytes = data;
    switch (o->type) {
    case LF_BF16:
        lf_check_fill_bf16(fill->rng, fill->style, scale, data, o->n);
        return;
    case LF_F32:
        lf_check_fill_f32(fill->rng, fill->style, scale, data, o->n);
        return;
    case LF_U8:
        for (size_t i = 0; i < o->n; i++)
            bytes[i] = (uint8_t)lf_check_next(fill->rng);
        return;
    case LF_U32:
    case LF_U64:
        LF_ASSERT(!"integers need a filler");
    }
}

static void fill_one(struct lf_problem *p, uint32_t operand, uint32_t row, void *data) {
    const struct lf_operand *o = &p->operand[operand];
    struct lf_check_rng rng = stream_of(p, operand, row);
    struct lf_fill fill = {.rng = &rng, .style = p->trial->style, .args = p->shape->args,
                           .row = row};
    if (o->fill)
        o->fill(&fill, data, o->n);
    else
        fill_plain(o, &fill, data);
}

static void fill_rows(struct lf_problem *p, uint32_t operand) {
    size_t row_bytes = p->operand[operand].n * lf_type_bytes(p->operand[operand].type);
    p->row[operand] = aligned_alloc(64, (p->rows * row_bytes / 64 + 1) * 64);
    LF_ASSERT(p->row[operand]);
    // A row is filled where its type's alignment holds, whatever the row's length.
    void *one = aligned_alloc(64, (row_bytes / 64 + 1) * 64);
    LF_ASSERT(one);
    for (uint32_t row = 0; row < p->rows; row++) {
        fill_one(p, operand, row, one);
        memcpy(p->row[operand] + row * row_bytes, one, row_bytes);
    }
    free(one);
}

static void fill_weight(struct lf_problem *p, uint32_t operand) {
    const struct lf_operand *o = &p->operand[operand];
    struct lf_check_buffer *weight = &p->weight[operand];
    *weight = lf_check_open_at(lf_operand_place(p->trial, o, LF_LAYOUT_PLAIN),
                               o->n * lf_type_bytes(o->type));
    fill_one(p, operand, 0, weight->data);
    p->weight_hash[operand] = lf_hash(weight->data, weight->bytes);
}

struct lf_problem *lf_problem_open(struct lf_trial *trial, const struct lf_shape *shape,
                                   uint32_t rows, enum lf_check_style style) {
    struct lf_problem *p = calloc(1, sizeof *p);
    LF_ASSERT(p && trial->record->operands <= LF_OPERANDS_MAX);
    trial->style = style;
    *p = (struct lf_problem){.trial = trial, .shape = shape, .rows = rows};
    trial->record->describe(shape->args, p->operand);
    for (uint32_t i = 0; i < trial->record->operands; i++) {
        enum lf_role role = p->operand[i].role;
        if (!p->operand[i].n)
            continue;
        if (role == LF_WEIGHT)
            fill_weight(p, i);
        else if (role != LF_OUT && role != LF_POINTER)
            fill_rows(p, i);
    }
    return p;
}

void lf_problem_place(struct lf_problem *p, struct lf_layout layout) {
    for (uint32_t i = 0; i < p->trial->record->operands; i++) {
        struct lf_check_buffer old = p->weight[i];
        const struct lf_operand *o = &p->operand[i];
        if (!old.map)
            continue;
        p->weight[i] = lf_check_open_at(lf_operand_place(p->trial, o, layout), old.bytes);
        memcpy(p->weight[i].data, old.data, old.bytes);
        lf_check_close(&old);
    }
}

void lf_problem_close(struct lf_problem *p) {
    for (uint32_t i = 0; i < LF_OPERANDS_MAX; i++) {
        free(p->row[i]);
        lf_check_close(&p->weight[i]);
    }
    free(p);
}
