// A request inside the engine and the engine's own state; private to lane/.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include "base/buffer.h"
#include "lane/cache.h"
#include "lane/copy.h"
#include "lane/cost.h"
#include "lane/engine.h"
#include "lane/loss.h"
#include "lane/policy.h"
#include "lane/share.h"

// Windows and rows of one launch at most; streams of one company of D-12, the last: that or more.
enum { LF_ROUND_ROWS = 64, LF_COMPANY = 8 };

struct lf_stream {
    uint64_t id;
    struct lf_request request;
    struct lf_sink sink;
    void *ctx;
    bool cancelled;         // guarded by the engine's lock
    struct lf_stream *next; // in the waiting list
    // The rest belongs to the engine thread.
    uint64_t order;    // of arrival
    uint64_t tried;    // the admission pass in which its prompt's storage was refused
    uint32_t passed;   // times later requests went first: into a slot, then for a chunk
    uint32_t slot;
    uint64_t length;   // committed rows
    uint64_t reserved; // positions with storage
    bool paused;       // no storage for its next rows (L-43)
    bool told_admitted, told_prefilled;
    uint32_t vocab;    // ids that a path may force are below it
    uint32_t limit;    // reply tokens at most
    bool window_limit; // the context, not max_tokens, set the limit
    struct lf_cache_pass pass; // boundaries of its prompt, and what the cache keeps of it
    struct lf_cache_wait wait; // in line, for what the cache will have
    uint32_t pending;  // drawn and delivered, its row not run yet
    struct lf_ids reply; // delivered tokens
    uint32_t produced; // tokens drawn since the prompt; below reply.len they are drawn again (L-40)
    uint64_t served;   // number of the newest round it was in
    bool done;
    bool nonfinite; // it failed because a row of its logits was not finite (F-5)
    enum lf_done why;
    char message[512];
    struct lf_stats stats;
    double submitted, started, first_token, last_token; // seconds of the engine's clock
    // Drafting.
    uint32_t company; // streams of the newest round, at most LF_COMPANY; 0: none yet
    struct lf_calibration calibration;
    struct lf_loss loss;
    struct lf_copy copy;
};

// What one decode round works on; allocated once.
struct lf_round {
    uint32_t n, rows; // streams; rows of the launch
    struct lf_stream *stream[LF_ROUND_ROWS];
    struct lf_chain chain[LF_ROUND_ROWS];
    uint32_t depth[LF_ROUND_ROWS], kept[LF_ROUND_ROWS], accepted[LF_ROUND_ROWS];
    uint32_t fresh[LF_ROUND_ROWS]; // committed tokens that were not delivered before
    struct lf_window window[LF_ROUND_ROWS];
    uint32_t tok[LF_ROUND_ROWS], drawn[LF_ROUND_ROWS];
    struct lf_logprob_row logprobs[LF_ROUND_ROWS];
    bool passed[LF_ROUND_ROWS]; // in the draft pass
    uint32_t asked;             // streams of the draft pass
    double pass_seconds;
};

struct lf_session;

// What the engine knows of the memory that is free (room.h).
struct lf_room {
    uint32_t halvings;  // of the largest chunk
    bool asked;         // free_bytes is an answer
    int64_t free_bytes; // at asked_at
    double asked_at;
};

struct lf_engine {
    struct lf_target *target;
    const struct lf_target_info *info;
    struct lf_engine_options options;
    struct lf_machine machine;
    struct lf_session *session; // its own, freed at close; NULL: started over a target
    struct lf_engine_info about;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool closing, over; // over: the engine thread has nothing more to do
    pthread_cond_t gone;
    _Atomic(const char *) doing; // what the engine thread is in, for the report of a wait (F-4)
    double close_at; // running streams end then
    uint64_t arrivals;
    struct lf_stream *waiting, *waiting_last; // foreground before background, each in arrival order
    struct lf_engine_status status;
    struct lf_stream **slot; // [slots] live streams, NULL where free; changed under the lock
    // The rest belongs to the engine thread.
    struct lf_cache *cache;    // NULL: none
    struct lf_stream **sorted; // [slots] scratch
    struct lf_chunk *chunk;    // [slots] scratch
    struct lf_round *round;
    uint64_t rounds, passes; // decode rounds and admission passes so far
    uint32_t device_failures; // in a row
    struct lf_share share;
    struct lf_room room;
    struct lf_cost cost;
    struct lf_calibration calibration[2];        // greedy, sampled
    struct lf_loss ended[2][LF_COMPANY + 1];
};

