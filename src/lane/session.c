#include "lane/session.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "device/bind.h"
#include "format/dummy.h"
#include "lane/spill_dir.h"
#include "model/model.h"

// Beside a program or library: the tree it was built in, or share/lanefold where it is installed.
static bool is_demo_beside(char *folder, size_t bytes, const char *file) {
    static const char *const places[] = {"../share/lanefold/demo", "../../share/lanefold/demo",
                                         "../../models/demo", "../models/demo"};
    const char *slash = strrchr(file, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        char config[4096];
        int length = snprintf(config, sizeof config, "%.*s/%s/config.json", (int)(slash - file),
                              file, places[i]);
        if (length >= (int)sizeof config || access(config, R_OK) != 0)
            continue;
        snprintf(folder, bytes, "%.*s/%s", (int)(slash - file), file, places[i]);
        return true;
    }
    return false;
}

static enum lf_status find_demo(char *folder, size_t bytes, struct lf_error *err) {
    static const char here;
    char program[3072];
    Dl_info library;
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    program[len < 0 ? 0 : len] = 0;
    if (is_demo_beside(folder, bytes, program))
        return LF_OK;
    if (dladdr(&here, &library) && is_demo_beside(folder, bytes, library.dli_fname))
        return LF_OK;
    return lf_fail(err, LF_E_NOT_FOUND,
                   "the demo model is not beside this program: name a MODEL folder");
}

static enum lf_status open_checkpoint(struct lf_session *s, const struct lf_engine_options *o,
                                      struct lf_error *err) {
    if (!o || !o->dummy_weights)
        return lf_checkpoint_open(&s->checkpoint, s->folder, err);
    struct lf_dummy dummy = {.seed = o->dummy_seed, .layer = o->dummy_layer,
                             .n_layers = o->n_dummy_layers, .shared = o->dummy_shared,
                             .table_rows = o->dummy_table_rows ? o->dummy_table_rows
                                                               : LF_DUMMY_TABLE_ROWS};
    return lf_checkpoint_open_dummy(&s->checkpoint, s->folder, &dummy, err);
}

static enum lf_status open_text(struct lf_session *s, struct lf_error *err) {
    char path[4352];
    snprintf(path, sizeof path, "%s/tokenizer.json", s->folder);
    if (lf_checkpoint_is_dummy(s->checkpoint) && access(path, F_OK) != 0) {
        if (s->text_optional)
            return LF_OK;
        return lf_fail(err, LF_E_MISSING, "%s is not there: made-up weights need no other files, "
                                          "but text needs a tokenizer", path);
    }
    LF_TRY(lf_tokenizer_open(&s->tokenizer, path, err));
    if (lf_tokenizer_size(s->tokenizer) != s->topology->vocab)
        return lf_fail(err, LF_E_FORMAT, "%s has %u ids, config.json vocab_size says %u", path,
                       lf_tokenizer_size(s->tokenizer), s->topology->vocab);
    return lf_controls_find(&s->controls, s->tokenizer, s->topology->eos_id, s->topology->image_id,
                            err);
}

enum lf_status lf_session_open(struct lf_session *s, const char *model,
                               const struct lf_engine_options *options, struct lf_error *err) {
    if (model)
        LF_TRY(lf_model_find(s->folder, sizeof s->folder, model, err));
    else
        LF_TRY(find_demo(s->folder, sizeof s->folder, err));
    LF_TRY(open_checkpoint(s, options, err));
    s->topology = lf_checkpoint_topology(s->checkpoint);
    LF_TRY(lf_generation_read(&s->generation, s->folder, err));
    return open_text(s, err);
}

static enum lf_status plan(struct lf_session *s, const struct lf_engine_options *options,
                           struct lf_error *err) {
    LF_TRY(lf_place_check(&s->place, s->topology, err));
    return lf_memory_plan(&s->memory, s->checkpoint, s->tokenizer, options, err);
}

