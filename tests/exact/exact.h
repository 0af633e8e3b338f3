// Passes of the demo model whose bits are compared: logits, taps and the state (engine.md 9.3).
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "golden.h"
#include "lane/place.h"
#include "model/v41.h"

enum {
    LF_EXACT_CONTEXT = 2048,
    LF_EXACT_VOCAB = 2304,
    LF_EXACT_TAPS = 31, // rows whose taps every boundary leaves: the window less one
    LF_EXACT_TAP_SIZE = 768,
};

// The model's folder, where it runs, and a long text: the golden prompt recall, over and over.
struct lf_exact {
    struct lf_demo demo;
    struct lf_place place;
    struct lf_golden prompt;
    uint32_t ids[2 * LF_EXACT_CONTEXT];
};
void lf_exact_open(struct lf_exact *exact);
void lf_exact_close(struct lf_exact *exact);
// A target with that many slots and threads (0: the default) and storage for the whole context.
struct lf_target *lf_exact_target(struct lf_exact *exact, const struct lf_model_options *options);

// What kernels read and wrote, wherever that is.
void lf_exact_read(struct lf_target *target, void *to, const void *from, size_t bytes);
void lf_exact_write(struct lf_target *target, void *to, const void *from, size_t bytes);
// Bytes of NaN codes.
void lf_exact_spoil(struct lf_target *target, void *at, size_t bytes);

// What must not differ by a bit.
struct lf_outcome {
    float logits[LF_EXACT_VOCAB]; // of the last row
    uint64_t length;
    uint16_t tap[LF_EXACT_TAPS][LF_EXACT_TAP_SIZE]; // of the newest rows, the newest first
    uint8_t digest[32];
};
// Compares all words; the test fails naming what and how many words differ.
void lf_outcome_same(const char *what, const struct lf_outcome *got,
                     const struct lf_outcome *want);
// The first part that differs: "logits", "taps" or "state"; NULL: none.
const char *lf_outcome_differs(const struct lf_outcome *got, const struct lf_outcome *want);
// The slot as it is: after a prefill that wanted logits, or before the keep of a one-row window.
void lf_outcome_read(struct lf_target *target, uint32_t slot, struct lf_outcome *out);
// The same without the logits.
void lf_outcome_state(struct lf_target *target, uint32_t slot, struct lf_outcome *out);
// A difference of bytes in what is compared; the test fails with the words of format.
void lf_exact_differ(const char *part, const char *format, ...) LF_PRINTF(2, 3);

// Chunk sizes of a pass: all of `rows` rows, or between 1 and `most` by a seed.
struct lf_cut {
    uint32_t rows;
    uint32_t most;
    uint64_t seed;
};
// Resets the slot and prefills ids[0 .. rows-1]; the plan is the end with logits unless given.
void lf_exact_prefill(struct lf_target *target, uint32_t slot, const uint32_t *ids, uint32_t rows,
                      struct lf_cut cut, const struct lf_bound *plan, uint32_t n_plan);
// One round of one row: its logits, then kept.
void lf_exact_round(struct lf_target *target, uint32_t slot, uint64_t position, uint32_t token,
                    float logits[LF_EXACT_VOCAB]);
void lf_exact_must(enum lf_status status, const struct lf_error *err);

// The program: [--test PATTERN] [--device NAME] [--expect-red PART], which has to differ to pass.
int lf_exact_main(int argc, char **argv, const struct CMUnitTest *test, size_t n,
                  CMFixtureFunction open, CMFixtureFunction close);
