#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/client.h"
#include "cli/engine_flags.h"

enum {
    OPENAI = 1, CONCURRENT = 2, CACHE = 4, SLOWER = 8, FAIRNESS = 16, LOGPROBS = 32, MEMORY = 64,
    CLIENTS = 127, LAYERS = 128, ALL = 255, FLAGS_MAX = 48, CHUNK_ROWS_MIN = 256,
    DEVICE_CHUNK_MAX = 8192, POSITIONS_MAX = 1 << 20
};

static const struct tool {
    const char *name;
    unsigned bit;
    lf_bench_fn *run;
    uint64_t tokens, reps;
    const char *usage, *what;
} tools[] = {
    {"openai", OPENAI, lf_bench_openai, 64, 5, "bench openai BASE MODEL [options]",
     "How fast one stream decodes and how soon it starts."},
    {"concurrent", CONCURRENT, lf_bench_concurrent, 256, 3, "bench concurrent BASE MODEL [options]",
     "How fast N streams decode, and whether their tokens are those alone and without drafts."},
    {"cache", CACHE, lf_bench_cache, 64, 3, "bench cache BASE MODEL [options]",
     "What a cold prompt costs, whether a repeat reuses it, whether the tokens are the same."},
    {"never-slower", SLOWER, lf_bench_never_slower, 256, 3,
     "bench never-slower --serve \"COMMAND ...\" [options]",
     "Whether any drafted cell is slower than without drafts; starts COMMAND itself."},
    {"fairness", FAIRNESS, lf_bench_fairness, 2048, 3, "bench fairness BASE MODEL [options]",
     "What a long prompt does to running replies."},
    {"logprobs", LOGPROBS, lf_bench_logprobs, 64, 3, "bench logprobs BASE MODEL [options]",
     "Whether log-probabilities are the same drafted, plain, repeated, resumed and in company."},
    {"memory", MEMORY, lf_bench_memory, 64, 3, "bench memory BASE MODEL [options]",
     "Whether N cold prompts of great length fit and stay right."},
    {"layers", LAYERS, lf_bench_layers, 1, 1, "bench layers [MODEL] [options]",
     "What a prompt chunk and a token cost, by kernel, in each kind of layer or on a device."},
};

struct lists {
    const char *temperatures, *levels, *layers, *clock, *lanes, *contexts, *chunks;
    struct lf_engine_flags engine;
    bool help;
};

struct choice {
    unsigned tools;
    struct lf_flag flag;
};

// One list for all tools: a flag has one meaning wherever it stands.
static size_t choose(struct lf_flag *flag, unsigned bit, struct lf_bench_options *o,
                     struct lists *l) {
    const struct choice all[] = {
#include "cli/bench_flags.def"
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].tools & bit)
            flag[n++] = all[i].flag;
    return n;
}

// Numbers between commas; whole ones where whole is set.
static enum lf_status read_list(const char *name, const char *text, bool whole, double most,
                                double *value, size_t *n, struct lf_error *err) {
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        double x = strtod(at, &end);
        bool good = end > at && strspn(at, whole ? "0123456789" : "0123456789.") ==
                                    (size_t)(end - at);
        if (!good || (*end && *end != ',') || x > most || (whole && x < 1) ||
            *n == LF_BENCH_LIST_MAX)
            return lf_fail(err, LF_E_USAGE,
                           "--%s %s: expected up to %d %snumbers from %d to %g with commas", name,
                           text, LF_BENCH_LIST_MAX, whole ? "whole " : "", whole, most);
        value[(*n)++] = x;
        if (!*end)
            return LF_OK;
        at = end;
    }
}

static enum lf_status read_counts(const char *name, const char *text, double most,
                                  uint64_t *value, size_t *n, struct lf_error *err) {
    double read[LF_BENCH_LIST_MAX];
    LF_TRY(read_list(name, text, true, most, read, n, err));
    for (size_t i = 0; i < *n; i++)
        value[i] = (uint64_t)read[i];
    return LF_OK;
}

static enum lf_status read_lists(struct lf_bench_options *o, const struct lists *l,
                                 struct lf_error *err) {
    LF_TRY(read_list("temperatures", l->temperatures, false, 2, o->temperature, &o->temperatures,
                     err));
    return read_counts("levels", l->levels, LF_BENCH_STREAMS_MAX, o->level, &o->levels, err);
}

