#include "format/dummy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "format/checkpoint_state.h"
#include "format/dummy_rule.h"

enum { TILE = 32, PART_BYTES = 1 << 20, NAME_BYTES = 128 };

static const char origin[] = "made up from a seed";

static bool is_draft(const struct lf_wanted *w) {
    return w->group == LF_GROUP_DRAFT;
}

// What the engine reads; image tensors would make pictures look possible.
static bool is_made(const struct lf_wanted *w) {
    return w->group == LF_GROUP_TEXT || w->group == LF_GROUP_ENGRAM || is_draft(w);
}

// The release's format of an entry (checkpoint.md 4.2): routed experts are MXFP4, other maps FP8.
static enum lf_weight_format format_of(const struct lf_topology *t, const struct lf_wanted *w) {
    if (w->kind == LF_WANT_F32)
        return LF_WEIGHT_F32;
    if (w->kind == LF_WANT_TABLE)
        return LF_WEIGHT_FP8;
    if (w->kind != LF_WANT_LINEAR || !t->has_quantization)
        return LF_WEIGHT_BF16;
    bool expert = strstr(w->name, ".ffn.experts.") != NULL;
    return expert && t->quantization.expert_fp4 ? LF_WEIGHT_MXFP4 : LF_WEIGHT_FP8;
}

static enum lf_status add(struct lf_checkpoint *c, const char *name, const char *part,
                          enum lf_dtype dtype, uint32_t rank, uint64_t rows, uint64_t cols,
                          struct lf_error *err) {
    static const uint8_t size[LF_DTYPES] = {[LF_DTYPE_BF16] = 2, [LF_DTYPE_F32] = 4,
                                            [LF_DTYPE_F8_E4M3] = 1, [LF_DTYPE_F8_E8M0] = 1,
                                            [LF_DTYPE_I8] = 1};
    struct lf_dummy_store *d = &c->dummy;
    struct lf_tensor *t = &d->tensor[d->n];
    char full[NAME_BYTES];
    int len = snprintf(full, sizeof full, "%s%s", name, part);
    LF_ASSERT(len > 0 && len < NAME_BYTES && rows && cols);
    if (cols > INT64_MAX / size[dtype] / rows)
        return lf_fail(err, LF_E_TOO_LARGE, "config.json: tensor %s is too large", full);
    *t = (struct lf_tensor){.name = lf_arena_copy(&c->arena, full, (size_t)len), .dtype = dtype,
                            .dtype_name = lf_dtype_name(dtype), .rank = rank,
                            .shape = {rows, rank == 2 ? cols : 0},
                            .bytes = rows * cols * size[dtype], .file = origin};
    if (!t->name)
        return lf_fail(err, LF_E_MEM, "out of memory for the list of tensors");
    d->n++;
    return LF_OK;
}

static enum lf_status add_wanted(struct lf_checkpoint *c, const struct lf_wanted *w,
                                 struct lf_error *err) {
    uint64_t rows = w->shape[0], cols = w->rank == 2 ? w->shape[1] : 1;
    const char *weight = lf_wanted_has_weight(w) ? ".weight" : "";
    enum lf_weight_format format = format_of(&c->topology, w);
    bool scaled = format == LF_WEIGHT_FP8 || format == LF_WEIGHT_MXFP4;
    if (scaled && cols % TILE)
        return lf_fail(err, LF_E_VALUE, "config.json: tensor %s has an input width of %" PRIu64
                                        ", which is not a multiple of %d", w->name, cols, TILE);
    uint64_t tiles = format == LF_WEIGHT_FP8 && w->kind != LF_WANT_TABLE ? (rows - 1) / TILE + 1
                                                                        : rows;
    if (format == LF_WEIGHT_F32)
        return add(c, w->name, weight, LF_DTYPE_F32, w->rank, rows, cols, err);
    if (format == LF_WEIGHT_BF16)
        return add(c, w->name, weight, LF_DTYPE_BF16, w->rank, rows, cols, err);
    if (format == LF_WEIGHT_MXFP4)
        LF_TRY(add(c, w->name, weight, LF_DTYPE_I8, 2, rows, cols / 2, err));
    else
        LF_TRY(add(c, w->name, weight, LF_DTYPE_F8_E4M3, 2, rows, cols, err));
    return add(c, w->name, ".scale", LF_DTYPE_F8_E8M0, 2, tiles, cols / TILE, err);
}

