#include "replies.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "env.h"

static json_t *items_read(json_t **file) {
    char path[4096];
    const char *root = env_value("LF_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/data/demo-eval.json", root ? root : ".");
    *file = json_load_file(path, 0, NULL);
    json_t *items = json_object_get(*file, "items");
    if (!json_is_array(items))
        lf_golden_die("%s: no items", path);
    return items;
}

static bool usable(const json_t *item, uint32_t rows_max) {
    const char *kind = json_string_value(json_object_get(item, "kind"));
    size_t n = json_array_size(json_object_get(item, "prompt_ids"));
    return n && n <= rows_max && kind && strcmp(kind, "image");
}

uint32_t lf_eval_read(struct lf_eval_prompt *out, uint32_t n, uint32_t rows_max) {
    json_t *file, *items = items_read(&file), *item, *id;
    uint32_t there = 0, seen = 0, got = 0;
    size_t i, j;
    json_array_foreach(items, i, item)
        there += usable(item, rows_max);
    json_array_foreach(items, i, item) {
        // Every (there / n)th of them.
        if (!usable(item, rows_max) || (uint64_t)seen++ * n / there != got || got == n)
            continue;
        json_t *ids = json_object_get(item, "prompt_ids");
        struct lf_eval_prompt *p = &out[got++];
        p->n = (uint32_t)json_array_size(ids);
        p->kind = strdup(json_string_value(json_object_get(item, "kind")));
        p->id = malloc(p->n * sizeof *p->id);
        if (!p->id || !p->kind)
            lf_golden_die("out of memory for prompts");
        json_array_foreach(ids, j, id)
            p->id[j] = (uint32_t)json_integer_value(id);
    }
    json_decref(file);
    return got;
}

void lf_eval_free(struct lf_eval_prompt *prompt, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        free(prompt[i].id);
        free((void *)(uintptr_t)prompt[i].kind);
    }
}

struct lf_engine *lf_reply_engine(struct lf_target *target,
                                  const struct lf_engine_options *options) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_engine *engine;
    lf_exact_must(lf_engine_start(&engine, target, options, NULL, &err), &err);
    return engine;
}

void lf_reply_all(struct lf_engine *engine, const struct lf_eval_prompt *prompt,
                  const struct lf_sampling *rule, uint32_t n, struct lf_reply *out) {
    static const uint32_t end_id = 1;
    struct lf_error err = LF_ERROR_INIT;
    struct heard heard[KIT_SLOTS];
    assert_true(n <= KIT_SLOTS);
    for (uint32_t i = 0; i < n; i++) {
        struct lf_request r = {.prompt = prompt->id, .prompt_len = prompt->n,
                               .max_tokens = LF_REPLY_MAX, .sampling = rule[i], .eos = &end_id,
                               .n_eos = 1};
        heard_init(&heard[i]);
        lf_exact_must(lf_engine_submit(engine, i + 1, &r, &kit_sink, &heard[i], &err), &err);
    }
    for (uint32_t i = 0; i < n; i++) {
        heard_wait(&heard[i]);
        assert_true(heard[i].why == LF_DONE_EOS || heard[i].why == LF_DONE_LENGTH);
        assert_true(heard[i].ids.len && heard[i].ids.len <= LF_REPLY_MAX);
        out[i].n = (uint32_t)heard[i].ids.len;
        out[i].stats = heard[i].stats;
        memcpy(out[i].id, heard[i].ids.id, heard[i].ids.len * sizeof *out[i].id);
        heard_free(&heard[i]);
    }
}

void lf_reply_same(const char *what, const struct lf_reply *got, const struct lf_reply *want) {
    uint32_t at = 0;
    while (at < got->n && at < want->n && got->id[at] == want->id[at])
        at++;
    if (at < got->n || at < want->n)
        lf_exact_differ("replies", "%s: %u tokens against %u, equal up to %u", what, got->n,
                        want->n, at);
}
