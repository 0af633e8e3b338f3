// The demo model's tokenizer, open while a group of tests runs.
#pragma once
#include "data.h"

static struct lf_tokenizer *demo;

static inline int open_demo(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    demo = open_tokenizer("LF_SOURCE_ROOT", "models/demo/tokenizer.json", &err);
    return demo ? 0 : -1;
}

static inline int close_demo(void **state) {
    (void)state;
    lf_tokenizer_close(demo);
    return 0;
}
