#include "serve/plan_json.h"

#include <inttypes.h>

void lf_plan_print_json(struct lf_buffer *out, const struct lf_memory_report *r) {
    lf_buffer_printf(out,
                     "\"parallel\":%u,\"context\":%" PRIu64 ",\"chunk_rows\":%u,\"threads\":%u,"
                     "\"kv_position_bytes\":%" PRIu64 ",\"launch_bytes\":%" PRIu64 ",\"lines\":{",
                     r->parallel, r->context, r->chunk_rows, r->threads, r->kv_position_bytes,
                     r->launch_bytes);
    for (uint32_t i = 0; i < r->n_lines; i++)
        lf_buffer_printf(out, "%s\"%s\":%" PRIu64, i ? "," : "", r->line[i].name,
                         r->line[i].planned_bytes);
    lf_buffer_printf(out,
                     "},\"need_bytes\":%" PRIu64 ",\"budget_bytes\":%" PRIu64
                     ",\"reserve_bytes\":%" PRIu64 ",\"available_bytes\":%" PRIu64
                     ",\"total_bytes\":%" PRIu64,
                     r->need_bytes, r->budget_bytes, r->reserve_bytes, r->available_bytes,
                     r->total_bytes);
}
