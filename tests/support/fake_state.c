#include "support/fake_state.h"

#include <string.h>

static const uint64_t start = 0xcbf29ce484222325u;

uint64_t fake_step(uint64_t hash, uint32_t token) {
    return (hash ^ ((uint64_t)token + 1)) * 0x100000001b3u;
}

uint32_t fake_token(uint64_t hash, uint64_t seed, uint32_t vocab) {
    uint64_t h = (hash ^ seed) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    return (uint32_t)(h % vocab);
}

uint64_t fake_hash(const struct fake_slot *s, uint64_t length) {
    if (length == 0)
        return start;
    LF_ASSERT(s->cell[length - 1].fresh);
    return s->cell[length - 1].hash;
}

void fake_write(struct fake_slot *s, uint64_t position, uint32_t token) {
    uint64_t hash = fake_step(fake_hash(s, position), token);
    s->cell[position] = (struct fake_cell){.token = token, .hash = hash, .fresh = true};
}

void fake_keep(struct fake_slot *s, uint64_t length) {
    uint64_t written = s->length + s->pending_rows;
    for (uint64_t i = length; i < written; i++)
        s->cell[i].fresh = false;
    s->length = length;
    s->pending_rows = 0;
}

void fake_clear(struct fake_slot *s, uint64_t context) {
    struct fake_cell *cell = s->cell;
    memset(cell, 0, context * sizeof *cell);
    *s = (struct fake_slot){.cell = cell, .complete = true};
}

void fake_check_rows(const struct fake_slot *s, const struct lf_target_info *info, uint64_t pos0,
                     const uint32_t *tok, uint32_t rows) {
    LF_ASSERT(rows && pos0 == s->length && !s->pending_rows);
    LF_ASSERT(pos0 + rows <= info->context && pos0 + rows <= s->grown);
    for (uint32_t i = 0; i < rows; i++)
        LF_ASSERT(tok[i] < info->vocab);
}

void fake_check_plan(struct fake_slot *s, const struct lf_chunk *c) {
    LF_ASSERT(c->n_plan && c->n_plan <= sizeof s->plan / sizeof *s->plan);
    LF_ASSERT(c->plan[c->n_plan - 1].at >= c->pos0 + c->rows);
    for (uint32_t i = 0; i < c->n_plan; i++) {
        LF_ASSERT(!i || c->plan[i].at > c->plan[i - 1].at);
        LF_ASSERT(!s->in_pass || (s->n_plan == c->n_plan && s->plan[i].at == c->plan[i].at &&
                                  s->plan[i].logits == c->plan[i].logits));
    }
    memcpy(s->plan, c->plan, sizeof *c->plan * c->n_plan);
    s->n_plan = c->n_plan;
}
