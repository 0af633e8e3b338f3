#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"

// The demo: models/demo of the tree the binary was built in, share/lanefold/demo when installed.
static enum lf_status find_demo(char *folder, size_t bytes, struct lf_error *err) {
    static const char *const places[] = {"../share/lanefold/demo", "../../models/demo",
                                         "../models/demo"};
    char program[3072];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    if (len < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot tell where this program lies");
    program[len] = 0;
    char *slash = strrchr(program, '/');
    LF_ASSERT(slash);
    *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char config[4096];
        snprintf(folder, bytes, "%s/%s", program, places[i]);
        snprintf(config, sizeof config, "%s/%s/config.json", program, places[i]);
        if (access(config, R_OK) == 0)
            return LF_OK;
    }
    return lf_fail(err, LF_E_NOT_FOUND,
                   "the demo model is not beside this program: name a MODEL folder");
}

enum lf_status lf_session_open(struct lf_session *s, const char *model, struct lf_error *err) {
    char path[4352];
    *s = (struct lf_session){0};
    if (model)
        LF_TRY(lf_model_find(s->folder, sizeof s->folder, model, err));
    else
        LF_TRY(find_demo(s->folder, sizeof s->folder, err));
    LF_TRY(lf_checkpoint_open(&s->checkpoint, s->folder, err));
    s->topology = lf_checkpoint_topology(s->checkpoint);
    snprintf(path, sizeof path, "%s/tokenizer.json", s->folder);
    LF_TRY(lf_tokenizer_open(&s->tokenizer, path, err));
    if (lf_tokenizer_size(s->tokenizer) != s->topology->vocab)
        return lf_fail(err, LF_E_FORMAT, "%s has %u ids, config.json vocab_size says %u", path,
                       lf_tokenizer_size(s->tokenizer), s->topology->vocab);
    LF_TRY(lf_generation_read(&s->generation, s->folder, err));
    return lf_controls_find(&s->controls, s->tokenizer, s->topology->eos_id, s->topology->image_id,
                            err);
}

enum lf_status lf_session_load(struct lf_session *s, const struct lf_session_flags *flags,
                               struct lf_error *err) {
    struct lf_model_options options = {
        .threads = (uint32_t)flags->threads,
        .slots = (uint32_t)flags->parallel,
        .context = flags->context,
        .chunk_rows = (uint32_t)flags->chunk_rows,
        .no_drafts = flags->no_drafts,
    };
    LF_TRY(lf_isa_parse(&options.isa, flags->isa, err));
    uint32_t classes = s->topology->n_engram ? s->topology->engram_classes : 0;
    LF_TRY(lf_token_map_build(&s->map, s->tokenizer, classes, err));
    return lf_model_open(&s->target, s->checkpoint, &s->map, &options, err);
}

void lf_session_close(struct lf_session *s) {
    if (s->target)
        s->target->ops->close(s->target);
    lf_token_map_free(&s->map);
    lf_tokenizer_close(s->tokenizer);
    lf_checkpoint_close(s->checkpoint);
    *s = (struct lf_session){0};
}

const char *lf_session_name(const struct lf_session *s) {
    const char *slash = strrchr(s->folder, '/');
    return slash ? slash + 1 : s->folder;
}
