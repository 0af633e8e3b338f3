// GET /memory (api.md 15): what is in use now, beside the plan of the start (engine.md M-11).
#include "base/process.h"
#include "model/model.h"
#include "serve/router.h"
#include "serve/state.h"

// A number that is not known is left out (M-11).
static void print_bytes(struct lf_buffer *out, const char **comma, const char *name,
                        uint64_t bytes) {
    if (!bytes)
        return;
    lf_buffer_printf(out, "%s\"%s\":%llu", *comma, name, (unsigned long long)bytes);
    *comma = ",";
}

static void print_process(struct lf_buffer *out) {
    struct lf_process_memory process;
    const char *comma = "";
    lf_process_memory_read(&process);
    lf_buffer_add_text(out, "\"process\":{");
    print_bytes(out, &comma, "resident_bytes", process.resident);
    print_bytes(out, &comma, "resident_peak_bytes", process.resident_peak);
    print_bytes(out, &comma, "anonymous_bytes", process.anonymous);
    print_bytes(out, &comma, "mapped_bytes", process.mapped);
    lf_buffer_add_text(out, "}");
}

static void print_model(struct lf_buffer *out, const struct lf_server_memory *memory) {
    struct lf_model_memory now;
    uint64_t lines[LF_PLAN_PARTS];
    const char *comma = "";
    lf_model_memory_read(memory->target, &now);
    lf_plan_measure(lines, memory->plan, &now);
    lf_buffer_printf(out, ",\"kv_pages_used\":%llu,\"kv_pages_promised\":%llu,\"lines\":{",
                     (unsigned long long)now.kv_pages, (unsigned long long)memory->plan->kv_pages);
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        print_bytes(out, &comma, lf_plan_key(part), lines[part]);
    lf_buffer_add_text(out, "},\"plan\":{");
    lf_plan_print_json(out, memory->plan);
    lf_buffer_add_text(out, ",");
    lf_budget_print_json(out, memory->budget);
    lf_buffer_add_text(out, "}");
}

static void print_cache(struct lf_buffer *out, struct lf_engine *engine) {
    struct lf_engine_status status;
    lf_engine_status_read(engine, &status);
    const struct lf_cache_stats *c = &status.cache;
    lf_buffer_printf(out,
                     ",\"prompt_cache\":{\"held_bytes\":%llu,\"cap_bytes\":%llu,\"entries\":%llu,"
                     "\"hits\":%llu,\"misses\":%llu,\"kept\":%llu,\"evicted\":%llu,"
                     "\"refused\":%llu,\"failed\":%llu,\"restored_tokens\":%llu}",
                     (unsigned long long)c->held_bytes, (unsigned long long)c->cap_bytes,
                     (unsigned long long)c->entries, (unsigned long long)c->hits,
                     (unsigned long long)c->misses, (unsigned long long)c->kept,
                     (unsigned long long)c->evicted, (unsigned long long)c->refused,
                     (unsigned long long)c->failed, (unsigned long long)c->restored_tokens);
}

enum lf_status lf_memory_handle(struct lf_exchange *x, struct lf_error *err) {
    const struct lf_server_memory *memory = x->server->options.memory;
    (void)err;
    lf_buffer_add_text(&x->out, "{");
    print_process(&x->out);
    if (memory)
        print_model(&x->out, memory);
    print_cache(&x->out, x->server->engine);
    lf_buffer_add_text(&x->out, "}");
    lf_exchange_answer(x, 200, "application/json");
    return LF_OK;
}
