#include "text/chat.h"

#include <inttypes.h>
#include <string.h>

static const char *const control_texts[LF_CONTROLS] = {
    [LF_CONTROL_BOS] = "<｜begin▁of▁sentence｜>",
    [LF_CONTROL_EOS] = "<｜end▁of▁sentence｜>",
    [LF_CONTROL_SYSTEM] = "<｜System｜>",
    [LF_CONTROL_USER] = "<｜User｜>",
    [LF_CONTROL_ASSISTANT] = "<｜Assistant｜>",
    [LF_CONTROL_THINK] = "<think>",
    [LF_CONTROL_THINK_END] = "</think>",
    [LF_CONTROL_DSML] = "｜DSML｜",
    [LF_CONTROL_REMINDER] = "<｜latest_reminder｜>",
    [LF_CONTROL_IMAGE] = "<｜deepseek_image｜>",
    [LF_CONTROL_ACTION] = "<｜action｜>",
    [LF_CONTROL_QUERY] = "<｜query｜>",
    [LF_CONTROL_AUTHORITY] = "<｜authority｜>",
    [LF_CONTROL_DOMAIN] = "<｜domain｜>",
    [LF_CONTROL_TITLE] = "<｜title｜>",
    [LF_CONTROL_READ_URL] = "<｜read_url｜>",
};

const char *lf_control_text(enum lf_control control) {
    return control_texts[control];
}

static bool is_task(int control) {
    return control >= LF_CONTROL_ACTION && control <= LF_CONTROL_READ_URL;
}

static enum lf_status expect_id(const struct lf_controls *controls, enum lf_control control,
                                uint32_t id, const char *field, struct lf_error *err) {
    if (controls->id[control] == (int64_t)id)
        return LF_OK;
    return lf_fail(err, LF_E_VALUE,
                   "tokenizer.json gives %s the id %" PRId64 ", but %s of the configuration is "
                   "%" PRIu32,
                   control_texts[control], controls->id[control], field, id);
}

enum lf_status lf_controls_find(struct lf_controls *out, const struct lf_tokenizer *tokenizer,
                                uint32_t eos_id, uint32_t image_id, struct lf_error *err) {
    for (int i = 0; i < LF_CONTROLS; i++) {
        out->id[i] = lf_tokenizer_added_id(tokenizer, control_texts[i]);
        if (out->id[i] < 0 && !is_task(i))
            return lf_fail(err, LF_E_MISSING, "tokenizer.json has no added token %s",
                           control_texts[i]);
    }
    LF_TRY(expect_id(out, LF_CONTROL_EOS, eos_id, "eos_token_id", err));
    if (image_id == UINT32_MAX)
        return LF_OK;
    return expect_id(out, LF_CONTROL_IMAGE, image_id, "image_token_id", err);
}

enum lf_status lf_prompt_encode(const struct lf_prompt *prompt,
                                const struct lf_tokenizer *tokenizer,
                                const struct lf_controls *controls, struct lf_ids *out,
                                struct lf_error *err) {
    for (size_t i = 0; i < prompt->n_segments; i++) {
        const struct lf_segment *segment = &prompt->segment[i];
        if (!segment->control) {
            LF_TRY(lf_tokenizer_encode(tokenizer, segment->text, segment->len, false, out, err));
            continue;
        }
        if (controls->id[segment->id] < 0)
            return lf_fail(err, LF_E_UNSUPPORTED, "the tokenizer has no token %s",
                           control_texts[segment->id]);
        lf_ids_add(out, (uint32_t)controls->id[segment->id]);
    }
    return out->failed ? lf_fail(err, LF_E_MEM, "no memory for the prompt's ids") : LF_OK;
}

void lf_prompt_print(struct lf_buffer *out, const struct lf_prompt *prompt) {
    for (size_t i = 0; i < prompt->n_segments; i++) {
        const struct lf_segment *segment = &prompt->segment[i];
        if (segment->control)
            lf_buffer_add_text(out, control_texts[segment->id]);
        else
            lf_buffer_add(out, segment->text, segment->len);
    }
}

void lf_request_mark(struct lf_request *request, const struct lf_controls *controls) {
    for (uint32_t i = 0; i < request->prompt_len; i++) {
        if (request->prompt[i] == controls->id[LF_CONTROL_ASSISTANT])
            request->history_len = i;
        if (request->prompt[i] != controls->id[LF_CONTROL_USER])
            continue;
        request->rewind_len = i;
        if (!request->n_shared && i)
            request->shared[request->n_shared++] = i;
    }
}
