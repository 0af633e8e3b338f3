// A model being opened, step by step: its files, the memory plan, weights and target.
#pragma once
#include "format/checkpoint.h"
#include "format/generation.h"
#include "lane/memory.h"
#include "lanefold.h"
#include "model/target.h"
#include "text/chat.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

struct lf_session {
    char folder[4096];
    struct lf_checkpoint *checkpoint;
    const struct lf_topology *topology;
    struct lf_tokenizer *tokenizer; // NULL: none, see text_optional
    struct lf_controls controls;
    struct lf_token_map map;
    struct lf_generation generation;
    bool text_optional; // set before opening: made-up weights may come without tokenizer.json
    struct lf_place place;
    struct lf_memory memory; // once planned
};

// model NULL: the demo; options NULL: the defaults. Closed also when it was not opened whole.
LF_CHECKED enum lf_status lf_session_open(struct lf_session *session, const char *model,
                                          const struct lf_engine_options *options,
                                          struct lf_error *err);
// Reads the memory budget first, then opens the files and plans; the plan may not fit.
LF_CHECKED enum lf_status lf_session_plan(struct lf_session *session, const char *model,
                                          const struct lf_engine_options *options,
                                          struct lf_error *err);
// Weights and slots, after a plan that fits (M-3); the thread's new pages then lie as placed.
LF_CHECKED enum lf_status lf_session_load(struct lf_session *session, const char *isa,
                                          struct lf_target **out, struct lf_error *err);
void lf_session_close(struct lf_session *session);
// The last part of the folder's path.
const char *lf_session_name(const struct lf_session *session);
// That of an engine opened by lf_engine_open, lent until it closes; NULL: started on a target.
const struct lf_session *lf_engine_session(const struct lf_engine *engine);
