#include "format/checkpoint_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

enum { TILE = 32, SHAPE_TEXT = 192, NAME_BYTES = LF_TENSOR_NAME_MAX + 16 };
enum { SCALE_SET = 1 << LF_DTYPE_F8_E8M0 | 1 << LF_DTYPE_U8 };

static const char *shape_text(char text[SHAPE_TEXT], uint32_t rank, const uint64_t *shape) {
    size_t used = 0;
    text[used++] = '[';
    for (uint32_t i = 0; i < rank; i++)
        used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%" PRIu64, i ? ", " : "",
                                 shape[i]);
    snprintf(text + used, SHAPE_TEXT - used, "]");
    return text;
}

static enum lf_status missing(const struct lf_checkpoint *c, const char *name,
                              struct lf_error *err) {
    const struct lf_shard_entry *entry =
        c->indexed ? lf_shard_index_find(&c->index, name) : NULL;
    if (entry)
        return lf_fail(err, LF_E_MISSING, "tensor %s: the index places it in %s, which %s", name,
                       entry->file_name,
                       c->shard[entry->file].missing ? "is missing" : "does not have it");
    return lf_fail(err, LF_E_MISSING, "tensor %s is missing from %s", name, c->folder);
}

static bool same_shape(const struct lf_tensor *t, uint32_t rank, const uint64_t *shape) {
    return t->rank == rank && (rank == 0 || memcmp(t->shape, shape, rank * sizeof *shape) == 0);
}

enum lf_status lf_tensor_fetch(const struct lf_checkpoint *c, const struct lf_tensor **out,
                               const char *name, uint32_t dtype_set, const char *dtypes,
                               uint32_t rank, const uint64_t *shape, struct lf_error *err) {
    char expected[SHAPE_TEXT], found[SHAPE_TEXT];
    const struct lf_tensor *t = lf_checkpoint_find(c, name);
    if (!t)
        return missing(c, name, err);
    if (!(dtype_set >> t->dtype & 1) || !same_shape(t, rank, shape))
        return lf_fail(err, LF_E_FORMAT, "tensor %s: expected %s %s, file %s has %s %s", name,
                       dtypes, shape_text(expected, rank, shape), t->file, t->dtype_name,
                       shape_text(found, t->rank, t->shape));
    *out = t;
    return LF_OK;
}

static uint64_t element_count(uint32_t rank, const uint64_t *shape) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

static uint16_t load_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static float load_f32(const struct lf_tensor *t, uint64_t i) {
    float value;
    if (t->dtype == LF_DTYPE_BF16)
        return lf_bf16_to_f32(load_u16(t->data + 2 * i));
    if (t->dtype == LF_DTYPE_F16)
        return lf_f16_to_f32(load_u16(t->data + 2 * i));
    memcpy(&value, t->data + 4 * i, sizeof value);
    return value;
}

enum lf_status lf_checkpoint_f32(struct lf_checkpoint *checkpoint, const float **out,
                                 const char *name, uint32_t rank, const uint64_t *shape,
                                 struct lf_error *err) {
    const struct lf_tensor *t;
    LF_TRY(lf_tensor_fetch(checkpoint, &t, name, LF_DTYPE_SET_PLAIN, "F32, BF16 or F16", rank,
                           shape, err));
    if (t->dtype == LF_DTYPE_F32 && (uintptr_t)t->data % _Alignof(float) == 0) {
        *out = (const float *)(const void *)t->data;
        return LF_OK;
    }
    uint64_t count = element_count(rank, shape);
    float *wide = lf_arena_alloc(&checkpoint->arena, count, sizeof *wide);
    if (!wide)
        return lf_fail(err, LF_E_MEM, "tensor %s: out of memory for %" PRIu64 " values", name,
                       count);
    for (uint64_t i = 0; i < count; i++)
        wide[i] = load_f32(t, i);
    *out = wide;
    return LF_OK;
}

