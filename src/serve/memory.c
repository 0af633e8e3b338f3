// GET /memory (api.md 15): what is in use now, beside the plan of the start (engine.md M-11).
#include "base/process.h"
#include "serve/plan_json.h"
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

// Where kernels work, if not on the host.
static void print_device(struct lf_buffer *out, const struct lf_memory_report *report) {
    if (!report->device_bytes)
        return;
    lf_buffer_printf(out, ",\"device\":{\"name\":\"%s\",\"held_bytes\":%llu,\"peak_bytes\":%llu,"
                          "\"total_bytes\":%llu}", report->device,
                     (unsigned long long)report->device_bytes,
                     (unsigned long long)report->device_peak_bytes,
                     (unsigned long long)report->total_bytes);
}

static void print_model(struct lf_buffer *out, const struct lf_engine *engine) {
    struct lf_memory_report report;
    const char *comma = "";
    lf_engine_memory_read(engine, &report);
    if (!report.n_lines)
        return;
    print_device(out, &report);
    lf_buffer_printf(out,
                     ",\"kv_pages_used\":%llu,\"kv_pages_promised\":%llu,"
                     "\"kv_pages_planned\":%llu,\"lines\":{",
                     (unsigned long long)report.kv_pages_used,
                     (unsigned long long)report.kv_pages_promised,
                     (unsigned long long)report.kv_pages_planned);
    for (uint32_t i = 0; i < report.n_lines; i++)
        print_bytes(out, &comma, report.line[i].name, report.line[i].held_bytes);
    lf_buffer_add_text(out, "},\"plan\":{");
    lf_plan_print_json(out, &report);
    lf_buffer_add_text(out, "}");
}

static void print_disk(struct lf_buffer *out, const struct lf_cache_stats *c) {
    lf_buffer_printf(out,
                     ",\"disk\":{\"held_bytes\":%llu,\"cap_bytes\":%llu,\"files\":%llu,"
                     "\"spilled\":%llu,\"returned\":%llu,\"damaged\":%llu,\"removed\":%llu,"
                     "\"unspilled\":%llu,\"paused\":%s}",
                     (unsigned long long)c->disk_held_bytes, (unsigned long long)c->disk_cap_bytes,
                     (unsigned long long)c->disk_files, (unsigned long long)c->spilled,
                     (unsigned long long)c->returned, (unsigned long long)c->damaged,
                     (unsigned long long)c->disk_removed, (unsigned long long)c->unspilled,
                     c->disk_paused ? "true" : "false");
}

static void print_requests(struct lf_buffer *out, const struct lf_engine_status *s) {
    lf_buffer_printf(out,
                     ",\"requests\":{\"running\":%u,\"waiting\":%u,\"finished\":%llu,"
                     "\"cancelled\":%llu,\"failed\":%llu,\"nonfinite\":%llu}",
                     s->running, s->waiting, (unsigned long long)s->finished,
                     (unsigned long long)s->cancelled, (unsigned long long)s->failed,
                     (unsigned long long)s->nonfinite);
}

static void print_cache(struct lf_buffer *out, const struct lf_cache_stats *c) {
    lf_buffer_printf(out,
                     ",\"prompt_cache\":{\"held_bytes\":%llu,\"cap_bytes\":%llu,\"entries\":%llu,"
                     "\"hits\":%llu,\"misses\":%llu,\"kept\":%llu,\"evicted\":%llu,"
                     "\"refused\":%llu,\"failed\":%llu,\"restored_tokens\":%llu",
                     (unsigned long long)c->held_bytes, (unsigned long long)c->cap_bytes,
                     (unsigned long long)c->entries, (unsigned long long)c->hits,
                     (unsigned long long)c->misses, (unsigned long long)c->kept,
                     (unsigned long long)c->evicted, (unsigned long long)c->refused,
                     (unsigned long long)c->failed, (unsigned long long)c->restored_tokens);
    if (c->disk_cap_bytes)
        print_disk(out, c);
    lf_buffer_add_text(out, "}");
}

enum lf_status lf_memory_handle(struct lf_exchange *x, struct lf_error *err) {
    struct lf_engine_status status;
    (void)err;
    lf_buffer_add_text(&x->out, "{");
    print_process(&x->out);
    print_model(&x->out, x->server->engine);
    lf_engine_status_read(x->server->engine, &status);
    print_cache(&x->out, &status.cache);
    print_requests(&x->out, &status);
    lf_buffer_add_text(&x->out, "}");
    lf_exchange_answer(x, 200, "application/json");
    return LF_OK;
}
