#include "lane/budget.h"

#include <inttypes.h>
#include <malloc.h>
#include "base/cgroup.h"
#include "base/process.h"
#include "model/model.h"

#define RESERVE_BYTES (UINT64_C(1) << 30)

struct group {
    struct lf_budget *budget;
    const char *root;
    struct lf_buffer *text;
};

// One folder of the control group's path: its limit, and what it leaves of it.
static void apply_group(void *ctx, const char *folder) {
    struct group *group = ctx;
    struct lf_budget *b = group->budget;
    struct lf_buffer *text = group->text;
    const char *root = group->root;
    uint64_t limit, used, file = 0;
    if (!lf_proc_text(text, root, folder, "memory.max") || !lf_proc_number(text->data, "", &limit))
        return;
    if (!lf_proc_text(text, root, folder, "memory.current") ||
        !lf_proc_number(text->data, "", &used))
        return;
    // Pages of files can be dropped: MemAvailable counts them as available, so does this.
    if (lf_proc_text(text, root, folder, "memory.stat") &&
        lf_proc_number(text->data, "file ", &file))
        used -= file < used ? file : used;
    uint64_t left = limit > used ? limit - used : 0;
    b->total = limit < b->total ? limit : b->total;
    b->available = left < b->available ? left : b->available;
}

static enum lf_status check_flags(const struct lf_budget_flags *flags, struct lf_error *err) {
    if (flags->limit_bytes && flags->reserve_bytes)
        return lf_fail(err, LF_E_USAGE, "--memory-limit-gib and --reserve-gib: expected one of "
                                        "them, a limit keeps no reserve");
    return LF_OK;
}

// The reserve and what it leaves, from total and available (M-2).
static void set_bytes(struct lf_budget *out, const struct lf_budget_flags *flags) {
    uint64_t share = out->total / 100 * 3;
    out->reserve = share > RESERVE_BYTES ? share : RESERVE_BYTES;
    if (flags->reserve_bytes)
        out->reserve = flags->reserve_bytes;
    out->named = flags->limit_bytes != 0;
    if (out->named)
        out->reserve = 0;
    out->bytes = out->available > out->reserve ? out->available - out->reserve : 0;
    if (out->named)
        out->bytes = flags->limit_bytes;
}

enum lf_status lf_budget_of_device(struct lf_budget *out, uint64_t total, uint64_t available,
                                   const struct lf_budget_flags *flags, struct lf_error *err) {
    *out = (struct lf_budget){.total = total, .available = available};
    LF_TRY(check_flags(flags, err));
    set_bytes(out, flags);
    return LF_OK;
}

enum lf_status lf_budget_read(struct lf_budget *out, const char *root,
                              const struct lf_budget_flags *flags, struct lf_error *err) {
    struct lf_buffer text = {0};
    *out = (struct lf_budget){0};
    LF_TRY(check_flags(flags, err));
    bool known = lf_proc_text(&text, root, "/proc", "meminfo") &&
                 lf_proc_number(text.data, "MemTotal:", &out->total) &&
                 lf_proc_number(text.data, "MemAvailable:", &out->available);
    out->total *= 1024;
    out->available *= 1024;
    if (known)
        lf_cgroup_visit(root, apply_group, &(struct group){out, root, &text});
    lf_buffer_free(&text);
    if (!known && !flags->limit_bytes)
        return lf_fail(err, LF_E_IO, "%s/proc/meminfo does not tell MemTotal and MemAvailable: "
                                     "name a limit with --memory-limit-gib", root);
    set_bytes(out, flags);
    return LF_OK;
}

static int64_t free_now(const struct lf_budget_watch *w) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_process_memory process;
    struct lf_budget b;
    if (lf_budget_read(&b, w->root, &w->flags, &err) != LF_OK)
        return INT64_MAX / 2;
    if (!b.named)
        return (int64_t)b.available - (int64_t)(b.reserve / 4) - (int64_t)w->mapped_bytes;
    lf_process_memory_read(&process);
    return (int64_t)b.bytes - (int64_t)w->mapped_bytes - (int64_t)process.anonymous;
}

int64_t lf_budget_free(const struct lf_budget_watch *w, uint64_t wanted) {
    int64_t bytes = free_now(w);
    if (bytes >= (int64_t)wanted)
        return bytes;
    // The allocator keeps what was freed: to others it is in use until it is returned.
    malloc_trim(0);
    return free_now(w);
}

static uint64_t need(const struct lf_plan_ask *ask) {
    struct lf_plan plan;
    lf_plan_make(&plan, ask);
    return plan.need;
}

static uint64_t need_with(struct lf_plan_ask ask, uint64_t context, uint32_t slots) {
    ask.context = context;
    ask.slots = slots;
    return need(&ask);
}

