// Fuzzes a chat body on its way to a prompt: the JSON check, the reader, the renderer, the printer.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "text/chat_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_prompt(const struct lf_prompt *prompt) {
    size_t images = 0;
    LF_ASSERT(prompt->n_segments && prompt->segment[0].control);
    LF_ASSERT(prompt->segment[0].id == LF_CONTROL_BOS);
    for (size_t i = 0; i < prompt->n_segments; i++) {
        const struct lf_segment *segment = &prompt->segment[i];
        LF_ASSERT(segment->control || (segment->len && (!i || segment[-1].control)));
        images += segment->control && segment->id == LF_CONTROL_IMAGE;
    }
    LF_ASSERT(images == prompt->n_images);
}

// What the printer writes is JSON that it writes the same way again.
static void check_printer(struct lf_json_span value) {
    struct lf_buffer once = {0}, twice = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span again;
    lf_json_print(&once, value);
    if (lf_json_check(&again, once.data, once.len, 128, &err) == LF_OK) {
        lf_json_print(&twice, again);
        LF_ASSERT(once.len == twice.len && !memcmp(once.data, twice.data, once.len));
    } else {
        LF_ASSERT(strstr(once.data, "Infinity"));
    }
    lf_buffer_free(&once);
    lf_buffer_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span body;
    defaults.tasks = len & 1;
    if (lf_json_check(&body, (const char *)bytes, len, 128, &err) != LF_OK) {
        LF_ASSERT(err.status == LF_E_JSON && err.byte >= 0 && (size_t)err.byte <= len);
        return 0;
    }
    check_printer(body);
    struct lf_chat chat;
    struct lf_chat_extras extras;
    struct lf_arena arena = {0};
    struct lf_prompt prompt;
    if (lf_chat_from_json(&chat, &extras, &arena, body, &defaults, &err) == LF_OK &&
        lf_prompt_render(&prompt, &chat, &err) == LF_OK) {
        struct lf_buffer printed = {0};
        check_prompt(&prompt);
        lf_prompt_print(&printed, &prompt);
        LF_ASSERT(printed.len);
        lf_buffer_free(&printed);
        lf_prompt_free(&prompt);
    } else {
        LF_ASSERT(err.status != LF_OK && err.text[0]);
    }
    lf_arena_free(&arena);
    return 0;
}
