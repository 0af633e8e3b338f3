// Fuzzes the reply parser with ids of the demo vocabulary; run from the root of the repository.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/utf8.h"
#include "text/reply.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct lf_tokenizer *tokenizer;
static struct lf_controls controls;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    struct lf_error err = LF_ERROR_INIT;
    (void)argc;
    (void)argv;
    LF_ASSERT(lf_tokenizer_open(&tokenizer, "models/demo/tokenizer.json", &err) == LF_OK);
    LF_ASSERT(lf_controls_find(&controls, tokenizer, 1, 2292, &err) == LF_OK);
    return 0;
}

struct seen {
    uint32_t calls;
    bool open, content;
    struct lf_buffer arguments;
};

static void check_arguments(const struct lf_buffer *text) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span value;
    LF_ASSERT(lf_json_check(&value, text->data, text->len, LF_JSON_DEPTH_MAX, &err) == LF_OK);
    LF_ASSERT(lf_json_type(value) == LF_JSON_OBJECT);
}

static void see(void *ctx, const struct lf_reply_event *event) {
    struct seen *seen = ctx;
    LF_ASSERT(lf_utf8_valid(event->text, event->len) == event->len);
    if (event->kind == LF_REPLY_REASONING) {
        LF_ASSERT(event->len && !seen->content && !seen->calls);
    } else if (event->kind == LF_REPLY_CONTENT) {
        LF_ASSERT(event->len && !seen->calls);
        seen->content = true;
    } else if (event->kind == LF_REPLY_CALL_OPEN) {
        LF_ASSERT(event->index == seen->calls++ && !seen->open && event->space);
        seen->open = true;
        lf_buffer_clear(&seen->arguments);
    } else {
        LF_ASSERT(seen->open && event->index == seen->calls - 1);
        lf_buffer_add(&seen->arguments, event->text, event->len);
        seen->open = event->kind == LF_REPLY_ARGUMENTS;
        if (event->kind == LF_REPLY_CALL_CLOSE && event->complete)
            check_arguments(&seen->arguments);
    }
}

// A byte pair is an id; a first byte of 0x80 and more makes a control or markup.
static void push_all(struct lf_reply *reply, const uint8_t *bytes, size_t len) {
    static const char *const parts[] = {
        "<", "</", "\n", "\n\n", ">", " calls>", " invoke name=\"f\">", " invoke>", " parameter>",
        " parameter name=\"x\" string=\"true\">", " parameter name=\"y\" string=\"false\">", "END",
    };
    for (size_t i = 0; i + 1 < len; i += 2) {
        if (bytes[i] >= 0xC0) {
            const char *part = parts[bytes[i + 1] % (sizeof parts / sizeof *parts)];
            struct lf_ids ids = {0};
            struct lf_error err = LF_ERROR_INIT;
            LF_ASSERT(lf_tokenizer_encode(tokenizer, part, strlen(part), false, &ids, &err) ==
                      LF_OK);
            for (size_t j = 0; j < ids.len; j++)
                lf_reply_push(reply, ids.id[j]);
            lf_ids_free(&ids);
        } else if (bytes[i] >= 0x80) {
            lf_reply_push(reply, (uint32_t)controls.id[bytes[i + 1] % LF_CONTROLS]);
        } else {
            lf_reply_push(reply, (uint32_t)bytes[i] << 8 | bytes[i + 1]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    static const char *const stops[] = {"END", "\n\n", "é", "<|"};
    if (!len)
        return 0;
    struct lf_reply_options options = {
        .tools = bytes[0] & 1, .in_reasoning = bytes[0] & 2, .parallel_calls = bytes[0] & 4,
        .stop_in_reasoning = bytes[0] & 8, .include_stop = bytes[0] & 16, .stop = stops,
        .n_stops = bytes[0] & 32 ? 4 : 0,
    };
    struct seen seen = {0};
    struct lf_reply *reply;
    struct lf_error err = LF_ERROR_INIT;
    LF_ASSERT(lf_reply_open(&reply, tokenizer, &controls, &options, see, &seen, &err) == LF_OK);
    push_all(reply, bytes + 1, len - 1);
    lf_reply_end(reply, bytes[0] & 64);
    LF_ASSERT(!lf_reply_failed(reply) && !seen.open && lf_reply_calls(reply) == seen.calls);
    lf_reply_close(reply);
    lf_buffer_free(&seen.arguments);
    return 0;
}
