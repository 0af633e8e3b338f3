#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include "cli/flags.h"
#include "device/placement.h"
#include "lane/session.h"
#include "text/json_text.h"

static const char *const format_names[LF_WEIGHT_FORMATS] = {"bf16", "f16", "f32", "fp8", "mxfp4"};

static void print_layers(const struct lf_topology *t) {
    uint32_t kinds[3] = {0};
    for (uint32_t l = 0; l < t->layers; l++)
        kinds[t->ratio[l]]++;
    printf("layers           %u: %u window only, %u of ratio 2, %u of ratio 1; %u draft blocks\n",
           t->layers, kinds[0], kinds[2], kinds[1], t->draft_layers);
    printf("width            hidden %u, %u heads of %u, window %u, %u positions\n", t->hidden,
           t->heads, t->head_dim, t->window, t->positions_max);
    printf("experts          %u of width %u, %u active, %u shared\n", t->experts, t->expert_dim,
           t->experts_top, t->shared_experts);
    printf("vocabulary       %u, %u Engram classes\n", t->vocab, t->engram_classes);
}

static void print_serving(const struct lf_checkpoint_summary *s) {
    printf("text             %s\n", s->has_engram_tables ? "can be served"
                                                         : "cannot be served: no Engram tables");
    printf("drafts           %s\n", s->has_drafts ? "can be made" : "no draft tensors");
    if (!s->has_vision)
        puts("images           no tower in this checkpoint");
    else if (s->bias_vl_missing)
        printf("images           refused: %llu bias_vl tensors are missing\n",
               (unsigned long long)s->bias_vl_missing);
    else
        puts("images           tower present; this build serves text only");
}

// What a server would take without flags.
static enum lf_status print_machine(struct lf_error *err) {
    struct lf_buffer line = {0};
    struct lf_placement placement;
    LF_TRY(lf_placement_read(&placement, 0, LF_PIN_AUTO, err));
    lf_placement_print(&line, &placement);
    printf("this machine     %s\n", line.failed ? "" : line.data);
    lf_buffer_free(&line);
    return LF_OK;
}

static void print_text(const struct lf_session *session, const struct lf_checkpoint_summary *s) {
    printf("model            %s\n", lf_session_name(session));
    printf("config sha256    %s\n", s->config_sha256);
    printf("files            %u%s, %u missing\n", s->files, s->indexed ? " by index" : "",
           s->files_missing);
    printf("tensors          %llu, %llu bytes\n", (unsigned long long)s->tensors,
           (unsigned long long)s->payload_bytes);
    fputs("linear maps     ", stdout);
    for (int f = 0; f < LF_WEIGHT_FORMATS; f++)
        if (s->linears[f])
            printf(" %s %llu", format_names[f], (unsigned long long)s->linears[f]);
    puts("");
    print_layers(session->topology);
    print_serving(s);
    if (s->total_claimed && s->total_claimed != s->payload_bytes)
        printf("note             the index says %llu bytes\n",
               (unsigned long long)s->total_claimed);
    for (uint64_t i = 0; i < s->bias_rounded; i++)
        printf("note             %s is not F32\n", s->bias_rounded_name[i]);
    printf("ignored tensors  %llu\n", (unsigned long long)s->ignored);
    for (uint64_t i = 0; i < s->ignored; i++)
        printf("  %s\n", s->ignored_name[i]);
}

static void print_json(const struct lf_session *session, const struct lf_checkpoint_summary *s) {
    const struct lf_topology *t = session->topology;
    struct lf_buffer out = {0};
    const char *name = lf_session_name(session);
    lf_buffer_add_text(&out, "{\"model\":");
    lf_json_print_string(&out, name, strlen(name));
    lf_buffer_printf(&out,
                     ",\"config_sha256\":\"%s\",\"files\":%u,\"files_missing\":%u,"
                     "\"tensors\":%llu,\"payload_bytes\":%llu,\"linears\":{",
                     s->config_sha256, s->files, s->files_missing,
                     (unsigned long long)s->tensors, (unsigned long long)s->payload_bytes);
    for (int f = 0, first = 1; f < LF_WEIGHT_FORMATS; f++)
        if (s->linears[f]) {
            lf_buffer_printf(&out, "%s\"%s\":%llu", first ? "" : ",", format_names[f],
                             (unsigned long long)s->linears[f]);
            first = 0;
        }
    lf_buffer_printf(&out,
                     "},\"layers\":%u,\"draft_layers\":%u,\"hidden\":%u,\"vocab\":%u,"
                     "\"positions\":%u,\"experts\":%u,\"text\":%s,\"drafts\":%s,"
                     "\"images\":false,\"ignored\":[",
                     t->layers, t->draft_layers, t->hidden, t->vocab, t->positions_max,
                     t->experts, s->has_engram_tables ? "true" : "false",
                     s->has_drafts ? "true" : "false");
    for (uint64_t i = 0; i < s->ignored; i++) {
        lf_buffer_add_text(&out, i ? "," : "");
        lf_json_print_string(&out, s->ignored_name[i], strlen(s->ignored_name[i]));
    }
    lf_buffer_add_text(&out, "]}");
    puts(out.failed ? "" : out.data);
    lf_buffer_free(&out);
}

enum lf_status lf_command_info(int argc, char **argv, struct lf_error *err) {
    bool json = false, help = false;
    struct lf_flag flag[] = {
        {.name = "json", .kind = LF_FLAG_ON, .out = &json, .help = "as one JSON object"},
        {.name = "help", .kind = LF_FLAG_ON, .out = &help, .help = "this text"},
    };
    struct lf_positionals model;
    struct lf_session session = {0};
    struct lf_checkpoint_summary summary;
    LF_TRY(lf_flags_parse(flag, sizeof flag / sizeof *flag, argc, argv, &model, 1, err));
    if (help) {
        lf_flags_print("info [MODEL] [options]", "What a checkpoint is and what can be served.",
                       flag, sizeof flag / sizeof *flag);
        return LF_OK;
    }
    if (lf_session_open(&session, model.n ? model.value[0] : NULL, NULL, err) == LF_OK) {
        lf_checkpoint_summary(session.checkpoint, &summary);
        if (json)
            print_json(&session, &summary);
        else
            print_text(&session, &summary);
    }
    if (err->status == LF_OK && !json)
        (void)!print_machine(err);
    lf_session_close(&session);
    return err->status;
}
