#include "format/checkpoint_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TILE = 32, NAME_BYTES = LF_TENSOR_NAME_MAX + 16 };

// How many tensors of a group are there, and the first that is not.
struct presence {
    uint64_t present, total;
    const char *first_missing;
};

static const struct lf_tensor *find_part(const struct lf_checkpoint *c, const struct lf_wanted *w,
                                         const char *part) {
    char full[NAME_BYTES];
    if (!lf_wanted_has_weight(w))
        return lf_checkpoint_find(c, w->name);
    snprintf(full, sizeof full, "%s.%s", w->name, part);
    return lf_checkpoint_find(c, full);
}

static bool present(const struct lf_checkpoint *c, const struct lf_wanted *w) {
    return find_part(c, w, "weight") || find_part(c, w, "scale");
}

static struct presence count_group(const struct lf_checkpoint *c, enum lf_want_group group) {
    struct presence p = {0};
    for (size_t i = 0; i < c->inventory.n; i++) {
        const struct lf_wanted *w = &c->inventory.wanted[i];
        if (w->group != group)
            continue;
        p.total++;
        if (present(c, w))
            p.present++;
        else if (!p.first_missing)
            p.first_missing = w->name;
    }
    return p;
}

static enum lf_status all_or_none(const struct lf_checkpoint *c, enum lf_want_group group,
                                  const char *what, bool *has, struct lf_error *err) {
    struct presence p = count_group(c, group);
    if (p.present != 0 && p.present != p.total)
        return lf_fail(err, LF_E_MISSING,
                       "%s: %s must be there as a whole or not at all, but %" PRIu64 " of %" PRIu64
                       " tensors are missing, %s first",
                       c->folder, what, p.total - p.present, p.total, p.first_missing);
    *has = p.total > 0 && p.present == p.total;
    return LF_OK;
}

// 1.1 rule 6: what the configuration says about a format that was found.
static enum lf_status check_quantization(const struct lf_checkpoint *c, const char *name,
                                         enum lf_weight_format format, struct lf_error *err) {
    const struct lf_quantization *q = &c->topology.quantization;
    const char *found = format == LF_WEIGHT_FP8 ? "FP8" : "MXFP4";
    const char *field = NULL, *expected = "";
    if (!c->topology.has_quantization)
        return lf_fail(err, LF_E_MISSING,
                       "config.json: quantization_config is missing, but %s is %s", name, found);
    if (q->exl3)
        return LF_OK;
    if (format == LF_WEIGHT_MXFP4 && !q->expert_fp4) {
        field = "expert_dtype";
        expected = "fp4";
    } else if (format == LF_WEIGHT_FP8 &&
               !(q->n_block == 2 && q->block[0] == TILE && q->block[1] == TILE)) {
        field = "weight_block_size";
        expected = "[32, 32]";
    } else if (format == LF_WEIGHT_FP8 && !q->scale_ue8m0) {
        field = "scale_fmt";
        expected = "ue8m0";
    }
    if (field)
        return lf_fail(err, LF_E_VALUE,
                       "config.json: quantization_config.%s must be %s, as %s is %s", field,
                       expected, name, found);
    return LF_OK;
}

static enum lf_status check_linear(struct lf_checkpoint *c, const struct lf_wanted *w,
                                   struct lf_error *err) {
    struct lf_matrix m;
    LF_TRY(lf_checkpoint_matrix(c, &m, w->name, (uint32_t)w->shape[0], (uint32_t)w->shape[1],
                                err));
    c->summary.linears[m.format]++;
    if (!lf_matrix_quantizes_input(&m))
        return LF_OK;
    if (w->kind == LF_WANT_PLAIN)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "tensor %s.weight: expected BF16, F16 or F32, found %s", w->name,
                       find_part(c, w, "weight")->dtype_name);
    LF_TRY(check_quantization(c, w->name, m.format, err));
    if (m.format == LF_WEIGHT_FP8 && w->slice_rows % TILE)
        return lf_fail(err, LF_E_VALUE,
                       "config.json: text_config.o_lora_rank %u is not a multiple of %d, which the "
                       "FP8 tensor %s.weight needs",
                       w->slice_rows, TILE, w->name);
    return LF_OK;
}

static enum lf_status check_wanted(struct lf_checkpoint *c, const struct lf_wanted *w,
                                   struct lf_error *err) {
    const struct lf_tensor *t;
    struct lf_engram_table table;
    switch (w->kind) {
    case LF_WANT_F32:
        return lf_tensor_fetch(c, &t, w->name, LF_DTYPE_SET_PLAIN, "F32, BF16 or F16", w->rank,
                               w->shape, err);
    case LF_WANT_BF16:
        return lf_tensor_fetch(c, &t, w->name, LF_DTYPE_SET_PLAIN, "BF16, F16 or F32", w->rank,
                               w->shape, err);
    case LF_WANT_PLAIN:
    case LF_WANT_LINEAR:
        return check_linear(c, w, err);
    case LF_WANT_TABLE:
        return lf_table_fetch(c, &table, w->name, w->shape[0], (uint32_t)w->shape[1], err);
    case LF_WANT_PRESENT:
        break;
    }
    return LF_OK;
}

static bool is_wanted(const struct lf_checkpoint *c, const struct lf_wanted *w) {
    switch (w->group) {
    case LF_GROUP_TEXT:
        return !c->tables_only;
    case LF_GROUP_ENGRAM:
        return c->tables_only || present(c, w);
    case LF_GROUP_DRAFT:
        return c->summary.has_drafts;
    case LF_GROUP_IMAGE_BIAS:
    case LF_GROUP_DRAFT_BIAS:
        return present(c, w);
    case LF_GROUP_VISION:
    case LF_GROUPS:
        break;
    }
    return false;
}

