#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/engine_flags.h"
#include "contract/verify.h"
#include "format/dummy.h"
#include "lane/session.h"

// Chunks of a prompt that is read for its state alone.
enum { CHUNK_ROWS = 256 };

struct verify_flags {
    struct lf_engine_flags engine;
    const char *layers;
    uint32_t n_layers; // read into engine.layer
    bool help;
};

static const char prompt[] =
    "The harbour wakes before the town does. A clerk counts 1,204 crates of lamps, writes the sum "
    "twice, and asks the master of the ship where each of them is bound. \"Nine ports,\" he says, "
    "\"and the last one only if the ice allows it.\" She draws the route on a map: islands first, "
    "then the long coast, then a river that nobody has measured. def port(n): return n % 9\n";

// A text where there is a tokenizer, else ids spread over the vocabulary.
static enum lf_status make_ids(struct lf_ids *ids, const struct lf_session *s, uint32_t rows,
                               struct lf_error *err) {
    lf_ids_add(ids, s->topology->bos_id);
    while (ids->len < rows && !ids->failed) {
        if (!s->tokenizer)
            lf_ids_add(ids, (uint32_t)(ids->len * 2654435761u % s->topology->vocab));
        else
            LF_TRY(lf_tokenizer_encode(s->tokenizer, prompt, sizeof prompt - 1, false, ids, err));
    }
    return ids->failed ? lf_fail(err, LF_E_MEM, "out of memory for a prompt") : LF_OK;
}

static enum lf_status judge(struct lf_target *target, const struct lf_session *s,
                            const struct verify_flags *f, struct lf_error *err) {
    struct lf_ids ids = {0};
    struct lf_verify_result r;
    uint32_t rows = lf_verify_prompt_rows(s->topology);
    uint32_t number[LF_LAYERS_MAX];
    bool cut = lf_checkpoint_is_dummy(s->checkpoint);
    for (uint32_t i = 0; i < LF_LAYERS_MAX; i++)
        number[i] = i;
    if (rows > target->ops->info(target)->context)
        return lf_fail(err, LF_E_MEM, "a prompt of %u rows is needed, a context of %llu fits", rows,
                       (unsigned long long)target->ops->info(target)->context);
    if (make_ids(&ids, s, rows, err) == LF_OK &&
        target->ops->grow(target, 0, rows, err) == LF_OK) {
        struct lf_verify_options o = {.ids = ids.id, .n_ids = rows, .out = stdout};
        // Of made-up weights the layers that were not named are not there: all that are count.
        o.layer = cut ? number : f->engine.layer;
        o.n_layers = f->n_layers;
        o.name = cut && f->n_layers ? f->engine.layer : NULL;
        if (lf_verify_run(target, &o, &r, err) == LF_OK) {
            printf("SUMMARY %u layers, %u draft blocks, %u stages, %u over, %u missing, %llu "
                   "differing, worst %.4f%s%s\n", r.layers, r.draft_blocks, r.stages, r.over,
                   r.missing,
                   (unsigned long long)r.differing, r.worst,
                   *r.unregistered ? "; no record: " : "", r.unregistered);
            if (r.over || r.missing || r.differing)
                lf_fail(err, LF_E_VALUE, "%s", "");
        }
    }
    lf_ids_free(&ids);
    return err->status;
}

enum lf_status lf_command_verify(int argc, char **argv, struct lf_error *err) {
    struct verify_flags f = {.engine = LF_ENGINE_FLAGS_INIT};
    struct lf_flag flag[] = {
        {.name = "layers", .kind = LF_FLAG_TEXT, .out = &f.layers,
         .help = "ids such as 2,21; default: the first layer of each kind"},
        LF_DUMMY_SEED_FLAG(f.engine), LF_TABLE_ROWS_FLAG(f.engine), LF_THREADS_FLAG(f.engine),
        LF_PIN_FLAG(f.engine), LF_ISA_FLAG(f.engine),
        {.name = "help", .kind = LF_FLAG_ON, .out = &f.help, .help = "this text"},
    };
    size_t n = sizeof flag / sizeof *flag;
    struct lf_positionals model;
    struct lf_session session = {.text_optional = true};
    struct lf_target *target = NULL;
    LF_TRY(lf_flags_parse(flag, n, argc, argv, &model, 1, err));
    if (f.help) {
        lf_flags_print("verify [MODEL] [options]",
                       "Real layers against float64, stage by stage; exit code 1 past a limit.",
                       flag, n);
        return LF_OK;
    }
    struct lf_engine_options options = lf_engine_flags_single(&f.engine);
    options.chunk_rows = CHUNK_ROWS;
    // Stages are judged where the host reads them.
    options.device = "cpu";
    options.drafts = LF_DRAFTS_AUTO;
    LF_TRY(lf_engine_flags_dummy(&options, &f.engine, err));
    LF_TRY(lf_engine_flags_layers(&f.engine, f.layers, &f.n_layers, err));
    options.n_dummy_layers = options.dummy_weights ? f.n_layers : 0;
    if (lf_session_plan(&session, model.n ? model.value[0] : NULL, &options, err) == LF_OK &&
        lf_session_load(&session, options.isa, &target, err) == LF_OK)
        judge(target, &session, &f, err);
    if (target)
        target->ops->close(target);
    lf_session_close(&session);
    return err->status;
}
