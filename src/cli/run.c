#include "cli/command.h"

#include <editline/readline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/reply_print.h"
#include "lane/session.h"
#include "text/json_text.h"

enum { TURNS_MAX = 512 };

struct run_flags {
    struct lf_engine_flags engine;
    const char *prompt, *effort;
    uint64_t max_tokens, seed, top_k;
    double temperature, top_p, min_p;
    bool raw, json, thinking, help, seed_given;
};

struct run {
    struct run_flags f;
    struct lf_engine *engine;
    const struct lf_session *session; // the engine's
    struct lf_sampling sampling;
    struct lf_message turn[TURNS_MAX];
    struct lf_part part[TURNS_MAX];
    size_t n_turns;
    struct lf_arena arena;
    int effort;
};

static enum lf_status add_turn(struct run *r, enum lf_role role, const char *text, size_t len,
                               struct lf_error *err) {
    if (r->n_turns == TURNS_MAX)
        return lf_fail(err, LF_E_TOO_LARGE, "the chat has %d turns: start a new one", TURNS_MAX);
    char *copy = lf_arena_copy(&r->arena, text, len);
    if (!copy)
        return lf_fail(err, LF_E_MEM, "out of memory for the chat");
    r->part[r->n_turns] = (struct lf_part){.kind = LF_PART_TEXT, .text = copy, .len = len};
    r->turn[r->n_turns] = (struct lf_message){.role = role, .part = &r->part[r->n_turns],
                                              .n_parts = 1, .reasoning = "", .call_id = "",
                                              .task = ""};
    r->n_turns++;
    return LF_OK;
}

// The ids of what is to be answered, and how its reply is to be parsed.
static enum lf_status encode(struct run *r, struct lf_ids *ids, struct lf_reply_options *options,
                             struct lf_error *err) {
    if (r->f.raw) {
        lf_ids_add(ids, r->session->topology->bos_id);
        return lf_tokenizer_encode(r->session->tokenizer, r->f.prompt, strlen(r->f.prompt), false,
                                   ids, err);
    }
    struct lf_chat chat = LF_CHAT_DEFAULTS;
    struct lf_prompt prompt = {0};
    chat.message = r->turn;
    chat.n_messages = r->n_turns;
    chat.thinking = r->f.thinking;
    chat.effort = r->effort;
    if (lf_prompt_render(&prompt, &chat, err) == LF_OK &&
        lf_prompt_encode(&prompt, r->session->tokenizer, &r->session->controls, ids, err) == LF_OK)
        options->in_reasoning = prompt.in_reasoning;
    lf_prompt_free(&prompt);
    return err->status;
}

static void print_json(const struct lf_ids *prompt, const struct lf_reply_text *reply) {
    struct lf_buffer out = {0};
    lf_buffer_add_text(&out, "{\"content\":");
    lf_json_print_string(&out, reply->content.data ? reply->content.data : "", reply->content.len);
    lf_buffer_add_text(&out, ",\"reasoning\":");
    lf_json_print_string(&out, reply->reasoning.data ? reply->reasoning.data : "",
                         reply->reasoning.len);
    lf_buffer_add_text(&out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < prompt->len; i++)
        lf_buffer_printf(&out, "%s%u", i ? "," : "", prompt->id[i]);
    lf_buffer_add_text(&out, "],\"token_ids\":[");
    for (size_t i = 0; i < reply->ids.len; i++)
        lf_buffer_printf(&out, "%s%u", i ? "," : "", reply->ids.id[i]);
    const struct lf_stats *s = &reply->stats;
    lf_buffer_printf(&out,
                     "],\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u},"
                     "\"seed\":\"%llu\",\"prefill_seconds\":%.6f,\"decode_seconds\":%.6f,"
                     "\"token_sha256\":\"%s\"}",
                     s->prompt_tokens, s->completion_tokens, (unsigned long long)s->seed,
                     s->prefill_seconds, s->decode_seconds, s->token_sha256);
    puts(out.data);
    lf_buffer_free(&out);
}

static enum lf_status answer(struct run *r, struct lf_reply_text *reply, struct lf_error *err) {
    struct lf_ids ids = {0};
    struct lf_reply_options options = {.parallel_calls = true};
    if (encode(r, &ids, &options, err) == LF_OK) {
        uint32_t reply_max = r->f.thinking && !r->f.raw ? 65536 : 8192;
        struct lf_request request = {
            .prompt = ids.id, .prompt_len = (uint32_t)ids.len,
            .max_tokens = r->f.max_tokens ? (uint32_t)r->f.max_tokens : reply_max,
            .max_explicit = r->f.max_tokens != 0, .sampling = r->sampling,
            .eos = &r->session->topology->eos_id, .n_eos = 1};
        request.sampling.seed =
            r->f.seed_given ? r->f.seed : lf_seed_derive(ids.id, ids.len, NULL, 0, 0);
        if (lf_reply_run(reply, r->engine, r->session, &request, &options, r->f.raw, r->f.json,
                         err) != LF_OK)
            fflush(stdout);
        else if (r->f.json)
            print_json(&ids, reply);
        else
            puts("");
    }
    lf_ids_free(&ids);
    return err->status;
}

