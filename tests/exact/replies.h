// Whole replies of an engine over the demo model, and prompts of the demo's evaluation.
#pragma once
#include "exact.h"
#include "lane/kit.h"

enum { LF_REPLY_MAX = 16 };

struct lf_reply {
    uint32_t id[LF_REPLY_MAX], n;
    struct lf_stats stats;
};

struct lf_eval_prompt {
    uint32_t *id, n;
    const char *kind; // of the file
};
// Up to n text prompts of at most rows_max ids, spread over the file; returns how many.
uint32_t lf_eval_read(struct lf_eval_prompt *out, uint32_t n, uint32_t rows_max);
void lf_eval_free(struct lf_eval_prompt *prompt, uint32_t n);

struct lf_engine *lf_reply_engine(struct lf_target *target,
                                  const struct lf_engine_options *options);
// Submits n requests for the prompt at once, one a rule, and waits for all of them.
void lf_reply_all(struct lf_engine *engine, const struct lf_eval_prompt *prompt,
                  const struct lf_sampling *rule, uint32_t n, struct lf_reply *out);
// Of a planted difference too: fails naming what.
void lf_reply_same(const char *what, const struct lf_reply *got, const struct lf_reply *want);