enum lf_status lf_checkpoint_bf16(struct lf_checkpoint *checkpoint, const uint16_t **out,
                                  const char *name, uint32_t rank, const uint64_t *shape,
                                  struct lf_error *err) {
    const struct lf_tensor *t;
    LF_TRY(lf_tensor_fetch(checkpoint, &t, name, LF_DTYPE_SET_PLAIN, "BF16, F16 or F32", rank,
                           shape, err));
    if (t->dtype == LF_DTYPE_BF16 && (uintptr_t)t->data % _Alignof(uint16_t) == 0) {
        *out = (const uint16_t *)(const void *)t->data;
        return LF_OK;
    }
    uint64_t count = element_count(rank, shape);
    uint16_t *value = lf_arena_alloc(&checkpoint->arena, count, sizeof *value);
    if (!value)
        return lf_fail(err, LF_E_MEM, "tensor %s: out of memory for %" PRIu64 " values", name,
                       count);
    if (t->dtype == LF_DTYPE_BF16)
        memcpy(value, t->data, t->bytes);
    for (uint64_t i = 0; i < count && t->dtype != LF_DTYPE_BF16; i++) {
        float wide = load_f32(t, i);
        value[i] = lf_bf16_from_f32(wide);
        if (lf_f32_bits(lf_bf16_to_f32(value[i])) != lf_f32_bits(wide))
            return lf_fail(err, LF_E_VALUE,
                           "tensor %s: value %" PRIu64 " of file %s, %g in %s, is not a bf16 value",
                           name, i, t->file, (double)wide, t->dtype_name);
    }
    *out = value;
    return LF_OK;
}

// The other usual block size that a scale's shape would be right for, or 0.
static uint32_t other_block(const struct lf_tensor *scale, uint32_t rows, uint32_t cols) {
    static const uint32_t blocks[] = {16, 64, 128, 256};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks && scale->rank == 2; i++)
        if (scale->shape[0] == (rows - 1) / blocks[i] + 1 &&
            scale->shape[1] == (cols - 1) / blocks[i] + 1)
            return blocks[i];
    return 0;
}

static enum lf_status fetch_scale(const struct lf_checkpoint *c, const struct lf_tensor **out,
                                  const char *name, bool tiled, uint32_t rows, uint32_t cols,
                                  struct lf_error *err) {
    char full[NAME_BYTES], found[SHAPE_TEXT];
    const uint64_t shape[2] = {tiled ? (rows - 1) / TILE + 1 : rows, cols / TILE};
    snprintf(full, sizeof full, "%s.scale", name);
    const struct lf_tensor *t = lf_checkpoint_find(c, full);
    uint32_t block = t && tiled && !same_shape(t, 2, shape) ? other_block(t, rows, cols) : 0;
    if (block)
        return lf_fail(err, LF_E_FORMAT,
                       "tensor %s: file %s has the shape %s of %u x %u blocks, expected 32 x 32: "
                       "[%" PRIu64 ", %" PRIu64 "]",
                       full, t->file, shape_text(found, t->rank, t->shape), block, block, shape[0],
                       shape[1]);
    return lf_tensor_fetch(c, out, full, SCALE_SET, "F8_E8M0 or U8", 2, shape, err);
}

// 1.1 rule 5: the dtype of NAME.weight names the format.
static enum lf_status format_of(const struct lf_tensor *t, enum lf_weight_format *format,
                                struct lf_error *err) {
    static const struct {
        enum lf_dtype dtype;
        enum lf_weight_format format;
    } formats[] = {
        {LF_DTYPE_BF16, LF_WEIGHT_BF16},   {LF_DTYPE_F16, LF_WEIGHT_F16},
        {LF_DTYPE_F32, LF_WEIGHT_F32},     {LF_DTYPE_F8_E4M3, LF_WEIGHT_FP8},
        {LF_DTYPE_I8, LF_WEIGHT_MXFP4},    {LF_DTYPE_U8, LF_WEIGHT_MXFP4},
        {LF_DTYPE_F4, LF_WEIGHT_MXFP4},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].dtype == t->dtype) {
            *format = formats[i].format;
            return LF_OK;
        }
    }
    return lf_fail(err, LF_E_UNSUPPORTED,
                   "tensor %s: expected F8_E4M3, I8, BF16, F16 or F32 for a linear map, file %s "
                   "has %s",
                   t->name, t->file, t->dtype_name);
}

