#include "bench/ask.h"

#include <stdlib.h>
#include "base/file.h"
#include "base/sha256.h"

enum { IDS_BYTES_MAX = 64 << 20 };

const struct lf_bench_prompt lf_bench_prompt[LF_BENCH_PROMPTS] = {
    {"fibonacci-raw", false,
     "Write a short Python function that computes the Fibonacci sequence and explain it."},
    {"gpu-chat-no-think", true,
     "Explain how matrix multiplication uses a GPU in plain English, then give a small numerical "
     "example."},
};

const struct lf_bench_prompt lf_bench_chat[LF_BENCH_CHATS] = {
    {"fibonacci", true,
     "Write a short Python function that computes the Fibonacci sequence and explain it."},
    {"gpu", true,
     "Explain how matrix multiplication uses a GPU in plain English, then give a small numerical "
     "example."},
    {"capital", true, "What is the capital of Norway?"},
    {"sum", true, "What is 47 + 38? Show the steps."},
    {"haiku", true, "Write a haiku about rain on a tin roof."},
    {"list", true, "Name five rivers of Europe, one a line, in alphabetical order."},
    {"translate", true, "Translate into German: The straight street leads to the old mill."},
    {"json", true, "Give a JSON object with the keys name, age and city for an invented person."},
    {"proof", true, "Why is the square root of two irrational? Answer in three sentences."},
};

const char *lf_ask_route(const struct lf_bench_ask *ask) {
    bool chat = ask->messages || (!ask->ids && ask->prompt->chat);
    return chat ? "/v1/chat/completions" : "/v1/completions";
}

json_t *lf_ask_user(const char *text) {
    return json_pack("[{s:s,s:s}]", "role", "user", "content", text);
}

static void add_prompt(json_t *body, const struct lf_bench_ask *ask) {
    if (ask->ids)
        json_object_set(body, "prompt", ask->ids);
    else if (ask->messages)
        json_object_set(body, "messages", ask->messages);
    else if (ask->prompt->chat)
        json_object_set_new(body, "messages", lf_ask_user(ask->prompt->text));
    else
        json_object_set_new(body, "prompt", json_string(ask->prompt->text));
    if (ask->messages || (!ask->ids && ask->prompt->chat))
        json_object_set_new(body, "chat_template_kwargs",
                            json_pack("{s:b}", "enable_thinking", 0));
}

char *lf_ask_body(const struct lf_bench_ask *ask) {
    json_t *body = json_object();
    json_object_set_new(body, "model", json_string(ask->model));
    add_prompt(body, ask);
    json_object_set_new(body, "max_tokens", json_integer((json_int_t)ask->tokens));
    json_object_set_new(body, "temperature", json_real(ask->temperature));
    if (!ask->no_seed)
        json_object_set_new(body, "seed", json_integer((json_int_t)ask->seed));
    if (!ask->whole) {
        json_object_set_new(body, "stream", json_true());
        json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    }
    json_object_set_new(body, "ignore_eos", json_true());
    if (ask->temperature > 0 && !ask->no_filters) {
        json_object_set_new(body, "top_k", json_integer(20));
        json_object_set_new(body, "top_p", json_real(0.95));
    }
    if (ask->plain)
        json_object_set_new(body, "draft", json_false());
    if (ask->no_cache)
        json_object_set_new(body, "cache_prompt", json_false());
    if (ask->logprobs) {
        json_object_set_new(body, "logprobs", json_true());
        json_object_set_new(body, "top_logprobs", json_integer(20));
    }
    // A field lost to a failed allocation would measure another request.
    size_t wanted = 5 + (ask->messages || (!ask->ids && ask->prompt->chat)) + !ask->no_seed +
                    2 * !ask->whole + 2 * (ask->temperature > 0 && !ask->no_filters) + ask->plain +
                    ask->no_cache + 2 * ask->logprobs;
    char *text = json_object_size(body) == wanted ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

enum lf_status lf_ask_read_ids(json_t **ids, char hex[65], const char *path,
                               struct lf_error *err) {
    struct lf_buffer text = {0};
    json_error_t at;
    json_t *list = NULL;
    LF_TRY(lf_file_read(&text, path, IDS_BYTES_MAX, err));
    struct lf_sha256 sha;
    uint8_t digest[32];
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, text.data ? text.data : "", text.len);
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
    list = json_loadb(text.data ? text.data : "", text.len, 0, &at);
    lf_buffer_free(&text);
    if (!json_is_array(list) || !json_array_size(list)) {
        json_decref(list);
        return lf_fail(err, LF_E_FORMAT, "%s: expected a JSON array of token ids", path);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > UINT32_MAX) {
            json_decref(list);
            return lf_fail(err, LF_E_FORMAT, "%s: element %zu is not a token id", path, i);
        }
    }
    *ids = list;
    return LF_OK;
}
