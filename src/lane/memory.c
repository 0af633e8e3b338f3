#include "lane/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/log.h"
#include "base/process.h"
#include "format/dummy.h"
#include "lane/warm.h"
#include "model/model.h"

#define GIB ((double)(UINT64_C(1) << 30))

// Slots when nobody says how many, at most where they fit, and what a cache nobody sized takes.
enum { PARALLEL = 4, PARALLEL_MAX = 64, CACHE_GIB_MAX = 16 };

// The cache on disk takes a folder, a cap, and a cache in memory that it continues.
static enum lf_status check_spill(const struct lf_engine_options *o, struct lf_error *err) {
    if (!o->spill_dir && (o->spill_bytes || o->keep_shared))
        return lf_fail(err, LF_E_USAGE, "%s needs a folder (spill-dir)",
                       o->spill_bytes ? "a cache on disk (spill-gib)" : "keep-shared");
    if (o->spill_dir && !o->spill_bytes)
        return lf_fail(err, LF_E_USAGE, "the spill folder %s needs a cap above 0 (spill-gib)",
                       o->spill_dir);
    if (o->spill_dir && !o->prompt_cache_bytes)
        return lf_fail(err, LF_E_USAGE, "the spill folder %s needs a prompt cache: nothing would "
                                        "be written there", o->spill_dir);
    return LF_OK;
}

// The flags speak of the memory where kernels work; beside a device the host keeps its reserve.
static enum lf_status read_budgets(struct lf_memory *memory, const struct lf_budget_flags *flags,
                                   struct lf_error *err) {
    static const struct lf_budget_flags none = {0};
    if (!memory->place->cuda)
        return lf_budget_read(&memory->budget, "", flags, err);
    const struct lf_cuda_info *device = lf_cuda_info(memory->place->cuda);
    LF_TRY(lf_budget_of_device(&memory->budget, device->memory_bytes, device->free_bytes, flags,
                               err));
    return lf_budget_read(&memory->host_budget, "", &none, err);
}

enum lf_status lf_memory_budget(struct lf_memory *memory, const struct lf_place *place,
                                const struct lf_engine_options *options, struct lf_error *err) {
    struct lf_budget_flags bytes = {.limit_bytes = options->memory_limit_bytes,
                                    .reserve_bytes = options->reserve_bytes};
    *memory = (struct lf_memory){.place = place};
    LF_TRY(check_spill(options, err));
    LF_TRY(read_budgets(memory, &bytes, err));
    memory->watch = (struct lf_budget_watch){.root = "", .flags = bytes};
    memory->spill_bytes = options->spill_bytes;
    uint64_t eighth = memory->budget.bytes / 8, most = (uint64_t)(CACHE_GIB_MAX * GIB);
    memory->cache_named = options->prompt_cache_bytes != LF_PROMPT_CACHE_AUTO;
    memory->cache_bytes = memory->cache_named ? options->prompt_cache_bytes
                          : eighth < most     ? eighth
                                              : most;
    return LF_OK;
}

static struct lf_plan_ask ask_of(const struct lf_checkpoint *checkpoint, uint32_t threads,
                                 const struct lf_tokenizer *tokenizer,
                                 const struct lf_engine_options *options,
                                 const struct lf_checkpoint_summary *summary) {
    return (struct lf_plan_ask){
        .t = lf_checkpoint_topology(checkpoint), .made_up = lf_checkpoint_is_dummy(checkpoint),
        .weight_bytes = summary->text_bytes, .table_bytes = summary->table_bytes,
        .index_bytes = summary->held_bytes,
        .draft_bytes = summary->draft_bytes,
        .text_bytes = tokenizer ? lf_tokenizer_held_bytes(tokenizer) : 0,
        .context = options->context, .slots = options->parallel ? options->parallel : PARALLEL,
        .chunk_rows = options->chunk_rows ? options->chunk_rows
                                          : lf_model_chunk_rows(lf_checkpoint_topology(checkpoint)),
        .threads = threads,
    };
}

