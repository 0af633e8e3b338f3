#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/utf8.h"
#include "cli/flags.h"
#include "lane/session.h"
#include "text/chat_json.h"

enum { INPUT_BYTES_MAX = 256 << 20 };

static enum lf_status read_stdin(struct lf_buffer *in, struct lf_error *err) {
    char chunk[65536];
    size_t got;
    while ((got = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        lf_buffer_add(in, chunk, got);
        if (in->failed || in->len > INPUT_BYTES_MAX)
            return lf_fail(err, LF_E_TOO_LARGE, "standard input has more than %d bytes",
                           INPUT_BYTES_MAX);
    }
    lf_buffer_add(in, "", 0);
    return ferror(stdin) ? lf_fail_errno(err, LF_E_IO, "cannot read standard input") : LF_OK;
}

static void print_ids(const struct lf_ids *ids) {
    for (size_t i = 0; i < ids->len; i++)
        printf("%s%u", i ? " " : "", ids->id[i]);
    puts("");
}

// Ids on standard input, separated by white space, commas or brackets, to their text.
static enum lf_status decode(const struct lf_session *s, struct lf_error *err) {
    struct lf_buffer in = {0}, bytes = {0}, text = {0};
    if (read_stdin(&in, err) != LF_OK)
        goto out;
    for (char *at = in.data + strspn(in.data, " \t\r\n,[]"); *at;) {
        char *end;
        unsigned long id = strtoul(at, &end, 10);
        if (end == at || *at == '-' || *at == '+' || id >= lf_tokenizer_size(s->tokenizer)) {
            lf_fail_byte(err, LF_E_VALUE, at - in.data,
                         "byte %td of standard input: expected a token id below %u", at - in.data,
                         lf_tokenizer_size(s->tokenizer));
            goto out;
        }
        size_t len;
        const char *token = lf_tokenizer_bytes(s->tokenizer, (uint32_t)id, &len);
        lf_buffer_add(&bytes, token, len);
        at = end + strspn(end, " \t\r\n,[]");
    }
    lf_utf8_repair(&text, bytes.data ? bytes.data : "", bytes.len);
    fwrite(text.data ? text.data : "", 1, text.len, stdout);
out:
    lf_buffer_free(&in);
    lf_buffer_free(&bytes);
    lf_buffer_free(&text);
    return err->status;
}

static enum lf_status encode(const struct lf_session *s, bool parse_special,
                             struct lf_error *err) {
    struct lf_buffer in = {0};
    struct lf_ids ids = {0};
    if (read_stdin(&in, err) == LF_OK &&
        lf_tokenizer_encode(s->tokenizer, in.data, in.len, parse_special, &ids, err) == LF_OK)
        print_ids(&ids);
    lf_buffer_free(&in);
    lf_ids_free(&ids);
    return err->status;
}

static enum lf_status render(const struct lf_session *s, const char *path, bool show_text,
                             struct lf_error *err) {
    struct lf_buffer body = {0}, text = {0};
    struct lf_ids ids = {0};
    struct lf_arena arena = {0};
    struct lf_chat chat = LF_CHAT_DEFAULTS;
    struct lf_chat_extras extras = {0};
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    struct lf_prompt prompt = {0};
    struct lf_json_span span;
    if (lf_file_read(&body, path, INPUT_BYTES_MAX, err) == LF_OK &&
        lf_json_check(&span, body.data, body.len, 128, err) == LF_OK &&
        lf_chat_from_json(&chat, &extras, &arena, span, &defaults, err) == LF_OK &&
        lf_prompt_render(&prompt, &chat, err) == LF_OK &&
        lf_prompt_encode(&prompt, s->tokenizer, &s->controls, &ids, err) == LF_OK) {
        lf_prompt_print(&text, &prompt);
        if (show_text)
            puts(text.data);
        else
            print_ids(&ids);
    }
    lf_prompt_free(&prompt);
    lf_arena_free(&arena);
    lf_ids_free(&ids);
    lf_buffer_free(&text);
    lf_buffer_free(&body);
    return err->status;
}

enum lf_status lf_command_tokenize(int argc, char **argv, struct lf_error *err) {
    const char *chat = NULL;
    bool decoding = false, text = false, special = false, help = false;
    struct lf_flag flag[] = {
        {.name = "decode", .kind = LF_FLAG_ON, .out = &decoding, .help = "ids to text"},
        {.name = "chat", .kind = LF_FLAG_TEXT, .out = &chat,
         .help = "a JSON file with messages (and tools) to render"},
        {.name = "text", .kind = LF_FLAG_ON, .out = &text,
         .help = "with --chat: print the rendered text, not its ids"},
        {.name = "parse-special", .kind = LF_FLAG_ON, .out = &special,
         .help = "control tokens in the text become their ids"},
        {.name = "help", .kind = LF_FLAG_ON, .out = &help, .help = "this text"},
    };
    struct lf_positionals model;
    struct lf_session session = {0};
    LF_TRY(lf_flags_parse(flag, sizeof flag / sizeof *flag, argc, argv, &model, 1, err));
    if (help) {
        lf_flags_print("tokenize [MODEL] [options]", "Text on standard input to token ids.", flag,
                       sizeof flag / sizeof *flag);
        return LF_OK;
    }
    if (lf_session_open(&session, model.n ? model.value[0] : NULL, NULL, err) != LF_OK)
        ;
    else if (chat)
        render(&session, chat, text, err);
    else if (decoding)
        decode(&session, err);
    else
        encode(&session, special, err);
    lf_session_close(&session);
    return err->status;
}
