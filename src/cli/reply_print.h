// Runs one request on an engine and prints its reply on the terminal as it comes.
#pragma once
#include "cli/engine_flags.h"
#include "lane/session.h"
#include "text/reply.h"

struct lf_reply_text {
    struct lf_buffer reasoning, content, calls; // what was shown, calls one a line
    struct lf_ids ids;
    enum lf_done why;
    struct lf_stats stats;
};

// raw: no parsing, all text is content. quiet: nothing is printed. Ctrl-C cancels the reply.
LF_CHECKED enum lf_status lf_reply_run(struct lf_reply_text *out, struct lf_engine *engine,
                                       const struct lf_session *session,
                                       const struct lf_request *request,
                                       const struct lf_reply_options *options, bool raw, bool quiet,
                                       struct lf_error *err);
void lf_reply_text_free(struct lf_reply_text *text);