// Plans with or without the drafter; a context of 0 becomes the largest that fits.
static void plan_with(struct lf_memory *memory, bool drafter, uint64_t context) {
    memory->ask.drafter = drafter;
    memory->ask.context = context;
    if (!context) {
        uint64_t fits = lf_budget_context(&memory->ask, memory->budget.bytes);
        // Where nothing fits the refusal is about the least there is.
        memory->ask.context = fits ? fits : 1;
    }
    lf_plan_make(&memory->plan, &memory->ask);
    memory->fits = memory->plan.need <= memory->budget.bytes &&
                   memory->plan.host_need <= memory->host_budget.bytes;
}

// L-33: as many slots of the context (0: the model's) as fit, one where none does.
static void choose_parallel(struct lf_memory *memory, uint64_t context) {
    memory->ask.slots = PARALLEL_MAX;
    memory->ask.context = context ? context : memory->ask.t->positions_max;
    uint32_t fits = lf_budget_parallel(&memory->ask, memory->budget.bytes);
    memory->ask.slots = fits ? fits : 1;
    memory->parallel_chosen = true;
}

// What nobody named gives way, one after the other, until the plan fits or nothing is left.
static void give_way(struct lf_memory *memory, const struct lf_engine_options *options,
                     uint64_t context) {
    bool drafter = memory->ask.drafter;
    if (!memory->fits && !memory->cache_named) {
        memory->ask.cache_bytes = 0;
        plan_with(memory, drafter, context);
    }
    while (!memory->fits && !options->chunk_rows &&
           memory->ask.chunk_rows / 2 >= LF_CHUNK_ROWS_MIN) {
        memory->ask.chunk_rows /= 2;
        plan_with(memory, drafter, context);
    }
    if (drafter && options->drafts != LF_DRAFTS_ON && !memory->fits) {
        plan_with(memory, false, context);
        memory->drafter_left = memory->fits;
        if (!memory->fits)
            plan_with(memory, true, context);
    }
}

// A cache that was not asked for by name takes what the rest leaves.
static void fill_cache(struct lf_memory *memory) {
    memory->ask.cache_bytes = memory->cache_bytes;
    if (!lf_budget_cache(&memory->ask.cache_bytes, &memory->ask, memory->budget.bytes))
        memory->ask.cache_bytes = 0;
    plan_with(memory, memory->ask.drafter, memory->ask.context);
}

// Weights that the system holds for the process: of files, pages it may drop.
static uint64_t mapped_bytes(const struct lf_memory *memory) {
    const uint64_t *bytes = memory->plan.bytes;
    if (memory->weights_in_memory || memory->place->cuda)
        return 0;
    return bytes[LF_PLAN_WEIGHTS] + bytes[LF_PLAN_DRAFTER];
}

enum lf_status lf_memory_plan(struct lf_memory *memory, const struct lf_checkpoint *checkpoint,
                              const struct lf_tokenizer *tokenizer,
                              const struct lf_engine_options *options, struct lf_error *err) {
    struct lf_checkpoint_summary summary;
    uint64_t most = lf_checkpoint_topology(checkpoint)->positions_max, context = options->context;
    bool on = options->drafts == LF_DRAFTS_ON;
    if (context > most)
        return lf_fail(err, LF_E_USAGE, "a context of %" PRIu64 ": the model has %" PRIu64
                                        " positions", context, most);
    lf_checkpoint_summary(checkpoint, &summary);
    if (on && !summary.has_drafts)
        return lf_fail(err, LF_E_USAGE, "drafts are on, but the checkpoint has no drafter");
    LF_TRY(lf_placement_read(&memory->placement, options->threads, options->pin, err));
    memory->ask = ask_of(checkpoint, memory->placement.threads, tokenizer, options, &summary);
    memory->ask.cache_bytes = memory->cache_bytes;
    memory->ask.device = memory->place->cuda != NULL;
    memory->context_chosen = !context;
    bool drafter = summary.has_drafts && options->drafts != LF_DRAFTS_OFF;
    memory->ask.drafter = drafter;
    if (options->parallel == LF_PARALLEL_AUTO)
        choose_parallel(memory, context);
    plan_with(memory, drafter, context);
    give_way(memory, options, context);
    if (memory->fits && !memory->ask.cache_bytes)
        fill_cache(memory);
    memory->weights_in_memory = lf_checkpoint_is_dummy(checkpoint);
    memory->watch.mapped_bytes = mapped_bytes(memory);
    return LF_OK;
}

