#include "text/tokenizer_table.h"

#include <string.h>

static const char *const pattern_text[3] = {
    "\\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

struct form {
    const char *origin;
    struct lf_error *err;
};

static enum lf_status refuse(const struct form *form, const char *field, const char *expected) {
    return lf_fail(form->err, LF_E_UNSUPPORTED, "%s: %s is not supported, expected %s",
                   form->origin, field, expected);
}

// Absent counts as null. An empty string adds nothing, so it may stand for null.
static enum lf_status need_null(const struct form *form, const json_t *object, const char *key,
                                const char *field) {
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
        return LF_OK;
    return refuse(form, field, "null");
}

static enum lf_status need_false(const struct form *form, const json_t *object, const char *key,
                                 const char *field) {
    const json_t *value = json_object_get(object, key);
    return !value || json_is_false(value) ? LF_OK : refuse(form, field, "false");
}

static bool text_is(const json_t *object, const char *key, const char *expected) {
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, expected) == 0;
}

// Files differ in writing \r, \n and \" or the characters they stand for (3.2).
static bool pattern_is(const char *text, const char *expected) {
    for (; *text; text++, expected++) {
        char c = *text;
        if (c == '\\' && (text[1] == 'r' || text[1] == 'n' || text[1] == '"')) {
            text++;
            c = *text == 'r' ? '\r' : *text == 'n' ? '\n' : '"';
        } else if (c == '\\' && text[1]) {
            if (*expected != c)
                return false;
            expected++;
            c = *++text;
        }
        if (c != *expected)
            return false;
    }
    return *expected == 0;
}

static enum lf_status check_pre_tokenizer(const struct form *form, const json_t *root) {
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    const json_t *list = json_object_get(pre, "pretokenizers");
    if (!text_is(pre, "type", "Sequence") || json_array_size(list) != 4)
        return refuse(form, "pre_tokenizer", "the Sequence of three Split and a ByteLevel");
    for (size_t i = 0; i < 3; i++) {
        const json_t *split = json_array_get(list, i);
        const char *regex =
            json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
        char field[64];
        snprintf(field, sizeof field, "pre_tokenizer.pretokenizers[%zu]", i);
        if (!text_is(split, "type", "Split") || !text_is(split, "behavior", "Isolated"))
            return refuse(form, field, "a Split with behavior Isolated");
        LF_TRY(need_false(form, split, "invert", field));
        if (!regex || !pattern_is(regex, pattern_text[i]))
            return refuse(form, field, "the pattern of DeepSeek-V3 at this place");
    }
    const json_t *bytes = json_array_get(list, 3);
    if (!text_is(bytes, "type", "ByteLevel"))
        return refuse(form, "pre_tokenizer.pretokenizers[3]", "a ByteLevel");
    const char *field = "pre_tokenizer.pretokenizers[3] (add_prefix_space, use_regex)";
    if (!json_is_false(json_object_get(bytes, "add_prefix_space")) ||
        !json_is_false(json_object_get(bytes, "use_regex")))
        return refuse(form, field, "false");
    return LF_OK;
}

static enum lf_status check_around(const struct form *form, const json_t *root) {
    if (!text_is(root, "version", "1.0"))
        return refuse(form, "version", "\"1.0\"");
    LF_TRY(need_null(form, root, "truncation", "truncation"));
    LF_TRY(need_null(form, root, "padding", "padding"));
    const json_t *normalizer = json_object_get(root, "normalizer");
    const json_t *steps = json_object_get(normalizer, "normalizers");
    bool empty = text_is(normalizer, "type", "Sequence") && json_is_array(steps) &&
                 json_array_size(steps) == 0;
    if (normalizer && !json_is_null(normalizer) && !empty)
        return refuse(form, "normalizer", "null or an empty Sequence");
    const json_t *post = json_object_get(root, "post_processor");
    if (post && !json_is_null(post) && !text_is(post, "type", "ByteLevel"))
        return refuse(form, "post_processor", "null or a ByteLevel");
    if (!text_is(json_object_get(root, "decoder"), "type", "ByteLevel"))
        return refuse(form, "decoder", "a ByteLevel");
    return LF_OK;
}

enum lf_status lf_tokenizer_check_form(const json_t *root, const char *origin,
                                       struct lf_error *err) {
    struct form form = {origin, err};
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(root))
        return lf_fail(err, LF_E_TYPE, "%s: expected a JSON object", origin);
    if (!model)
        return lf_fail(err, LF_E_MISSING, "%s: model is missing", origin);
    LF_TRY(check_around(&form, root));
    LF_TRY(check_pre_tokenizer(&form, root));
    if (!text_is(model, "type", "BPE"))
        return refuse(&form, "model.type", "\"BPE\"");
    LF_TRY(need_null(&form, model, "dropout", "model.dropout"));
    LF_TRY(need_null(&form, model, "unk_token", "model.unk_token"));
    LF_TRY(need_null(&form, model, "continuing_subword_prefix", "model.continuing_subword_prefix"));
    LF_TRY(need_null(&form, model, "end_of_word_suffix", "model.end_of_word_suffix"));
    LF_TRY(need_false(&form, model, "fuse_unk", "model.fuse_unk"));
    LF_TRY(need_false(&form, model, "byte_fallback", "model.byte_fallback"));
    return need_false(&form, model, "ignore_merges", "model.ignore_merges");
}
