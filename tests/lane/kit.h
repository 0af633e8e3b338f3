// An engine on the fake target, a log of its launches, and what each request's events left behind.
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include "base/buffer.h"
#include "lane/engine.h"
#include "support/fake_target.h"

enum { KIT_VOCAB = 1000, KIT_CONTEXT = 300, KIT_EOS = 7, KIT_LOG = 20000, KIT_SLOTS = 16 };

struct kit_launch {
    enum lf_fake_kind kind;
    uint32_t n, rows;
    uint32_t slot[KIT_SLOTS], slot_rows[KIT_SLOTS];
    double at; // the clock at its start
};

struct kit {
    struct lf_engine *engine;
    struct lf_target *target;
    bool closed; // the gate: the first launch waits for it
    pthread_mutex_t lock;
    pthread_cond_t opened;
    struct kit_launch *log; // of the engine's thread; read it when everything finished
    uint32_t n_log;
    void (*each)(struct kit *kit, const struct lf_fake_launch *launch); // or NULL
    void *ctx;
    int64_t (*free_bytes)(void *ctx, uint64_t wanted); // of struct lf_machine, or NULL
    void *free_ctx;
};

// What one request's events left behind.
struct heard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct lf_ids ids;
    uint32_t admitted, prefilled, finished, calls, cached;
    bool logprobs_wrong; // a row that is not that of its token
    uint32_t prompt_len; // for that
    enum lf_done why;
    struct lf_stats stats;
    char message[512];
    double first_at; // clock at the first token
    struct kit *kit;
};

// Zeros of the options are defaults; simulated: the engine reads the fake's clock.
void kit_open(struct kit *kit, struct lf_fake_options fake, struct lf_engine_options engine,
              bool simulated);
void kit_gate_open(struct kit *kit); // closed is set before kit_open
void kit_close(struct kit *kit);     // frees the log too
struct lf_request kit_request(const uint32_t *prompt, uint32_t len, uint32_t max_tokens);
void kit_prompt(uint32_t *prompt, uint32_t n, uint32_t salt);
// Request i of a crowd of all kinds, prompts in four families: fills prompt, up to 900 rows.
struct lf_request kit_crowd(uint32_t *prompt, uint32_t i);
void kit_submit(struct kit *kit, uint64_t id, const struct lf_request *request,
                struct heard *heard);
extern const struct lf_sink kit_sink;
void heard_init(struct heard *heard);
void heard_wait(struct heard *heard); // until it finished
void heard_wait_tokens(struct heard *heard, size_t n);
void heard_free(struct heard *heard);
// The reply is what a serial engine gives: n ids after the prompt, seed 42.
void heard_expect(const struct heard *heard, const uint32_t *prompt, uint32_t n, size_t len);
