#include "trial.h"

#include <stdio.h>
#include <string.h>

static const char *const prompts[] = {"think", "text",   "chat", "code",
                                      "turns", "recall", "tool", "result"};
enum { PROMPTS = sizeof prompts / sizeof *prompts, CONTEXT = 1536 };

struct options {
    bool stages, ends, expect_red;
    const char *prompt; // NULL: all
    enum lf_isa isa;
};

static int usage(void) {
    fprintf(stderr, "usage: golden stages|ends|all [--prompt NAME] [--isa NAME] [--expect-red]\n");
    return 2;
}

static bool parse(struct options *o, int argc, char **argv) {
    struct lf_error err = LF_ERROR_INIT;
    if (argc < 2)
        return false;
    o->stages = !strcmp(argv[1], "stages") || !strcmp(argv[1], "all");
    o->ends = !strcmp(argv[1], "ends") || !strcmp(argv[1], "all");
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--expect-red"))
            o->expect_red = true;
        else if (!strcmp(argv[i], "--prompt") && i + 1 < argc)
            o->prompt = argv[++i];
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc) {
            if (lf_isa_parse(&o->isa, argv[++i], &err) != LF_OK)
                return false;
        } else
            return false;
    }
    return o->stages || o->ends;
}

static void run_prompt(struct lf_trial *t, const struct options *o, struct lf_logit_gap *sum) {
    if (o->stages) {
        lf_trial_streams(t);
        lf_trial_maps(t);
        lf_trial_experts(t);
        lf_trial_attention(t);
        lf_trial_drafts(t);
    }
    if (o->ends) {
        lf_trial_prompt(t);
        struct lf_logit_gap gap = lf_trial_whole(t);
        printf("    %s: mean |logit - f64| %.4f, the reference's %.4f here, %.4f over all rows\n",
               t->g->name, gap.ours, gap.reference, gap.stated);
        sum->ours += gap.ours;
        sum->reference += gap.reference;
        sum->stated += gap.stated;
        lf_trial_greedy(t, o->isa);
        lf_trial_rounds(t);
    }
}

int main(int argc, char **argv) {
    struct options o = {0};
    struct lf_demo demo;
    struct lf_logit_gap sum = {0};
    if (!parse(&o, argc, argv))
        return usage();
    struct lf_report report = {.expect_red = o.expect_red};
    struct lf_model_options options = {.isa = o.isa, .slots = 1, .context = CONTEXT,
                                       .chunk_rows = CONTEXT};
    lf_trial_column(&options);
    lf_demo_open(&demo);
    struct lf_target *target = lf_demo_target(&demo, &options);
    uint32_t run = 0;
    for (int i = 0; i < PROMPTS; i++) {
        struct lf_golden golden;
        if (o.prompt && strcmp(o.prompt, prompts[i]))
            continue;
        lf_golden_open(&golden, prompts[i]);
        struct lf_trial trial = {.demo = &demo, .m = (struct lf_v41 *)target, .g = &golden,
                                 .report = &report};
        run_prompt(&trial, &o, &sum);
        lf_golden_close(&golden);
        run++;
    }
    if (o.ends && run == PROMPTS)
        lf_report_check(&report, sum.ours <= 1.5 * sum.reference,
                        "mean over prompts of mean |logit - f64|: %.4f, the reference's %.4f, at "
                        "most 1.5 times it",
                        sum.ours / PROMPTS, sum.reference / PROMPTS);
    target->ops->close(target);
    lf_demo_close(&demo);
    return lf_report_end(&report);
}
