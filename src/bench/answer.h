// A reply as the client saw it: pieces with their times, counters, digests; and its evidence.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/clock.h"
#include "base/buffer.h"

enum { LF_ANSWER_LINE_MAX = 64 << 10, LF_ANSWER_BODY_MAX = 16 << 20, LF_ANSWER_PIECES_MIN = 4 };

struct lf_answer_piece {
    double at_s;
    uint32_t chars;
};

struct lf_answer {
    bool complete;     // [DONE] arrived, or a whole body that is not streamed
    const char *error; // a short code, NULL when nothing went wrong
    char detail[160];  // for the terminal, never for a report
    int64_t prompt_tokens, cached_tokens, tokens; // -1: unknown
    int64_t drafted, accepted, rounds, plain_rounds;
    char token_sha[65], output_sha[65]; // "": unknown
    double sent_s, first_s, last_s;     // client clock
    double ttft_s, decode_tps;          // NAN: unmeasured
    struct lf_answer_piece *piece;
    size_t pieces, piece_cap;
    struct lf_buffer content, reasoning;
    struct lf_buffer body; // of a reply that is not streamed
    struct lf_buffer line; // of a stream, until its end arrives
    size_t body_bytes;
};

enum lf_answer_equal { LF_ANSWER_EQUAL, LF_ANSWER_UNEQUAL, LF_ANSWER_UNVERIFIED };

void lf_answer_init(struct lf_answer *reply);
void lf_answer_free(struct lf_answer *reply);
// The first error of a reply stays.
void lf_answer_fail(struct lf_answer *reply, const char *code, const char *detail);
// Takes bytes of an event stream as they came from the network; false ends the transfer.
bool lf_answer_feed(struct lf_answer *reply, const char *bytes, size_t len, double now_s);
// Takes the whole body of a reply that is not streamed.
void lf_answer_whole(struct lf_answer *reply);
// After the last byte: digests, rates and the check of the counted tokens.
void lf_answer_finish(struct lf_answer *reply, uint64_t tokens_asked);

const char *lf_answer_cache_state(const struct lf_answer *reply);
bool lf_answer_failed(const struct lf_answer *reply); // an error or an incomplete stream
bool lf_answer_measured(const struct lf_answer *reply);
enum lf_answer_equal lf_answer_compare(const struct lf_answer *a, const struct lf_answer *b);
// The fields of bench.md section 1.3.
json_t *lf_answer_evidence(const struct lf_answer *reply);