// A device that nobody named gives way to the CPU where the model cannot run on it.
static enum lf_status plan_somewhere(struct lf_session *s, const struct lf_engine_options *options,
                                     struct lf_error *err) {
    struct lf_error why = LF_ERROR_INIT;
    if (!s->place.chosen || !s->place.cuda)
        return plan(s, options, err);
    if (plan(s, options, &why) == LF_OK && lf_memory_require(&s->memory, &why) == LF_OK)
        return LF_OK;
    lf_place_leave(&s->place, why.text);
    LF_TRY(lf_memory_budget(&s->memory, &s->place, options, err));
    return plan(s, options, err);
}

enum lf_status lf_session_plan(struct lf_session *s, const char *model,
                               const struct lf_engine_options *options, struct lf_error *err) {
    LF_TRY(lf_place_open(&s->place, options->device, options->device_wait_s, err));
    LF_TRY(lf_memory_budget(&s->memory, &s->place, options, err));
    LF_TRY(lf_session_open(s, model, options, err));
    if (options->spill_dir)
        LF_TRY(lf_spill_dir_check(options->spill_dir, s->folder, err));
    return plan_somewhere(s, options, err);
}

// The plan's lines go to the log; nothing is loaded when it does not fit (M-3).
static enum lf_status require(const struct lf_memory *memory, struct lf_error *err) {
    struct lf_buffer text = {0};
    lf_memory_print(&text, memory);
    for (char *line = text.failed ? NULL : text.data, *end; line && *line; line = end + 1) {
        end = line + strcspn(line, "\n");
        *end = 0;
        lf_log(LF_LOG_INFO, "plan: %s", line);
    }
    lf_buffer_free(&text);
    return lf_memory_require(memory, err);
}

// Made-up weights are written by a pool of their own; a device writes most of its own itself.
static enum lf_status fill_weights(struct lf_session *s, struct lf_error *err) {
    struct lf_pool *pool;
    LF_TRY(lf_pool_open_at(&pool, &s->memory.placement, 1, err));
    if (s->place.cuda)
        lf_dummy_leave_maps(s->checkpoint);
    lf_pool_run(pool, lf_dummy_parts(s->checkpoint, s->memory.ask.drafter), lf_dummy_fill,
                s->checkpoint);
    lf_pool_close(pool);
    return LF_OK;
}

static enum lf_status build_map(struct lf_session *s, struct lf_error *err) {
    uint32_t classes = s->topology->n_engram ? s->topology->engram_classes : 0;
    if (s->tokenizer)
        return lf_token_map_build(&s->map, s->tokenizer, classes, err);
    return lf_token_map_made_up(&s->map, s->topology->vocab, classes, err);
}

enum lf_status lf_session_load(struct lf_session *s, const char *isa, struct lf_target **out,
                               struct lf_error *err) {
    const struct lf_plan_ask *ask = &s->memory.ask;
    struct lf_model_options options = {.device = lf_place_model(&s->place),
                                       .placement = &s->memory.placement,
                                       .slots = ask->slots,
                                       .context = ask->context,
                                       .chunk_rows = ask->chunk_rows,
                                       .no_drafts = !ask->drafter};
    LF_TRY(lf_isa_parse(&options.isa, isa ? isa : "auto", err));
    LF_TRY(require(&s->memory, err));
    LF_TRY(build_map(s, err));
    lf_bind_interleave(s->memory.placement.node_mask);
    if (lf_checkpoint_is_dummy(s->checkpoint))
        LF_TRY(fill_weights(s, err));
    return lf_model_open(out, s->checkpoint, &s->map, &options, err);
}

void lf_session_close(struct lf_session *s) {
    lf_token_map_free(&s->map);
    lf_tokenizer_close(s->tokenizer);
    lf_checkpoint_close(s->checkpoint);
    lf_place_close(&s->place);
    *s = (struct lf_session){0};
}

const char *lf_session_name(const struct lf_session *s) {
    const char *slash = strrchr(s->folder, '/');
    return slash ? slash + 1 : s->folder;
}