static enum lf_status add_group(struct lf_checkpoint *c, bool draft, struct lf_error *err) {
    for (size_t i = 0; i < c->inventory.n; i++) {
        const struct lf_wanted *w = &c->inventory.wanted[i];
        if (is_made(w) && is_draft(w) == draft)
            LF_TRY(add_wanted(c, w, err));
    }
    return LF_OK;
}

static int order_tensors(const void *a, const void *b) {
    const struct lf_tensor *x = *(const struct lf_tensor *const *)a;
    const struct lf_tensor *y = *(const struct lf_tensor *const *)b;
    return strcmp(x->name, y->name);
}

// The tensor of the first layer of the same kind, or the tensor itself.
static const struct lf_tensor *twin(const struct lf_checkpoint *c, const struct lf_tensor *t) {
    const char *rest = strncmp(t->name, "layers.", 7) ? NULL : strchr(t->name + 7, '.');
    char name[NAME_BYTES];
    if (!c->dummy.shared || !rest)
        return t;
    uint32_t layer = (uint32_t)strtoul(t->name + 7, NULL, 10), first = 0;
    while (lf_topology_kind(&c->topology, first) != lf_topology_kind(&c->topology, layer))
        first++;
    snprintf(name, sizeof name, "layers.%u%s", first, rest);
    return lf_checkpoint_find(c, name);
}

// Tensors of their own get memory, one after the other, and the parts that fill it.
static enum lf_status place(struct lf_checkpoint *c, struct lf_error *err) {
    struct lf_dummy_store *d = &c->dummy;
    uint32_t parts = 0;
    for (uint64_t i = 0; i < d->n; i++) {
        struct lf_tensor *t = &d->tensor[i];
        const struct lf_tensor *first = twin(c, t);
        t->shares = first == t ? NULL : first;
        if (!t->shares) {
            if (t->bytes > (uint64_t)INT64_MAX - d->bytes ||
                d->bytes + t->bytes > (uint64_t)UINT32_MAX * (PART_BYTES / 2))
                return lf_fail(err, LF_E_TOO_LARGE, "config.json: tensor %s is too large",
                               t->name);
            parts += (uint32_t)((t->bytes - 1) / PART_BYTES + 1);
            d->bytes += lf_arena_rounded(t->bytes);
        }
        d->part_end[i] = parts;
    }
    return LF_OK;
}

static enum lf_status take_memory(struct lf_checkpoint *c, struct lf_error *err) {
    struct lf_dummy_store *d = &c->dummy;
    // Pages come with the first write, so a plan of any size opens.
    void *data = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return lf_fail_errno(err, LF_E_MEM, "no address space for weights of %" PRIu64 " bytes",
                             d->bytes);
    madvise(data, d->bytes, MADV_HUGEPAGE);
    d->data = data;
    uint64_t at = 0;
    for (uint64_t i = 0; i < d->n; i++) {
        if (d->tensor[i].shares)
            continue;
        d->tensor[i].data = d->data + at;
        at += lf_arena_rounded(d->tensor[i].bytes);
        d->own[d->n_own++] = &d->tensor[i];
    }
    for (uint64_t i = 0; i < d->n; i++)
        if (d->tensor[i].shares)
            d->tensor[i].data = d->tensor[i].shares->data;
    return LF_OK;
}

