// When a reply must stop thinking: its budget (prompts.md 12.9) and the loop guard (engine.md L-6).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "lanefold.h"

enum { LF_LOOP_PERIOD = 8, LF_LOOP_TOKENS = 256 };

// All of it follows from the ids heard so far; zeros with open and n 0 are a reply's start.
struct lf_thinking {
    uint32_t close;  // the id that ends reasoning
    uint32_t budget; // ids after which it must come, 0: none
    bool guard;      // an exact cycle closes too
    bool closed;     // reasoning is over, or there was none
    uint32_t n, closed_at; // ids heard; how many when it closed
    bool looped;
    uint32_t looped_at;            // ids heard when the guard fired
    uint32_t last[LF_LOOP_PERIOD]; // newest ids, by index modulo the period
    uint32_t run[LF_LOOP_PERIOD];  // newest ids in a row that equal the one 1, 2, ... before them
};

// The next id of the reply; open: whether reasoning is open after it.
void lf_thinking_hear(struct lf_thinking *thinking, uint32_t id, bool open);
// The request's path; ctx: a struct lf_thinking that heard the ids, or more after a yield.
lf_path_fn lf_thinking_path;