enum lf_status lf_checkpoint_matrix(struct lf_checkpoint *checkpoint, struct lf_matrix *out,
                                    const char *name, uint32_t rows, uint32_t cols,
                                    struct lf_error *err) {
    char full[NAME_BYTES];
    uint64_t shape[2] = {rows, cols};
    const struct lf_tensor *t, *scale = NULL;
    *out = (struct lf_matrix){.out = rows, .in = cols};
    LF_ASSERT(rows > 0 && cols > 0);
    snprintf(full, sizeof full, "%s.weight", name);
    t = lf_checkpoint_find(checkpoint, full);
    if (!t)
        return missing(checkpoint, full, err);
    LF_TRY(format_of(t, &out->format, err));
    bool scaled = lf_matrix_quantizes_input(out);
    if (scaled && cols % TILE)
        return lf_fail(err, LF_E_VALUE,
                       "tensor %s: an input width of %u is not a multiple of %d, which %s needs",
                       full, cols, TILE, t->dtype_name);
    // Two values a byte, except where the dtype itself counts half bytes.
    if (out->format == LF_WEIGHT_MXFP4 && t->dtype != LF_DTYPE_F4)
        shape[1] = cols / 2;
    LF_TRY(lf_tensor_fetch(checkpoint, &t, full, 1u << t->dtype, t->dtype_name, 2, shape, err));
    if (scaled) {
        LF_TRY(fetch_scale(checkpoint, &scale, name, out->format == LF_WEIGHT_FP8, rows, cols,
                           err));
        out->scale = scale->data;
    } else {
        snprintf(full, sizeof full, "%s.scale", name);
        if (lf_checkpoint_find(checkpoint, full))
            return lf_fail(err, LF_E_FORMAT, "tensor %s: a scale beside a weight of %s in file %s",
                           full, t->dtype_name, t->file);
    }
    out->data = t->data;
    return LF_OK;
}

enum lf_status lf_table_fetch(const struct lf_checkpoint *c, struct lf_engram_table *out,
                              const char *name, uint64_t rows, uint32_t dim,
                              struct lf_error *err) {
    char full[NAME_BYTES];
    const struct lf_tensor *value, *scale;
    const uint64_t value_shape[2] = {rows, dim}, scale_shape[2] = {rows, dim / TILE};
    snprintf(full, sizeof full, "%s.weight", name);
    LF_TRY(lf_tensor_fetch(c, &value, full, 1u << LF_DTYPE_F8_E4M3, "F8_E4M3", 2, value_shape,
                           err));
    snprintf(full, sizeof full, "%s.scale", name);
    LF_TRY(lf_tensor_fetch(c, &scale, full, SCALE_SET, "F8_E8M0 or U8", 2, scale_shape, err));
    *out = (struct lf_engram_table){
        .rows = rows, .dim = dim, .value = value->data, .scale = scale->data};
    return LF_OK;
}

enum lf_status lf_checkpoint_engram(struct lf_checkpoint *checkpoint, struct lf_engram_table *out,
                                    uint32_t layer, struct lf_error *err) {
    const struct lf_topology *t = &checkpoint->topology;
    char name[64];
    for (uint32_t i = 0; i < t->n_engram; i++) {
        if (t->engram_layers[i] != layer)
            continue;
        snprintf(name, sizeof name, "layers.%u.engram.embed", layer);
        return lf_table_fetch(checkpoint, out, name, t->engram_rows[i], t->engram_dim, err);
    }
    return lf_fail(err, LF_E_NOT_FOUND, "layer %u has no Engram table", layer);
}