enum lf_status lf_dummy_open(struct lf_checkpoint *c, const struct lf_dummy *dummy,
                             struct lf_error *err) {
    struct lf_dummy_store *d = &c->dummy;
    size_t most = 2 * c->inventory.n;
    d->seed = dummy->seed;
    d->shared = dummy->shared;
    d->tensor = lf_arena_alloc(&c->arena, most, sizeof *d->tensor);
    d->part_end = lf_arena_alloc(&c->arena, most, sizeof *d->part_end);
    d->own = lf_arena_alloc(&c->arena, most, sizeof *d->own);
    c->tensor = lf_arena_alloc(&c->arena, most, sizeof *c->tensor);
    if (!d->tensor || !d->part_end || !d->own || !c->tensor)
        return lf_fail(err, LF_E_MEM, "out of memory for the list of tensors");
    LF_TRY(add_group(c, false, err));
    d->n_text = d->n;
    LF_TRY(add_group(c, true, err));
    for (uint64_t i = 0; i < d->n; i++)
        c->tensor[c->tensors++] = &d->tensor[i];
    qsort(c->tensor, c->tensors, sizeof *c->tensor, order_tensors);
    LF_TRY(place(c, err));
    return take_memory(c, err);
}

void lf_dummy_close(struct lf_checkpoint *c) {
    if (c->dummy.data)
        munmap(c->dummy.data, c->dummy.bytes);
    c->dummy.data = NULL;
}

bool lf_checkpoint_is_dummy(const struct lf_checkpoint *checkpoint) {
    return checkpoint->dummy.data != NULL;
}

uint32_t lf_dummy_parts(const struct lf_checkpoint *checkpoint, bool drafter) {
    const struct lf_dummy_store *d = &checkpoint->dummy;
    return d->part_end[(drafter ? d->n : d->n_text) - 1];
}

// Linear maps and other tables of two dimensions, but those of the Engram, which stay.
static bool is_map(const struct lf_tensor *t) {
    return t->rank == 2 && !strstr(t->name, ".engram.embed.");
}

void lf_dummy_leave_maps(struct lf_checkpoint *checkpoint) {
    checkpoint->dummy.maps_left = true;
}

void lf_dummy_fill(void *checkpoint, uint32_t part, uint32_t worker) {
    const struct lf_dummy_store *d = &((const struct lf_checkpoint *)checkpoint)->dummy;
    uint64_t first = 0, last = d->n - 1;
    (void)worker;
    while (first < last) {
        uint64_t middle = first + (last - first) / 2;
        if (d->part_end[middle] > part)
            last = middle;
        else
            first = middle + 1;
    }
    const struct lf_tensor *t = &d->tensor[first];
    if (d->maps_left && is_map(t))
        return;
    uint64_t offset = (uint64_t)(part - (first ? d->part_end[first - 1] : 0)) * PART_BYTES;
    uint64_t left = t->bytes - offset;
    lf_dummy_write(t, d->seed, offset, left < PART_BYTES ? left : PART_BYTES,
                   d->data + (t->data - d->data) + offset);
}

bool lf_dummy_left(const struct lf_checkpoint *checkpoint, const uint8_t *at,
                   struct lf_dummy_rule *rule, uint64_t *offset) {
    const struct lf_dummy_store *d = &checkpoint->dummy;
    uint64_t first = 0, last = d->n_own;
    if (!d->maps_left || at < d->data || at >= d->data + d->bytes)
        return false;
    while (last - first > 1) {
        uint64_t middle = first + (last - first) / 2;
        if (d->own[middle]->data <= at)
            first = middle;
        else
            last = middle;
    }
    const struct lf_tensor *t = d->own[first];
    *rule = lf_dummy_rule_of(t, d->seed);
    *offset = (uint64_t)(at - t->data);
    return is_map(t);
}

const struct lf_tensor *lf_dummy_tensors(const struct lf_checkpoint *checkpoint, uint64_t *n) {
    *n = checkpoint->dummy.n;
    return checkpoint->dummy.tensor;
}
