// What the commands share: finding and opening MODEL with its tokenizer, token map and target.
#pragma once
#include "cli/flags.h"
#include "format/checkpoint.h"
#include "format/generation.h"
#include "lane/engine.h"
#include "model/model.h"
#include "text/chat.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

// The flags that say where and how a model runs, and their targets.
struct lf_session_flags {
    const char *isa, *device;
    uint64_t threads, context, parallel, chunk_rows;
    bool no_drafts; // the checkpoint's drafter is not loaded
};
#define LF_SESSION_FLAGS_INIT {.isa = "auto", .device = "auto", .parallel = 1}

// The flag rows of lf_session_flags, to stand in a command's table.
#define LF_SESSION_FLAG_ROWS(f)                                                                    \
    {.name = "device", .kind = LF_FLAG_TEXT, .out = &(f).device, .choices = "auto|cpu",            \
     .help = "where it runs"},                                                                     \
        {.name = "threads", .kind = LF_FLAG_COUNT, .out = &(f).threads, .min = 1, .max = 1024,     \
         .help = "CPU threads; default: all cores"},                                               \
        {.name = "isa", .kind = LF_FLAG_TEXT, .out = &(f).isa,                                     \
         .choices = "auto|portable|avx2", .help = "CPU kernels; the bits do not depend on it"},    \
        {.name = "context", .kind = LF_FLAG_COUNT, .out = &(f).context, .min = 1, .max = 1048576,  \
         .help = "positions of a request; default: the model's, of serve what fits"}

struct lf_session {
    char folder[4096];
    struct lf_checkpoint *checkpoint;
    const struct lf_topology *topology;
    struct lf_tokenizer *tokenizer;
    struct lf_controls controls;
    struct lf_token_map map;
    struct lf_target *target; // NULL once an engine owns it
    struct lf_generation generation;
};

// model NULL: the demo. Opens checkpoint and tokenizer.
LF_CHECKED enum lf_status lf_session_open(struct lf_session *session, const char *model,
                                          struct lf_error *err);
// Adds the token map and the target.
LF_CHECKED enum lf_status lf_session_load(struct lf_session *session,
                                          const struct lf_session_flags *flags,
                                          struct lf_error *err);
void lf_session_close(struct lf_session *session);
// The last part of the folder's path.
const char *lf_session_name(const struct lf_session *session);
