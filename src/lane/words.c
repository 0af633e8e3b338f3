// Text for embedders: prompts to ids and ids to text, by an open engine's own tokenizer.
#include <string.h>
#include "lane/session.h"

static const struct lf_session *session_of(const struct lf_engine *e) {
    const struct lf_session *s = lf_engine_session(e);
    LF_ASSERT(s);
    return s;
}

enum lf_status lf_engine_encode(const struct lf_engine *e, const char *text, size_t len,
                                struct lf_ids *out, struct lf_error *err) {
    return lf_tokenizer_encode(session_of(e)->tokenizer, text, len, false, out, err);
}

static enum lf_status read_turn(struct lf_message *out, struct lf_part *part,
                                const struct lf_chat_turn *turn, size_t i, struct lf_error *err) {
    static const struct {
        const char *name;
        enum lf_role role;
    } roles[] = {{"system", LF_ROLE_SYSTEM}, {"user", LF_ROLE_USER},
                 {"assistant", LF_ROLE_ASSISTANT}};
    *part = (struct lf_part){.kind = LF_PART_TEXT, .text = turn->content,
                             .len = strlen(turn->content)};
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
        if (strcmp(roles[r].name, turn->role) != 0)
            continue;
        *out = (struct lf_message){.role = roles[r].role, .part = part, .n_parts = 1,
                                   .reasoning = "", .call_id = "", .task = ""};
        return LF_OK;
    }
    return lf_fail(err, LF_E_VALUE, "turn %zu has the role %.40s: expected system, user or "
                                    "assistant", i, turn->role);
}

enum lf_status lf_engine_render(const struct lf_engine *e, const struct lf_chat_turn *turn,
                                size_t n, bool thinking, struct lf_ids *out,
                                struct lf_error *err) {
    const struct lf_session *s = session_of(e);
    struct lf_chat chat = LF_CHAT_DEFAULTS;
    struct lf_prompt prompt = {0};
    struct lf_arena arena = {0};
    size_t before = out->len;
    struct lf_message *message = lf_arena_alloc(&arena, n, sizeof *message);
    struct lf_part *part = lf_arena_alloc(&arena, n, sizeof *part);
    if (!n)
        lf_fail(err, LF_E_VALUE, "the chat has no turns: expected at least one");
    else if (!message || !part)
        lf_fail(err, LF_E_MEM, "out of memory for a chat");
    for (size_t i = 0; i < n && err->status == LF_OK; i++)
        read_turn(&message[i], &part[i], &turn[i], i, err);
    chat.message = message;
    chat.n_messages = n;
    chat.thinking = thinking;
    enum lf_status status = err->status;
    if (status == LF_OK)
        status = lf_prompt_render(&prompt, &chat, err);
    if (status == LF_OK)
        status = lf_prompt_encode(&prompt, s->tokenizer, &s->controls, out, err);
    // A turn that is refused leaves no ids of those before it.
    if (status != LF_OK)
        out->len = before;
    lf_prompt_free(&prompt);
    lf_arena_free(&arena);
    return status;
}

void lf_engine_decode(const struct lf_engine *e, uint32_t id, struct lf_utf8_stream *stream,
                      struct lf_buffer *out) {
    const struct lf_tokenizer *tokenizer = session_of(e)->tokenizer;
    size_t len;
    if (id >= lf_tokenizer_size(tokenizer) || lf_tokenizer_is_added(tokenizer, id))
        return;
    const char *bytes = lf_tokenizer_bytes(tokenizer, id, &len);
    lf_utf8_stream_push(stream, bytes, len, out);
}

struct lf_request lf_engine_request(const struct lf_engine *e, const struct lf_ids *prompt) {
    const struct lf_engine_info *info = lf_engine_info(e);
    uint64_t room = prompt->len < info->context ? info->context - prompt->len : 1;
    struct lf_request request = {
        .prompt = prompt->id,
        .prompt_len = prompt->len < UINT32_MAX ? (uint32_t)prompt->len : UINT32_MAX,
        .max_tokens = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX,
        .sampling = info->sampling,
        .eos = info->eos,
        .n_eos = info->n_eos,
    };
    request.sampling.seed = lf_seed_derive(prompt->id, prompt->len, NULL, 0, 0);
    lf_request_mark(&request, &session_of(e)->controls);
    return request;
}
