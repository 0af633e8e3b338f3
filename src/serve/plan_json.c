#include "serve/plan_json.h"

#include <inttypes.h>

// Beside a device: what the host needs.
static void print_host(struct lf_buffer *out, const struct lf_memory_report *r) {
    lf_buffer_add_text(out, ",\"host\":{\"lines\":{");
    for (uint32_t i = 0; i < r->n_lines; i++)
        lf_buffer_printf(out, "%s\"%s\":%" PRIu64, i ? "," : "", r->line[i].name,
                         r->line[i].host_bytes);
    lf_buffer_printf(out, "},\"need_bytes\":%" PRIu64 ",\"budget_bytes\":%" PRIu64 "}",
                     r->host_need_bytes, r->host_budget_bytes);
}

void lf_plan_print_json(struct lf_buffer *out, const struct lf_memory_report *r) {
    lf_buffer_printf(out,
                     "\"device\":\"%s\",\"parallel\":%u,\"context\":%" PRIu64
                     ",\"chunk_rows\":%u,\"threads\":%u,\"kv_position_bytes\":%" PRIu64
                     ",\"launch_bytes\":%" PRIu64 ",\"lines\":{",
                     r->device, r->parallel, r->context, r->chunk_rows, r->threads,
                     r->kv_position_bytes, r->launch_bytes);
    for (uint32_t i = 0; i < r->n_lines; i++)
        lf_buffer_printf(out, "%s\"%s\":%" PRIu64, i ? "," : "", r->line[i].name,
                         r->line[i].planned_bytes);
    lf_buffer_printf(out,
                     "},\"need_bytes\":%" PRIu64 ",\"budget_bytes\":%" PRIu64
                     ",\"reserve_bytes\":%" PRIu64 ",\"available_bytes\":%" PRIu64
                     ",\"total_bytes\":%" PRIu64,
                     r->need_bytes, r->budget_bytes, r->reserve_bytes, r->available_bytes,
                     r->total_bytes);
    if (r->host_need_bytes)
        print_host(out, r);
}
