// Answers a message; built by: cc chat.c -o chat $(pkg-config --cflags --libs lanefold)
#include <lanefold.h>
#include <semaphore.h>
#include <stdio.h>

// What the engine's thread writes while main waits for done.
struct reply {
    const struct lf_engine *engine;
    struct lf_utf8_stream stream;
    struct lf_buffer text;
    enum lf_done why;
    struct lf_stats stats;
    char message[256];
    sem_t done;
};

static void print_text(struct reply *reply) {
    if (reply->text.len)
        fwrite(reply->text.data, 1, reply->text.len, stdout);
    fflush(stdout);
    lf_buffer_clear(&reply->text);
}

static void on_tokens(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                      const struct lf_logprob_row *rows) {
    struct reply *reply = ctx;
    (void)id, (void)rows;
    for (uint32_t i = 0; i < n; i++)
        lf_engine_decode(reply->engine, token[i], &reply->stream, &reply->text);
    print_text(reply);
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct reply *reply = ctx;
    (void)id;
    lf_utf8_stream_end(&reply->stream, &reply->text);
    print_text(reply);
    reply->why = why;
    reply->stats = *stats;
    snprintf(reply->message, sizeof reply->message, "%s", message);
    sem_post(&reply->done);
}

static enum lf_status answer(struct lf_engine *engine, const char *text, struct lf_error *err) {
    static const struct lf_sink sink = {.tokens = on_tokens, .finished = on_finished};
    struct lf_chat_turn turn = {.role = "user", .content = text};
    struct reply reply = {.engine = engine};
    struct lf_ids prompt = {0};
    enum lf_status status = lf_engine_render(engine, &turn, 1, false, &prompt, err);
    sem_init(&reply.done, 0, 0);
    if (status == LF_OK) {
        struct lf_request request = lf_engine_request(engine, &prompt);
        status = lf_engine_submit(engine, 1, &request, &sink, &reply, err);
    }
    if (status == LF_OK) {
        const struct lf_stats *s = &reply.stats;
        sem_wait(&reply.done);
        if (reply.why == LF_DONE_FAILED)
            printf("\nfailed: %s", reply.message);
        printf("\n%u + %u tokens, first after %.3f s, then %.1f a second, sha256 %s\n",
               s->prompt_tokens, s->completion_tokens, s->time_to_first_token,
               s->tokens_per_second, s->token_sha256);
    }
    sem_destroy(&reply.done);
    lf_buffer_free(&reply.text);
    lf_ids_free(&prompt);
    return status;
}

int main(int argc, char **argv) {
    struct lf_engine_options options = LF_ENGINE_OPTIONS_INIT;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_engine *engine;
    if (argc < 2) {
        fprintf(stderr, "usage: chat MESSAGE [MODEL]\n");
        return 2;
    }
    options.parallel = 1;
    options.drafts = LF_DRAFTS_OFF; // starts at once: nothing is timed first
    if (lf_engine_open(&engine, argc > 2 ? argv[2] : NULL, &options, &err) == LF_OK) {
        enum lf_status status = answer(engine, argv[1], &err);
        lf_engine_close(engine, 0);
        if (status == LF_OK)
            return 0;
    }
    fprintf(stderr, "chat: %s\n", err.text);
    return 1;
}
