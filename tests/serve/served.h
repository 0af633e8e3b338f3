// A whole server over the real lane engine and a scripted target, for tests.
#pragma once
#include "lane/engine.h"
#include "serve/server.h"
#include "support/fake_target.h"

enum { SERVED_EOS = 1, SERVED_IMAGE = 2292, SERVED_CONTEXT = 512 };

struct served {
    struct lf_tokenizer *tokenizer;
    struct lf_controls controls;
    struct lf_engine *engine;
    struct lf_server *server;
    struct lf_ids script;
    const char *url;
};

struct served_plan {
    const char *script; // text with added tokens, NULL: hashed ids; the end token is added
    uint32_t slots, queue, launch_us, fail_launch;
    uint32_t context, repeat; // 0: SERVED_CONTEXT, once
    uint64_t storage; // positions of all slots together; 0: no limit
    double queue_timeout_s;
    struct lf_fake_drafter drafter; // absent unless present
    struct lf_server_options options;
};

void served_open(struct served *s, const struct served_plan *plan);
void served_close(struct served *s);
// Waits until the engine runs and queues this many; false after two seconds.
bool served_wait(struct served *s, uint32_t running, uint32_t waiting);
