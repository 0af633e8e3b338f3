// A target that reads prompts and saves states: shared pages, exact bytes, failures on demand.
#pragma once
#include <stdint.h>
#include "model/target.h"

enum { LF_SAVER_VOCAB = 1000 };

// All that its saves hold, for tests to look at and to make fail.
struct lf_fake_saves {
    uint64_t total_bytes, cap_bytes; // past the cap a save aborts; 0: no cap
    uint32_t fail_saves, fail_restores; // so many of the next ones fail with LF_E_MEM
};

// Draws and digests are those of lf_fake_next. Close through ops.
struct lf_target *lf_fake_saver_open(uint32_t slots, uint64_t context);
struct lf_fake_saves *lf_fake_saves(struct lf_target *target);
