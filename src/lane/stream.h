// A request inside the engine: waiting, reading its prompt, or decoding in a slot.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include "base/buffer.h"
#include "lane/engine.h"

struct lf_stream {
    uint64_t id;
    struct lf_request request;
    struct lf_sink sink;
    void *ctx;
    bool cancelled;         // guarded by the engine's lock
    struct lf_stream *next; // in the waiting list
    // The rest belongs to the engine thread.
    uint32_t slot;
    uint64_t length;   // committed rows
    uint64_t reserved; // positions with storage
    uint32_t limit;    // reply tokens at most
    bool window_limit; // the context, not max_tokens, set the limit
    struct lf_bound end; // the prompt's end, with logits
    uint32_t pending;  // drawn and delivered, its row not run yet
    struct lf_logprob_row logprobs; // of the newest draw, where they are wanted
    struct lf_ids reply;
    bool done;
    enum lf_done why;
    char message[512];
    struct lf_stats stats;
    double submitted, started, first_token, last_token; // seconds of lf_seconds
};

struct lf_engine {
    struct lf_target *target;
    const struct lf_target_info *info;
    struct lf_engine_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool closing;
    double close_at; // running streams end then, seconds of lf_seconds
    struct lf_stream *waiting, *waiting_last; // foreground before background, each in arrival order
    struct lf_engine_status status;
    struct lf_stream **slot; // [slots] live streams, NULL where free; changed under the lock
};

double lf_seconds(void);
// One prompt chunk of a stream; at its start tells the sink, at its end draws the first token.
void lf_round_prefill(struct lf_engine *engine, struct lf_stream *stream);
// One launch with a window of every decoding stream (engine.md 2).
void lf_round_decode(struct lf_engine *engine);
bool lf_stream_reading(const struct lf_stream *stream);
