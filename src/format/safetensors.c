#include "format/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "format/fields.h"

enum { PREFIX_BYTES = 8, HEADER_BYTES_MAX = 100000000 };

static const struct dtype {
    const char *name;
    enum lf_dtype dtype;
    uint32_t bits;
} dtypes[] = {
    {"BF16", LF_DTYPE_BF16, 16},
    {"F16", LF_DTYPE_F16, 16},
    {"F32", LF_DTYPE_F32, 32},
    {"F8_E4M3", LF_DTYPE_F8_E4M3, 8},
    {"F8_E8M0", LF_DTYPE_F8_E8M0, 8},
    {"I8", LF_DTYPE_I8, 8},
    {"U8", LF_DTYPE_U8, 8},
    {"I16", LF_DTYPE_I16, 16},
    {"I32", LF_DTYPE_I32, 32},
    {"F4", LF_DTYPE_F4, 4},
    {"BOOL", LF_DTYPE_OTHER, 8},
    {"F8_E5M2", LF_DTYPE_OTHER, 8},
    {"F8_E4M3FNUZ", LF_DTYPE_OTHER, 8},
    {"F8_E5M2FNUZ", LF_DTYPE_OTHER, 8},
    {"F6_E2M3", LF_DTYPE_OTHER, 6},
    {"F6_E3M2", LF_DTYPE_OTHER, 6},
    {"U16", LF_DTYPE_OTHER, 16},
    {"U32", LF_DTYPE_OTHER, 32},
    {"U64", LF_DTYPE_OTHER, 64},
    {"I64", LF_DTYPE_OTHER, 64},
    {"F64", LF_DTYPE_OTHER, 64},
    {"C64", LF_DTYPE_OTHER, 64},
};

const char *lf_dtype_name(enum lf_dtype dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && dtype != LF_DTYPE_OTHER; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "other";
}

enum lf_status lf_tensor_name_check(const char *name, const char *origin, struct lf_error *err) {
    size_t len = strlen(name);
    if (len == 0 || len > LF_TENSOR_NAME_MAX)
        return lf_fail(err, LF_E_FORMAT, "%s: a tensor name has %zu bytes, allowed are 1 to %d",
                       origin, len, LF_TENSOR_NAME_MAX);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        // U+0080 .. U+009F are control characters too.
        bool c1 = c == 0xC2 && (unsigned char)name[i + 1] < 0xA0;
        if (c < 0x20 || c == 0x7F || c1)
            return lf_fail(err, LF_E_FORMAT,
                           "%s: a tensor name has a control character at its byte %zu", origin, i);
    }
    return LF_OK;
}

static enum lf_status integer_at(const json_t *list, size_t i, uint64_t *out) {
    const json_t *value = json_array_get(list, i);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return LF_E_TYPE;
    *out = (uint64_t)json_integer_value(value);
    return LF_OK;
}

static const struct dtype *dtype_find(const char *name) {
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

// Rule 7: the bytes that dtype and shape ask for.
static enum lf_status size_of(struct lf_tensor *t, uint32_t bits, struct lf_error *err) {
    uint64_t total = bits;
    bool overflow = false;
    // Bits and dimensions in one product: as many bits must fit in 64 bits.
    for (uint32_t i = 0; i < t->rank; i++)
        overflow |= __builtin_mul_overflow(total, t->shape[i], &total);
    if (overflow)
        return lf_fail(err, LF_E_FORMAT, "%s: tensor %s: the size of its shape overflows", t->file,
                       t->name);
    if (total % 8)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: tensor %s: %" PRIu64 " bits are not a whole number of bytes", t->file,
                       t->name, total);
    t->bytes = total / 8;
    return LF_OK;
}

// Rules 6 to 8 for one entry; its data pointer starts as the offset from base.
static enum lf_status parse_entry(struct lf_tensor *t, const json_t *entry, const uint8_t *base,
                                  uint64_t data_bytes, struct lf_error *err) {
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end;
    char shown[LF_SHOWN_BYTES];
    if (json_object_size(entry) != 3 || !json_is_string(dtype) || !json_is_array(shape) ||
        !json_is_array(offsets))
        return lf_fail(err, LF_E_FORMAT,
                       "%s: tensor %s: an entry must have exactly dtype, shape and data_offsets",
                       t->file, t->name);
    const struct dtype *known = dtype_find(json_string_value(dtype));
    if (!known)
        return lf_fail(err, LF_E_FORMAT, "%s: tensor %s: unknown dtype %s", t->file, t->name,
                       lf_fields_shown(shown, json_string_value(dtype)));
    if (json_array_size(shape) > LF_TENSOR_RANK_MAX)
        return lf_fail(err, LF_E_FORMAT, "%s: tensor %s: rank %zu, at most %d", t->file, t->name,
                       json_array_size(shape), LF_TENSOR_RANK_MAX);
    t->dtype = known->dtype;
    t->dtype_name = known->name;
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++)
        if (integer_at(shape, i, &t->shape[i]) != LF_OK)
            return lf_fail(err, LF_E_FORMAT,
                           "%s: tensor %s: shape[%u] must be an integer of at least 0", t->file,
                           t->name, i);
    if (json_array_size(offsets) != 2 || integer_at(offsets, 0, &begin) != LF_OK ||
        integer_at(offsets, 1, &end) != LF_OK)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: tensor %s: data_offsets must be two integers of at least 0", t->file,
                       t->name);
    LF_TRY(size_of(t, known->bits, err));
    if (end < begin || end - begin != t->bytes)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: tensor %s: data_offsets [%" PRIu64 ", %" PRIu64
                       "] must span the %" PRIu64 " bytes of its shape",
                       t->file, t->name, begin, end, t->bytes);
    if (end > data_bytes)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: tensor %s ends at byte %" PRIu64 " of the data, which has %" PRIu64,
                       t->file, t->name, end, data_bytes);
    t->data = base + begin;
    return LF_OK;
}

