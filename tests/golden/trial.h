// A prompt's goldens beside the model: the stages, each fed the stored inputs, and the whole pass.
#pragma once
#include "golden.h"
#include "model/v41.h"
#include "report.h"

struct lf_trial {
    struct lf_demo *demo;
    struct lf_v41 *m;
    struct lf_golden *g;
    struct lf_report *report;
};

// Chooses the column of kernels that the program tests: column_cpu.c, column_cuda.c.
void lf_trial_column(struct lf_model_options *options);
// Fills the call with the golden's points, each a row of its own: stages that read no other row.
void lf_trial_points(struct lf_trial *t);
// Fills the call with every row of the prompt, logits wanted at the points.
void lf_trial_rows(struct lf_trial *t);

// A refused call ends the program.
void lf_trial_must(enum lf_status status, const struct lf_error *err);
// The prompt through the target's own calls, with room for the stored continuation.
void lf_trial_prefill(struct lf_trial *t, struct lf_target *target);

void lf_trial_streams(struct lf_trial *t);   // embedding, mixes, collapse, expand, Engram, head
void lf_trial_experts(struct lf_trial *t);   // ffn_in to router and ffn_out
void lf_trial_maps(struct lf_trial *t);      // attn_in to keys and queries, o to attn_out
void lf_trial_attention(struct lf_trial *t); // every row's attn_in to caches, selection and o

void lf_trial_drafts(struct lf_trial *t);    // taps to context rows, those to a pass of the drafter
void lf_trial_rounds(struct lf_trial *t);    // the stored drafting rounds, end to end

void lf_trial_prompt(struct lf_trial *t);    // the request to prompt_ids

// The distances of one whole pass from the float64 goldens.
struct lf_logit_gap {
    double ours, reference, stated; // means of |logit - f64.logits|; stated: over all rows
};
struct lf_logit_gap lf_trial_whole(struct lf_trial *t);
// Greedy ids through the target's own calls.
void lf_trial_greedy(struct lf_trial *t, enum lf_isa isa);
