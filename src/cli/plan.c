#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include "cli/serve_flags.h"
#include "lane/session.h"
#include "serve/plan_json.h"
#include "text/json_text.h"

// The guidance as a list, one text a way out.
static void print_ways(struct lf_buffer *out, const struct lf_memory *memory) {
    struct lf_buffer text = {0};
    if (memory->fits)
        return;
    lf_budget_print_ways(&text, &memory->ask, memory->budget.bytes);
    lf_buffer_add_text(out, ",\"ways\":[");
    for (const char *line = text.failed ? "" : text.data; *line;) {
        size_t len = strcspn(line, "\n");
        lf_buffer_add_text(out, line == text.data ? "" : ",");
        lf_json_print_string(out, line, len);
        line += len + 1;
    }
    lf_buffer_add_text(out, "]");
    out->failed = out->failed || text.failed;
    lf_buffer_free(&text);
}

static enum lf_status print(const struct lf_memory *memory, bool json, struct lf_error *err) {
    struct lf_buffer out = {0};
    if (json) {
        struct lf_memory_report report;
        lf_memory_report(&report, memory, NULL);
        lf_buffer_add_text(&out, "{");
        lf_plan_print_json(&out, &report);
        lf_buffer_printf(&out, ",\"disk_bytes\":%llu,\"spill_bytes\":%llu,\"fits\":%s",
                         (unsigned long long)(memory->ask.weight_bytes + memory->ask.table_bytes),
                         (unsigned long long)memory->spill_bytes,
                         memory->fits ? "true" : "false");
        print_ways(&out, memory);
        lf_buffer_add_text(&out, "}\n");
    } else {
        lf_memory_print(&out, memory);
    }
    if (out.failed)
        lf_fail(err, LF_E_MEM, "out of memory for the plan");
    else
        fputs(out.data, stdout);
    lf_buffer_free(&out);
    return err->status;
}

enum lf_status lf_command_plan(int argc, char **argv, struct lf_error *err) {
    struct serve_flags f = SERVE_FLAGS_INIT;
    bool json = false;
    struct lf_flag flag[] = {
        {.name = "json", .kind = LF_FLAG_ON, .out = &json, .help = "as one JSON object"},
#include "cli/serve_flags.def"
    };
    size_t n = sizeof flag / sizeof *flag;
    struct lf_positionals model;
    struct lf_session session = {.text_optional = true};
    LF_TRY(lf_flags_parse(flag, n, argc, argv, &model, 1, err));
    if (f.help) {
        lf_flags_print("plan [MODEL] [options of serve]",
                       "The memory that serving needs; exit code 1 when it does not fit.", flag, n);
        return LF_OK;
    }
    struct lf_engine_options options = lf_serve_engine_options(&f);
    LF_TRY(lf_engine_flags_dummy(&options, &f.engine, err));
    enum lf_status status =
        lf_session_plan(&session, model.n ? model.value[0] : NULL, &options, err);
    if (status == LF_OK)
        status = print(&session.memory, json, err);
    if (status == LF_OK)
        status = lf_memory_require(&session.memory, err);
    lf_session_close(&session);
    return status;
}