static enum lf_status chat_loop(struct run *r, struct lf_error *err) {
    char *line;
    while (err->status == LF_OK && (line = readline("> "))) {
        struct lf_reply_text reply = {0};
        if (*line && add_turn(r, LF_ROLE_USER, line, strlen(line), err) == LF_OK) {
            add_history(line);
            if (answer(r, &reply, err) == LF_OK) {
                enum lf_status added =
                    add_turn(r, LF_ROLE_ASSISTANT, reply.content.data ? reply.content.data : "",
                             reply.content.len, err);
                struct lf_message *turn = &r->turn[r->n_turns - 1];
                turn->reasoning =
                    lf_arena_copy(&r->arena, reply.reasoning.data, reply.reasoning.len);
                turn->reasoning_len = reply.reasoning.len;
                if (added == LF_OK && !turn->reasoning)
                    lf_fail(err, LF_E_MEM, "out of memory for the chat");
            } else if (err->status == LF_E_CONTEXT) {
                // A chat that outgrew the context says so and starts over.
                printf("%s\nThe chat starts over.\n", err->text);
                r->n_turns = 0;
                *err = (struct lf_error)LF_ERROR_INIT;
            }
        }
        lf_reply_text_free(&reply);
        free(line);
    }
    return err->status;
}

static enum lf_status run(struct run *r, const char *model, struct lf_error *err) {
    struct lf_reply_text reply = {0};
    struct lf_engine_options options = lf_engine_flags_single(&r->f.engine);
    LF_TRY(lf_engine_flags_dummy(&options, &r->f.engine, err));
    LF_TRY(lf_engine_open(&r->engine, model, &options, err));
    r->session = lf_engine_session(r->engine);
    const struct lf_sampling *own = &lf_engine_info(r->engine)->sampling;
    r->sampling = (struct lf_sampling){
        .temperature = r->f.temperature >= 0 ? r->f.temperature : own->temperature,
        .top_p = r->f.top_p >= 0 ? r->f.top_p : own->top_p,
        .min_p = r->f.min_p >= 0 ? r->f.min_p : own->min_p,
        .top_k = r->f.top_k ? (int64_t)r->f.top_k : own->top_k};
    if (!r->f.prompt)
        return chat_loop(r, err);
    if (r->f.raw || add_turn(r, LF_ROLE_USER, r->f.prompt, strlen(r->f.prompt), err) == LF_OK)
        answer(r, &reply, err);
    lf_reply_text_free(&reply);
    return err->status;
}

static const char usage[] = "run [MODEL] [-p TEXT] [options]";

enum lf_status lf_command_run(int argc, char **argv, struct lf_error *err) {
    static struct run r;
    r = (struct run){.f = {.engine = LF_ENGINE_FLAGS_INIT, .temperature = -1, .top_p = -1,
                           .min_p = -1, .thinking = true}, .effort = 75};
    struct run_flags *f = &r.f;
    struct lf_flag flag[] = {
        {.name = "prompt", .kind = LF_FLAG_TEXT, .out = &f->prompt,
         .help = "the text to answer (also -p); without it, a chat"},
        {.name = "raw", .kind = LF_FLAG_ON, .out = &f->raw, .help = "no chat encoding"},
        {.name = "json", .kind = LF_FLAG_ON, .out = &f->json,
         .help = "print ids, usage and token_sha256 as JSON"},
        {.name = "max-tokens", .kind = LF_FLAG_COUNT, .out = &f->max_tokens, .min = 1,
         .max = 1048576, .help = "reply limit"},
        {.name = "temperature", .kind = LF_FLAG_REAL, .out = &f->temperature, .max = 2,
         .help = "0 is greedy"},
        {.name = "top-p", .kind = LF_FLAG_REAL, .out = &f->top_p, .max = 1, .help = "nucleus"},
        {.name = "top-k", .kind = LF_FLAG_COUNT, .out = &f->top_k, .max = 2147483647,
         .help = "0 is off"},
        {.name = "min-p", .kind = LF_FLAG_REAL, .out = &f->min_p, .max = 1,
         .help = "least share of the likeliest"},
        {.name = "seed", .kind = LF_FLAG_COUNT, .out = &f->seed, .max = 9007199254740992,
         .help = "default: derived from the prompt"},
        {.name = "thinking", .kind = LF_FLAG_ON, .out = &f->thinking, .help = "default"},
        {.name = "no-thinking", .kind = LF_FLAG_OFF, .out = &f->thinking, .help = "chat mode"},
        {.name = "reasoning-effort", .kind = LF_FLAG_TEXT, .out = &f->effort,
         .help = "low, high, max or 1 to 100"},
        LF_ENGINE_FLAG_ROWS(f->engine),
        {.name = "help", .kind = LF_FLAG_ON, .out = &f->help, .help = "this text"},
    };
    size_t n = sizeof flag / sizeof *flag;
    struct lf_positionals model;
    bool off = false;
    LF_TRY(lf_flags_parse(flag, n, argc, argv, &model, 1, err));
    if (f->help) {
        lf_flags_print(usage, "One reply on the terminal, or a chat without -p.", flag, n);
        return LF_OK;
    }
    if (f->effort && lf_effort_parse(&r.effort, &off, f->effort, err) != LF_OK)
        return err->status = LF_E_USAGE;
    if (f->raw && !f->prompt)
        return lf_fail(err, LF_E_USAGE, "--raw needs -p TEXT");
    f->thinking = f->thinking && !off;
    f->seed_given = lf_flag_given(flag, n, "seed");
    enum lf_status status = run(&r, model.n ? model.value[0] : NULL, err);
    if (!lf_engine_close(r.engine, 0))
        status = lf_fail(err, LF_E_DEVICE, "the device does not give the engine back");
    lf_arena_free(&r.arena);
    return status;
}
