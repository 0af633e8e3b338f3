// The flags that say where and how a model runs, and the memory it may take.
#pragma once
#include "cli/flags.h"
#include "lanefold.h"

struct lf_engine_flags {
    const char *isa, *device;
    uint64_t threads, context;
};
#define LF_ENGINE_FLAGS_INIT {.isa = "auto", .device = "auto"}

// The flag rows of lf_engine_flags, to stand in a command's table.
#define LF_ENGINE_FLAG_ROWS(f)                                                                     \
    {.name = "device", .kind = LF_FLAG_TEXT, .out = &(f).device, .choices = "auto|cpu",            \
     .help = "where it runs"},                                                                     \
        {.name = "threads", .kind = LF_FLAG_COUNT, .out = &(f).threads, .min = 1, .max = 1024,     \
         .help = "CPU threads; default: all cores"},                                               \
        {.name = "isa", .kind = LF_FLAG_TEXT, .out = &(f).isa,                                     \
         .choices = "auto|portable|avx2", .help = "CPU kernels; the bits do not depend on it"},    \
        {.name = "context", .kind = LF_FLAG_COUNT, .out = &(f).context, .min = 1, .max = 1048576,  \
         .help = "positions of a request; default: the most that fits, up to the model's"}

// One undrafted request at a time without a prompt cache: what run and score need.
struct lf_engine_options lf_engine_flags_single(const struct lf_engine_flags *flags);