double lf_engine_now(const struct lf_engine *engine);
// The device is gone: everything fails with the message, new requests are refused (F-3).
void lf_engine_die(struct lf_engine *engine, const char *message);
// A launch failed: its streams end, and a device that fails twice in a row is dead (F-2, F-3).
void lf_engine_launch_failed(struct lf_engine *engine, struct lf_stream **stream, uint32_t n,
                             const struct lf_error *err);

// queue.c, called with the lock held.
void lf_queue_add(struct lf_engine *engine, struct lf_stream *stream, bool first);
void lf_queue_remove(struct lf_engine *engine, struct lf_stream *stream);
// Takes every waiting stream that is to end out of the line; they come back linked by next.
struct lf_stream *lf_queue_take_ended(struct lf_engine *engine, double now);

// admit.c
void lf_slots_admit(struct lf_engine *engine);
void lf_slots_end(struct lf_engine *engine, double now); // marks what was cancelled; lock held
void lf_slots_release(struct lf_engine *engine);
// Gives the slot back and waits in line again; the delivered tokens are drawn again later (L-40).
void lf_slots_yield(struct lf_engine *engine, struct lf_stream *stream);

// stream.c
bool lf_stream_reading(const struct lf_stream *stream);
void lf_stream_end(struct lf_stream *stream, enum lf_done why, const char *message);
// Among those that ended, by who takes it out of its slot or the queue; lock held.
void lf_stream_count(struct lf_engine *engine, const struct lf_stream *stream);
void lf_stream_finish(struct lf_engine *engine, struct lf_stream *stream); // tells and frees
// Storage for positions, ahead of use; LF_E_MEM: not now.
LF_CHECKED enum lf_status lf_stream_reserve(struct lf_engine *engine, struct lf_stream *stream,
                                            uint64_t positions, struct lf_error *err);

// accept.c

// Drafts that equal the draws before them, from the first on (L-4).
uint32_t lf_accept_count(const uint32_t *draft, uint32_t n, const uint32_t *drawn);
// Commits draws, or forced ids in their place (L-6), while drafts agree and nothing stops (L-5).
uint32_t lf_accept_window(struct lf_stream *stream, const uint32_t *draft, uint32_t n,
                          uint32_t *drawn, // [n + 1], forced ids are put in
                          struct lf_logprob_row *rows, // of the draws, or NULL
                          uint32_t *fresh); // tokens that are new to the client
// Hands the newest fresh tokens to the sink; rows: of these tokens, or NULL.
void lf_accept_deliver(struct lf_engine *engine, struct lf_stream *stream, uint32_t fresh,
                       const struct lf_logprob_row *rows);

// path.c

// Puts the id that the path asks for next in the place of a draw, and its value in the row (S-21).
void lf_path_force(struct lf_stream *stream, uint32_t *drawn, struct lf_logprob_row *row);
// Whether the very next token is forced: a draft of it would be for nothing.
bool lf_path_due(const struct lf_stream *stream);
// Puts forced ids into a chain of drafts, and after it as far as room goes.
void lf_path_chain(const struct lf_stream *stream, uint32_t room, struct lf_chain *chain);

// prompt.c: at most one chunk launch; false: none was due.
bool lf_prompt_round(struct lf_engine *engine);

// drafts.c: fills the round's chains and depths.
LF_CHECKED enum lf_status lf_drafts_choose(struct lf_engine *engine, struct lf_round *round,
                                          struct lf_error *err);
// What the round taught: chances, times, losses.
void lf_drafts_learn(struct lf_engine *engine, const struct lf_round *round, double launch_seconds,
                    double seconds);

// round.c: one launch with a window of every decoding stream; false: none could run.
bool lf_decode_round(struct lf_engine *engine);
