#include "format/generation.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include "base/file.h"

enum { FILE_BYTES_MAX = 1 << 20 };

static enum lf_status read_number(double *out, const json_t *config, const char *field, double min,
                                  double max, const char *path, struct lf_error *err) {
    const json_t *value = json_object_get(config, field);
    if (!value || json_is_null(value))
        return LF_OK;
    if (!json_is_number(value))
        return lf_fail(err, LF_E_TYPE, "%s: %s: expected a number", path, field);
    double x = json_number_value(value);
    if (!(x >= min && x <= max))
        return lf_fail(err, LF_E_VALUE, "%s: %s is %g: expected %g to %g", path, field, x, min,
                       max);
    *out = x;
    return LF_OK;
}

static enum lf_status read_fields(struct lf_generation *out, const json_t *config, const char *path,
                                  struct lf_error *err) {
    double top_k = 0;
    const json_t *sample = json_object_get(config, "do_sample");
    if (!json_is_object(config))
        return lf_fail(err, LF_E_FORMAT, "%s: expected a JSON object", path);
    LF_TRY(read_number(&out->temperature, config, "temperature", 0, 2, path, err));
    LF_TRY(read_number(&out->top_p, config, "top_p", 0, 1, path, err));
    LF_TRY(read_number(&out->min_p, config, "min_p", 0, 1, path, err));
    LF_TRY(read_number(&top_k, config, "top_k", -1, 2147483647, path, err));
    if (top_k != floor(top_k))
        return lf_fail(err, LF_E_VALUE, "%s: top_k is %g: expected a whole number", path, top_k);
    if (sample && !json_is_null(sample) && !json_is_boolean(sample))
        return lf_fail(err, LF_E_TYPE, "%s: do_sample: expected true or false", path);
    out->top_k = (int64_t)top_k;
    // A checkpoint that says not to sample asks for greedy replies.
    if (json_is_false(sample))
        out->temperature = 0;
    return LF_OK;
}

enum lf_status lf_generation_read(struct lf_generation *out, const char *folder,
                                  struct lf_error *err) {
    char path[4352];
    struct lf_buffer text = {0};
    json_error_t at;
    *out = (struct lf_generation){.temperature = 1, .top_p = 1};
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    if (access(path, F_OK) != 0)
        return LF_OK;
    if (lf_file_read(&text, path, FILE_BYTES_MAX, err) == LF_OK) {
        json_t *config = json_loadb(text.data, text.len, 0, &at);
        if (!config)
            lf_fail_byte(err, LF_E_JSON, at.position, "%s: byte %d: %s", path, at.position,
                         at.text);
        else if (read_fields(out, config, path, err) != LF_OK)
            *out = (struct lf_generation){0};
        json_decref(config);
    }
    lf_buffer_free(&text);
    return err->status;
}
