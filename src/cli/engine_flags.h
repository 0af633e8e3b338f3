// The flags that say where and how a model runs, and the memory it may take.
#pragma once
#include "cli/flags.h"
#include "format/topology.h"
#include "lanefold.h"

struct lf_engine_flags {
    const char *isa, *device, *pin;
    uint64_t threads, context;
    uint64_t dummy_seed, layers, table_rows; // LF_FLAG_WORD: not given
    uint32_t layer[LF_LAYERS_MAX];           // what layers says, for the options
};
#define LF_ENGINE_FLAGS_INIT                                                                       \
    {.isa = "auto", .device = "auto", .pin = "auto", .dummy_seed = LF_FLAG_WORD,                   \
     .layers = LF_FLAG_WORD, .table_rows = LF_FLAG_WORD}

// The flags of lf_engine_flags, to stand in a command's table.
#define LF_THREADS_FLAG(f)                                                                         \
    {.name = "threads", .kind = LF_FLAG_COUNT, .out = &(f).threads, .min = 1, .max = 1024,         \
     .help = "CPU threads; default: one a physical core that may be used"}
#define LF_PIN_FLAG(f)                                                                             \
    {.name = "pin", .kind = LF_FLAG_TEXT, .out = &(f).pin, .choices = "auto|on|off",               \
     .help = "a core for each thread; auto: on several memory nodes, nothing shared"}
#define LF_ISA_FLAG(f)                                                                             \
    {.name = "isa", .kind = LF_FLAG_TEXT, .out = &(f).isa,                                         \
     .choices = "auto|portable|avx2|avx512|neon", .help = "which CPU kernels run"}
// Weights that are made up: MODEL needs no weight files.
#define LF_DUMMY_SEED_FLAG(f)                                                                      \
    {.name = "dummy-weights", .kind = LF_FLAG_COUNT, .out = &(f).dummy_seed, .min = 0,             \
     .max = 9007199254740992, .help = "a seed: weights made up in memory from config.json"}
#define LF_TABLE_ROWS_FLAG(f)                                                                      \
    {.name = "engram-rows", .kind = LF_FLAG_COUNT, .out = &(f).table_rows, .min = 1024,            \
     .max = 1099511627776,                                                                         \
     .help = "of made-up Engram tables about so many rows; default 1048576"}
#define LF_ENGINE_FLAG_ROWS(f)                                                                     \
    {.name = "device", .kind = LF_FLAG_TEXT, .out = &(f).device,                                   \
     .help = "auto, cpu, cuda or cuda:N; auto: a CUDA device where the model fits there"},         \
        LF_THREADS_FLAG(f), LF_PIN_FLAG(f), LF_ISA_FLAG(f),                                        \
        {.name = "context", .kind = LF_FLAG_COUNT, .out = &(f).context, .min = 1, .max = 1048576,  \
         .help = "positions of a request; default: the most that fits, up to the model's"},        \
        LF_DUMMY_SEED_FLAG(f), LF_TABLE_ROWS_FLAG(f),                                              \
        {.name = "layers", .kind = LF_FLAG_COUNT, .out = &(f).layers, .min = 1,                    \
         .max = LF_LAYERS_MAX, .help = "of made-up weights only the first so many layers"}

// Fills the options' dummy fields, which borrow from flags.
LF_CHECKED enum lf_status lf_engine_flags_dummy(struct lf_engine_options *options,
                                                struct lf_engine_flags *flags,
                                                struct lf_error *err);
// Layer ids such as 2,21 to flags->layer; text NULL: none.
LF_CHECKED enum lf_status lf_engine_flags_layers(struct lf_engine_flags *flags, const char *text,
                                                 uint32_t *n, struct lf_error *err);

// The word of --pin, which is one of its choices.
enum lf_pin lf_engine_flags_pin(const struct lf_engine_flags *flags);

// One undrafted request at a time without a prompt cache: what run and score need.
struct lf_engine_options lf_engine_flags_single(const struct lf_engine_flags *flags);