int64_t lf_memory_free(void *ctx, uint64_t wanted) {
    const struct lf_memory *memory = ctx;
    const struct lf_budget *b = &memory->budget;
    uint64_t most;
    if (!memory->place->cuda)
        return lf_budget_free(&memory->watch, wanted);
    // On a device what was free at the start is this process's, less a quarter of the reserve.
    return (int64_t)(b->bytes + b->reserve / 4 * 3) -
           (int64_t)lf_cuda_held_bytes(memory->place->cuda, &most);
}

static void print_line(struct lf_buffer *out, const char *what, uint64_t bytes) {
    lf_buffer_printf(out, "%-40s %18" PRIu64 " %12.3f GiB\n", what, bytes, (double)bytes / GIB);
}

// all: lines of 0 bytes too.
static void print_share(struct lf_buffer *out, const uint64_t bytes[LF_PLAN_PARTS], uint64_t need,
                        const struct lf_budget *budget, bool all) {
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        if (bytes[part] || all)
            print_line(out, lf_plan_words(part), bytes[part]);
    print_line(out, "needed", need);
    print_line(out, budget->named ? "budget, as named" : "budget: available less the reserve",
               budget->bytes);
}

void lf_memory_print(struct lf_buffer *out, const struct lf_memory *memory) {
    const struct lf_plan *plan = &memory->plan;
    const struct lf_budget *budget = &memory->budget;
    lf_buffer_printf(out,
                     "%u requests%s of %" PRIu64 " positions%s, chunks of %u rows\n",
                     plan->slots, memory->parallel_chosen ? " (the most that fit)" : "",
                     plan->context,
                     !memory->context_chosen ? ""
                     : plan->context == memory->ask.t->positions_max ? " (the model's)"
                                                                     : " (the most that fits)",
                     plan->chunk_rows);
    lf_placement_print(out, &memory->placement);
    lf_buffer_add_text(out, "\n");
    if (memory->drafter_left)
        lf_buffer_add_text(out, "the drafter does not fit: no drafts\n");
    bool device = memory->place->cuda != NULL;
    if (device)
        lf_buffer_printf(out, "on %s\n", memory->place->words);
    print_share(out, plan->bytes, plan->need, budget, !device);
    if (device) {
        lf_buffer_add_text(out, "beside it, on the host\n");
        print_share(out, plan->host_bytes, plan->host_need, &memory->host_budget, false);
    }
    lf_buffer_printf(out, "a position takes %" PRIu64 " bytes of KV, a decode launch %" PRIu64
                          " of the workspace\n", plan->kv_position_bytes, plan->launch_bytes);
    if (memory->weights_in_memory)
        lf_buffer_add_text(out, "weights and tables are made up, in memory\n");
    else
        print_line(out, "on disk: weights and tables",
                   memory->ask.weight_bytes + memory->ask.table_bytes);
    if (memory->spill_bytes)
        print_line(out, "on disk: the prompt cache at most", memory->spill_bytes);
    if (memory->fits)
        return;
    if (plan->need > budget->bytes) {
        print_line(out, "missing", plan->need - budget->bytes);
        lf_budget_print_ways(out, &memory->ask, budget->bytes);
    }
    if (plan->host_need > memory->host_budget.bytes)
        print_line(out, "missing on the host", plan->host_need - memory->host_budget.bytes);
}

static enum lf_status does_not_fit(const char *where, uint64_t need, uint64_t budget,
                                   struct lf_error *err) {
    return lf_fail(err, LF_E_MEM, "the model does not fit%s: it needs %" PRIu64 " bytes "
                                  "(%.2f GiB), the budget is %" PRIu64 " (%.2f GiB), %" PRIu64
                                  " are missing (%.2f GiB)", where, need, (double)need / GIB,
                   budget, (double)budget / GIB, need - budget, (double)(need - budget) / GIB);
}

