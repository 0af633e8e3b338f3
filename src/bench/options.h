// What a bench tool is asked to do; the command line fills it and each tool reads its own part.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "lanefold.h"

enum { LF_BENCH_LIST_MAX = 16, LF_BENCH_STREAMS_MAX = 256 };

struct lf_bench_server {
    char base[512]; // without /v1 and without a slash at the end
    const char *model, *key; // key: NULL when the server needs none
};

struct lf_bench_options {
    struct lf_bench_server server, reference;
    uint64_t tokens, reps, seed;
    double temperature[LF_BENCH_LIST_MAX];
    uint64_t level[LF_BENCH_LIST_MAX];
    size_t temperatures, levels;
    const char *label, *output;
    bool no_filters, no_seed, seed_from_prompt;
    bool mixed, alone, serial, strict;
    double stagger_ms;
    const char *prompt_file, *turns_file, *reference_base;
    uint64_t repeats, streams, expected_prompt_tokens;
    bool require_cold, require_reuse;
    double max_reuse_ttft; // negative: no limit
    const char *serve, *cold_prompt;
    double tolerance, start_s;
    uint64_t blocks, blocks_max;
    uint64_t active, words, short_replies;
    double max_gap, min_decode_share, max_short_ttft; // negative: no limit
    const char *logits;
    uint64_t prompts, length, watch;
    // layers: it runs a model in this process.
    const char *model; // NULL: the demo
    struct lf_engine_options engine;
    const uint32_t *layer; // [n_layers] ids whose kinds are wanted; none: all
    uint32_t n_layers;
    uint64_t rows;     // of a prompt chunk
    bool wall;         // its clock instead of processor time
    double min_linear, max_attention; // negative: no limit
    // Of rounds on a device: lanes and lengths of decode rounds, rows of prompt chunks.
    uint64_t lanes[LF_BENCH_LIST_MAX], contexts[LF_BENCH_LIST_MAX], chunks[LF_BENCH_LIST_MAX];
    size_t n_lanes, n_contexts, n_chunks;
};

// A tool's exit is its verdict: LF_OK only when it passed.
typedef enum lf_status lf_bench_fn(const struct lf_bench_options *o, struct lf_error *err);
lf_bench_fn lf_bench_openai, lf_bench_concurrent, lf_bench_cache, lf_bench_turns,
    lf_bench_never_slower, lf_bench_fairness, lf_bench_layers, lf_bench_logprobs, lf_bench_memory;