static enum lf_status read_model(struct lf_bench_options *o, struct lists *l,
                                 const struct lf_positionals *given, struct lf_error *err) {
    if (given->n > 1)
        return lf_fail(err, LF_E_USAGE, "%s: one argument too many", given->value[1]);
    o->model = given->n ? given->value[0] : NULL;
    o->wall = !strcmp(l->clock, "wall");
    o->engine = lf_engine_flags_single(&l->engine);
    o->engine.chunk_rows = o->rows < CHUNK_ROWS_MIN ? CHUNK_ROWS_MIN : (uint32_t)o->rows;
    o->layer = l->engine.layer;
    LF_TRY(read_counts("lanes", l->lanes, LF_BENCH_STREAMS_MAX, o->lanes, &o->n_lanes, err));
    LF_TRY(read_counts("contexts", l->contexts, POSITIONS_MAX, o->contexts, &o->n_contexts, err));
    LF_TRY(read_counts("chunks", l->chunks, DEVICE_CHUNK_MAX, o->chunks, &o->n_chunks, err));
    LF_TRY(lf_engine_flags_dummy(&o->engine, &l->engine, err));
    return lf_engine_flags_layers(&l->engine, l->layers, &o->n_layers, err);
}

static enum lf_status read_servers(struct lf_bench_options *o, const struct tool *tool,
                                   const struct lf_positionals *given, struct lf_error *err) {
    o->server.key = lf_environment("LANEFOLD_API_KEY");
    if (tool->bit == SLOWER && given->n)
        return lf_fail(err, LF_E_USAGE, "%s: one argument too many", given->value[0]);
    if (tool->bit == SLOWER)
        return LF_OK;
    if (given->n < 2)
        return lf_fail(err, LF_E_USAGE, "%s is missing", given->n ? "MODEL" : "BASE");
    LF_TRY(lf_client_base(&o->server, given->value[0], err));
    o->server.model = given->value[1];
    o->reference = o->server;
    return o->reference_base ? lf_client_base(&o->reference, o->reference_base, err) : LF_OK;
}

static const struct tool *find_tool(const char *name) {
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!strcmp(tools[i].name, name))
            return &tools[i];
    return NULL;
}

static void print_tools(void) {
    puts("usage: lanefold bench TOOL ...\n\nClients that measure a running server; layers runs a "
         "model itself.\n");
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        printf("  %-13s %s\n", tools[i].name, tools[i].what);
}

enum lf_status lf_command_bench(int argc, char **argv, struct lf_error *err) {
    const char *name = argc > 1 ? argv[1] : "";
    const struct tool *tool = find_tool(name);
    if (!strcmp(name, "--help")) {
        print_tools();
        return LF_OK;
    }
    if (!tool)
        return lf_fail(err, LF_E_USAGE, "%s: expected openai, concurrent, cache, never-slower, "
                                        "fairness, logprobs, memory or layers",
                       *name ? name : "no tool");
    struct lf_bench_options o = {
        .tokens = tool->tokens, .reps = tool->reps,
        .seed = tool->bit == FAIRNESS ? 7319 : 1234, .repeats = 2, .streams = 2,
        .max_reuse_ttft = -1, .tolerance = 0.03, .start_s = 3600, .blocks = 2, .blocks_max = 12,
        .active = 3, .words = 120000, .short_replies = 4, .max_gap = -1, .min_decode_share = -1,
        .max_short_ttft = -1, .prompts = 4, .length = 912000,
        .rows = 2048, .min_linear = -1, .max_attention = -1};
    struct lists l = {.temperatures = tool->bit == SLOWER ? "0,1" : "1.0,0",
                      .levels = tool->bit == SLOWER ? "1,4" : "4", .clock = "processor",
                      .lanes = "1,4,16,64", .contexts = "1024,32768,262144,1048576",
                      .chunks = "2048,8192",
                      .engine = LF_ENGINE_FLAGS_INIT};
    l.engine.context = 32768;
    l.engine.device = "cpu";
    struct lf_flag flag[FLAGS_MAX];
    struct lf_positionals given;
    size_t n = choose(flag, tool->bit, &o, &l);
    LF_TRY(lf_flags_parse(flag, n, argc - 1, argv + 1, &given, 2, err));
    if (l.help) {
        lf_flags_print(tool->usage, tool->what, flag, n);
        return LF_OK;
    }
    if (tool->bit == MEMORY && !(lf_flag_given(flag, n, "prompts")))
        return lf_fail(err, LF_E_USAGE, "--prompts is missing");
    if (tool->bit == LAYERS) {
        LF_TRY(read_model(&o, &l, &given, err));
        return tool->run(&o, err);
    }
    LF_TRY(read_lists(&o, &l, err));
    LF_TRY(read_servers(&o, tool, &given, err));
    LF_TRY(lf_client_setup(err));
    return tool->run(&o, err);
}