static int order_by_data(const void *a, const void *b) {
    const struct lf_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int order_by_name(const void *a, const void *b) {
    const struct lf_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// Rule 9: no hole, no overlap, nothing after the last tensor.
static enum lf_status check_cover(struct lf_safetensors *header, const uint8_t *base,
                                  uint64_t data_bytes, const char *file, struct lf_error *err) {
    uint64_t at = 0;
    qsort(header->tensor, header->tensors, sizeof *header->tensor, order_by_data);
    for (size_t i = 0; i < header->tensors; i++) {
        const struct lf_tensor *t = &header->tensor[i];
        uint64_t begin = (uint64_t)(t->data - base);
        if (begin != at)
            return lf_fail(err, LF_E_FORMAT,
                           "%s: tensor %s begins at byte %" PRIu64 " of the data, expected %" PRIu64
                           ": %s",
                           file, t->name, begin, at, begin < at ? "an overlap" : "a hole");
        at += t->bytes;
    }
    if (at != data_bytes)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: the tensors end at byte %" PRIu64
                       " of the data, but the file has %" PRIu64 " bytes of data",
                       file, at, data_bytes);
    return LF_OK;
}

static enum lf_status check_metadata(const json_t *metadata, const char *file,
                                     struct lf_error *err) {
    const char *key;
    json_t *value;
    char shown[LF_SHOWN_BYTES];
    if (!json_is_object(metadata))
        return lf_fail(err, LF_E_FORMAT, "%s: __metadata__ must be an object of strings", file);
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value))
            return lf_fail(err, LF_E_FORMAT, "%s: __metadata__.%s must be a string", file,
                           lf_fields_shown(shown, key));
    }
    return LF_OK;
}

static enum lf_status parse_entries(struct lf_safetensors *out, struct lf_arena *arena,
                                    const json_t *root, const uint8_t *base, uint64_t data_bytes,
                                    const char *file, struct lf_error *err) {
    const char *key;
    json_t *entry;
    size_t name_bytes = 0, count = 0;
    json_object_foreach((json_t *)(uintptr_t)root, key, entry) {
        name_bytes += strlen(key) + 1;
        count++;
    }
    char *name = lf_arena_alloc(arena, name_bytes, 1);
    out->tensor = lf_arena_alloc(arena, count, sizeof *out->tensor);
    if (!name || !out->tensor)
        return lf_fail(err, LF_E_MEM, "%s: out of memory for %zu tensors", file, count);
    json_object_foreach((json_t *)(uintptr_t)root, key, entry) {
        if (strcmp(key, "__metadata__") == 0) {
            LF_TRY(check_metadata(entry, file, err));
            continue;
        }
        LF_TRY(lf_tensor_name_check(key, file, err));
        struct lf_tensor *t = &out->tensor[out->tensors];
        size_t len = strlen(key) + 1;
        memcpy(name, key, len);
        *t = (struct lf_tensor){.name = name, .file = file};
        name += len;
        LF_TRY(parse_entry(t, entry, base, data_bytes, err));
        out->tensors++;
    }
    LF_TRY(check_cover(out, base, data_bytes, file, err));
    qsort(out->tensor, out->tensors, sizeof *out->tensor, order_by_name);
    return LF_OK;
}

enum lf_status lf_safetensors_parse(struct lf_safetensors *out, struct lf_arena *arena,
                                    const uint8_t *bytes, size_t len, const char *file,
                                    struct lf_error *err) {
    uint64_t header = 0;
    json_t *root;
    *out = (struct lf_safetensors){0};
    if (len < PREFIX_BYTES)
        return lf_fail(err, LF_E_FORMAT, "%s has %zu bytes, too short for a safetensors file", file,
                       len);
    for (int i = PREFIX_BYTES - 1; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header > HEADER_BYTES_MAX)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: a header of %" PRIu64 " bytes, at most %d are allowed", file, header,
                       HEADER_BYTES_MAX);
    if (header > len - PREFIX_BYTES)
        return lf_fail(err, LF_E_FORMAT,
                       "%s: a header of %" PRIu64 " bytes does not fit in the file's %zu", file,
                       header, len);
    const char *text = (const char *)bytes + PREFIX_BYTES;
    if (header == 0 || text[0] != '{')
        return lf_fail_byte(err, LF_E_FORMAT, PREFIX_BYTES, "%s: the header must start with {",
                            file);
    size_t text_len = header;
    while (text[text_len - 1] == ' ')
        text_len--;
    // The parser would take other white space after the object too.
    if (text[text_len - 1] != '}')
        return lf_fail_byte(err, LF_E_FORMAT, (int64_t)(PREFIX_BYTES + text_len - 1),
                            "%s: the header must end with } and spaces", file);
    LF_TRY(lf_fields_load(&root, text, text_len, file, err));
    out->header_bytes = PREFIX_BYTES + header;
    const uint8_t *base = bytes + out->header_bytes;
    enum lf_status status =
        parse_entries(out, arena, root, base, len - out->header_bytes, file, err);
    json_decref(root);
    return status;
}

const struct lf_tensor *lf_safetensors_find(const struct lf_safetensors *header,
                                            const char *name) {
    struct lf_tensor key = {.name = name};
    if (header->tensors == 0)
        return NULL;
    return bsearch(&key, header->tensor, header->tensors, sizeof key, order_by_name);
}
