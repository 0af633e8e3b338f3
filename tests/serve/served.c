#include "served.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "support/env.h"

void served_open(struct served *s, const struct served_plan *plan) {
    struct lf_error err = LF_ERROR_INIT;
    char path[512];
    *s = (struct served){0};
    snprintf(path, sizeof path, "%s/models/demo/tokenizer.json", env_value("LF_SOURCE_ROOT"));
    assert_int_equal(lf_tokenizer_open(&s->tokenizer, path, &err), LF_OK);
    assert_int_equal(lf_controls_find(&s->controls, s->tokenizer, SERVED_EOS, SERVED_IMAGE, &err),
                     LF_OK);
    if (plan->script) {
        assert_int_equal(lf_tokenizer_encode(s->tokenizer, plan->script, strlen(plan->script), true,
                                             &s->script, &err),
                         LF_OK);
        size_t once = s->script.len;
        for (size_t i = once; i < once * plan->repeat; i++)
            lf_ids_add(&s->script, s->script.id[i - once]);
        lf_ids_add(&s->script, SERVED_EOS);
    }
    struct lf_fake_options fake = {.slots = plan->slots ? plan->slots : 1,
                                   .vocab = lf_tokenizer_size(s->tokenizer),
                                   .chunk_rows = 16,
                                   .context = plan->context ? plan->context : SERVED_CONTEXT,
                                   .launch_us = plan->launch_us,
                                   .drafter = plan->drafter,
                                   .script = s->script.id,
                                   .n_script = (uint32_t)s->script.len,
                                   .fail_launch = plan->fail_launch,
                                   .storage = plan->storage};
    struct lf_engine_options engine = {.queue_max = plan->queue,
                                       .queue_timeout_s = plan->queue_timeout_s};
    if (plan->drafter.present) {
        engine.drafts = LF_DRAFTS_ON;
        engine.draft_depth = 3;
    }
    assert_int_equal(lf_engine_start(&s->engine, lf_fake_target_open(&fake), &engine, NULL, &err),
                     LF_OK);
    struct lf_server_options options = plan->options;
    options.name = "demo";
    assert_int_equal(lf_server_open(&s->server, &options, s->engine, s->tokenizer, &s->controls,
                                    &err),
                     LF_OK);
    s->url = lf_server_url(s->server);
}

void served_close(struct served *s) {
    lf_server_stop(s->server, 0); // NULL: a test stopped it
    lf_engine_close(s->engine, 0);
    lf_tokenizer_close(s->tokenizer);
    lf_ids_free(&s->script);
}

bool served_wait(struct served *s, uint32_t running, uint32_t waiting) {
    struct lf_engine_status status = {0};
    for (int i = 0; i < 400; i++) {
        lf_engine_status_read(s->engine, &status);
        if (status.running == running && status.waiting == waiting)
            return true;
        usleep(5000);
    }
    return false;
}
