// Reads the conversation of a chat-completions body (api.md 6.1 and 7, prompts.md 3, 4 and 9).
#pragma once
#include "text/chat.h"

// What the server was started with, and what the model's name asks for.
struct lf_chat_defaults {
    bool thinking;
    int effort;         // 1 .. 100
    int alias_thinking; // 1 on, 0 off, -1: the name says nothing (prompts.md 3, item 4)
    bool tasks;         // the release's task fields count; otherwise they are ignored
    bool strict_tools;  // a hosted tool is refused instead of dropped
};
#define LF_CHAT_SERVER_DEFAULTS {.thinking = true, .effort = 75, .alias_thinking = -1}

struct lf_chat_extras {
    const char **dropped; // types of hosted tools that are left out of the prompt
    size_t n_dropped;
    const char **custom; // rendered names of free-text tools: their calls carry one string, input
    size_t n_customs;
    bool parallel_calls;
};

// body is checked JSON and must outlive the chat, which points into it and into arena.
LF_CHECKED enum lf_status lf_chat_from_json(struct lf_chat *out, struct lf_chat_extras *extras,
                                            struct lf_arena *arena, struct lf_json_span body,
                                            const struct lf_chat_defaults *defaults,
                                            struct lf_error *err);