uint64_t lf_budget_context(const struct lf_plan_ask *ask, uint64_t bytes) {
    uint64_t fits = 0, most = ask->t->positions_max;
    while (fits < most) {
        uint64_t middle = most - (most - fits) / 2;
        if (need_with(*ask, middle, ask->slots) <= bytes)
            fits = middle;
        else
            most = middle - 1;
    }
    return fits;
}

uint32_t lf_budget_parallel(const struct lf_plan_ask *ask, uint64_t bytes) {
    uint32_t slots = ask->slots;
    while (slots && need_with(*ask, ask->context, slots) > bytes)
        slots--;
    return slots;
}

uint32_t lf_budget_chunk_rows(const struct lf_plan_ask *ask, uint64_t bytes) {
    struct lf_plan_ask less = *ask;
    for (less.chunk_rows /= 2; less.chunk_rows >= LF_CHUNK_ROWS_MIN; less.chunk_rows /= 2)
        if (need(&less) <= bytes)
            return less.chunk_rows;
    return 0;
}

bool lf_budget_cache(uint64_t *cache_bytes, const struct lf_plan_ask *ask, uint64_t bytes) {
    struct lf_plan_ask without = *ask;
    without.cache_bytes = 0;
    uint64_t rest = need(&without), room = bytes > rest ? bytes - rest : 0;
    *cache_bytes = room < ask->cache_bytes ? room : ask->cache_bytes;
    return rest <= bytes;
}

static uint64_t above(uint64_t need_bytes, uint64_t bytes) {
    return need_bytes > bytes ? need_bytes - bytes : 0;
}

static double gib(uint64_t bytes) {
    return (double)bytes / (double)(UINT64_C(1) << 30);
}

// One flag's largest value that fits, or 0.
static void print_way(struct lf_buffer *out, const char *flag, uint64_t value, const char *what,
                      uint64_t missing) {
    if (value)
        lf_buffer_printf(out, "%s %" PRIu64 ": %s\n", flag, value, what);
    else
        lf_buffer_printf(out, "no smaller %s is enough alone: %.2f GiB would still be missing\n",
                         flag, gib(missing));
}

static void print_no_drafts(struct lf_buffer *out, struct lf_plan_ask ask, uint64_t bytes) {
    ask.drafter = false;
    uint64_t missing = above(need(&ask), bytes);
    if (missing)
        lf_buffer_printf(out, "--no-drafts is not enough alone: %.2f GiB would still be missing\n",
                         gib(missing));
    else
        lf_buffer_add_text(out, "--no-drafts: the drafter left out\n");
}

static void print_cache(struct lf_buffer *out, const struct lf_plan_ask *ask, uint64_t bytes) {
    uint64_t cache;
    if (lf_budget_cache(&cache, ask, bytes))
        lf_buffer_printf(out, "--prompt-cache-gib %.17g: the largest cache that fits\n",
                         (double)(cache >> 20) / 1024);
    else if (ask->cache_bytes)
        lf_buffer_printf(out, "no prompt cache at all is not enough alone: %.2f GiB would still "
                              "be missing\n", gib(above(need(ask) - ask->cache_bytes, bytes)));
}

void lf_budget_print_ways(struct lf_buffer *out, const struct lf_plan_ask *ask, uint64_t bytes) {
    struct lf_plan_ask least = *ask, chunk = *ask;
    print_way(out, "--context", lf_budget_context(ask, bytes),
              "the largest context with the other numbers as they are",
              above(need_with(*ask, 1, ask->slots), bytes));
    print_way(out, "--parallel", lf_budget_parallel(ask, bytes),
              "the most requests at once with this context",
              above(need_with(*ask, ask->context, 1), bytes));
    chunk.chunk_rows = ask->chunk_rows < LF_CHUNK_ROWS_MIN ? ask->chunk_rows : LF_CHUNK_ROWS_MIN;
    print_way(out, "--chunk-rows", lf_budget_chunk_rows(ask, bytes),
              "the largest chunk of the halves of this one that fits", above(need(&chunk), bytes));
    print_cache(out, ask, bytes);
    if (ask->drafter)
        print_no_drafts(out, *ask, bytes);
    least.cache_bytes = 0;
    least.drafter = false;
    least.slots = 1;
    least.chunk_rows = chunk.chunk_rows;
    uint64_t context = lf_budget_context(&least, bytes);
    if (context)
        lf_buffer_printf(out, "--parallel 1 --chunk-rows %u%s%s --context %" PRIu64
                              ": the largest context there is\n", least.chunk_rows,
                         ask->cache_bytes ? " --prompt-cache-gib 0" : "",
                         ask->drafter ? " --no-drafts" : "", context);
    lf_buffer_printf(out, "--memory-limit-gib %.17g: what this asks for; %s\n",
                     (double)((need(ask) >> 20) + 1) / 1024,
                     ask->device ? "where the device has less it fails when it loads"
                                 : "without as much memory the system will swap or read weights "
                                   "from disk again and again");
}