enum lf_status lf_memory_require(const struct lf_memory *memory, struct lf_error *err) {
    const struct lf_plan *plan = &memory->plan;
    char where[128];
    if (memory->fits)
        return LF_OK;
    snprintf(where, sizeof where, " on %s", memory->place->words);
    if (plan->need > memory->budget.bytes)
        return does_not_fit(memory->place->cuda ? where : "", plan->need, memory->budget.bytes,
                            err);
    return does_not_fit(" beside the device", plan->host_need, memory->host_budget.bytes, err);
}

static bool is_exceeded(const char *what, uint64_t planned, uint64_t measured) {
    bool exceeded = lf_plan_exceeded(planned, measured);
    if (exceeded)
        lf_log(LF_LOG_WARN, "memory: %s took %" PRIu64 " bytes, %" PRIu64 " above its plan", what,
               measured, measured - planned);
    return exceeded;
}

static void check_device(const struct lf_memory *memory) {
    uint64_t held, most, planned = memory->plan.need;
    if (!memory->place->cuda)
        return;
    held = lf_cuda_held_bytes(memory->place->cuda, &most);
    if (!is_exceeded(memory->place->words, planned, most))
        lf_log(LF_LOG_INFO, "memory: %.3f GiB taken of %.3f planned on %s", (double)held / GIB,
               (double)planned / GIB, memory->place->words);
}

enum lf_status lf_memory_check(const struct lf_memory *memory, struct lf_target *target,
                               struct lf_error *err) {
    struct lf_model_memory taken;
    struct lf_process_memory process;
    uint64_t lines[LF_PLAN_PARTS];
    uint64_t planned = memory->place->cuda ? memory->plan.host_need
                                           : memory->plan.need - mapped_bytes(memory);
    bool exceeded = false;
    const struct lf_target_info *info = target->ops->info(target);
    lf_log(LF_LOG_INFO, "memory: a chunk of %u rows and a launch of %u run once to be measured",
           info->chunk_rows_max, info->launch_rows_max);
    LF_TRY(lf_target_warm(target, err));
    lf_model_memory_read(target, &taken);
    lf_plan_measure(lines, &memory->plan, &taken);
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        exceeded = is_exceeded(lf_plan_words(part), memory->plan.bytes[part], lines[part]) ||
                   exceeded;
    lf_process_memory_read(&process);
    exceeded = is_exceeded("the process without its files", planned, process.anonymous) || exceeded;
    if (process.anonymous && !exceeded)
        lf_log(LF_LOG_INFO, "memory: %.3f GiB taken of %.3f planned%s",
               (double)process.anonymous / GIB, (double)planned / GIB,
               memory->weights_in_memory || memory->place->cuda ? "" : " besides weights");
    check_device(memory);
    return LF_OK;
}

void lf_memory_report(struct lf_memory_report *out, const struct lf_memory *memory,
                      struct lf_target *target) {
    const struct lf_plan *plan = &memory->plan;
    uint64_t held[LF_PLAN_PARTS] = {0};
    *out = (struct lf_memory_report){
        .n_lines = LF_PLAN_PARTS, .need_bytes = plan->need, .budget_bytes = memory->budget.bytes,
        .reserve_bytes = memory->budget.reserve, .available_bytes = memory->budget.available,
        .total_bytes = memory->budget.total, .kv_position_bytes = plan->kv_position_bytes,
        .launch_bytes = plan->launch_bytes, .kv_pages_planned = plan->kv_pages,
        .context = plan->context, .parallel = plan->slots, .chunk_rows = plan->chunk_rows,
        .threads = plan->threads, .device = memory->place->name,
        .host_need_bytes = plan->host_need, .host_budget_bytes = memory->host_budget.bytes};
    if (memory->place->cuda)
        out->device_bytes = lf_cuda_held_bytes(memory->place->cuda, &out->device_peak_bytes);
    if (target) {
        struct lf_model_memory now;
        lf_model_memory_read(target, &now);
        lf_plan_measure(held, plan, &now);
        out->kv_pages_used = now.kv_pages_used;
        out->kv_pages_promised = now.kv_pages;
    }
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        out->line[part] = (struct lf_memory_line){.name = lf_plan_key(part),
                                                  .planned_bytes = plan->bytes[part],
                                                  .host_bytes = plan->host_bytes[part],
                                                  .held_bytes = held[part],
                                                  .counted = lf_plan_counts(part)};
}