// A growing list of names in the arena; the names are not copied.
static enum lf_status name_add(struct lf_checkpoint *c, const char *const **list, uint64_t *n,
                               const char *name, struct lf_error *err) {
    const char **names = (const char **)(uintptr_t)*list;
    // Room doubles at every power of two.
    if ((*n & (*n - 1)) == 0) {
        const char **grown = lf_arena_alloc(&c->arena, *n ? *n * 2 : 1, sizeof *grown);
        if (!grown)
            return lf_fail(err, LF_E_MEM, "out of memory for tensor names");
        if (*n)
            memcpy(grown, names, *n * sizeof *grown);
        names = grown;
    }
    names[(*n)++] = name;
    *list = names;
    return LF_OK;
}

static enum lf_status check_inventory(struct lf_checkpoint *c, struct lf_error *err) {
    struct lf_checkpoint_summary *s = &c->summary;
    s->has_engram_tables = c->topology.n_engram > 0;
    for (size_t i = 0; i < c->inventory.n; i++) {
        const struct lf_wanted *w = &c->inventory.wanted[i];
        if (w->group == LF_GROUP_IMAGE_BIAS && !present(c, w))
            LF_TRY(name_add(c, &s->bias_vl_missing_name, &s->bias_vl_missing, w->name, err));
        if (w->group == LF_GROUP_ENGRAM && !present(c, w))
            s->has_engram_tables = false;
        if (!is_wanted(c, w))
            continue;
        LF_TRY(check_wanted(c, w, err));
        const char *last = strrchr(w->name, '.');
        if (w->kind == LF_WANT_F32 && last && strcmp(last, ".bias") == 0 &&
            lf_checkpoint_find(c, w->name)->dtype != LF_DTYPE_F32)
            LF_TRY(name_add(c, &s->bias_rounded_name, &s->bias_rounded, w->name, err));
    }
    return LF_OK;
}

// 4.2: a tensor that nothing reads is counted, one that would change the result is refused.
static enum lf_status check_other(struct lf_checkpoint *c, const char *name, const char *file,
                                  struct lf_error *err) {
    switch (lf_inventory_role(&c->inventory, name)) {
    case LF_ROLE_WANTED:
        return LF_OK;
    case LF_ROLE_STRAY:
        return lf_fail(err, LF_E_FORMAT,
                       "tensor %s of file %s is none that this model has, but would change its "
                       "result",
                       name, file);
    case LF_ROLE_UNKNOWN:
        break;
    }
    return name_add(c, &c->summary.ignored_name, &c->summary.ignored, name, err);
}

static enum lf_status check_others(struct lf_checkpoint *c, struct lf_error *err) {
    for (size_t i = 0; i < c->tensors; i++)
        LF_TRY(check_other(c, c->tensor[i]->name, c->tensor[i]->file, err));
    // Names that the index places in files nobody opened.
    for (size_t i = 0; i < c->index.entries; i++) {
        const struct lf_shard_entry *entry = &c->index.entry[i];
        if (!lf_checkpoint_find(c, entry->tensor))
            LF_TRY(check_other(c, entry->tensor, entry->file_name, err));
    }
    return LF_OK;
}

// Where the summary counts a tensor's bytes, or NULL: what nothing reads takes no memory.
static uint64_t *group_bytes(struct lf_checkpoint *c, const char *name) {
    const struct lf_wanted *w = lf_inventory_find(&c->inventory, name);
    if (!w)
        return NULL;
    switch (w->group) {
    case LF_GROUP_TEXT:
        return &c->summary.text_bytes;
    case LF_GROUP_ENGRAM:
        return &c->summary.table_bytes;
    case LF_GROUP_DRAFT:
        return &c->summary.draft_bytes;
    case LF_GROUP_IMAGE_BIAS:
    case LF_GROUP_VISION:
        return &c->summary.vision_bytes;
    case LF_GROUP_DRAFT_BIAS:
    case LF_GROUPS:
        break;
    }
    return NULL;
}

static void fill_sizes(struct lf_checkpoint *c) {
    struct lf_checkpoint_summary *s = &c->summary;
    s->config_sha256 = c->topology.config_sha256;
    s->indexed = c->indexed;
    s->total_claimed = c->index.total_bytes;
    s->files = c->shards;
    s->tensors = c->tensors;
    for (uint32_t i = 0; i < c->shards; i++)
        s->files_missing += c->shard[i].missing;
    for (size_t i = 0; i < c->tensors; i++) {
        if (c->tensor[i]->shares)
            continue;
        s->payload_bytes += c->tensor[i]->bytes;
        uint64_t *group = group_bytes(c, c->tensor[i]->name);
        if (group)
            *group += c->tensor[i]->bytes;
        s->dtype_bytes[c->tensor[i]->dtype] += c->tensor[i]->bytes;
    }
}

enum lf_status lf_checkpoint_check(struct lf_checkpoint *c, struct lf_error *err) {
    struct lf_checkpoint_summary *s = &c->summary;
    fill_sizes(c);
    if (!c->tables_only) {
        LF_TRY(all_or_none(c, LF_GROUP_DRAFT, "draft tensors (mtp.*)", &s->has_drafts, err));
        LF_TRY(all_or_none(c, LF_GROUP_VISION, "image tensors (vision.*, aligner.*, image_*)",
                           &s->has_vision, err));
    }
    LF_TRY(check_inventory(c, err));
    return c->tables_only ? LF_OK : check_others(c, err);
}
