// Checks of values against goldens: tallied element by element, judged against stated bounds.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct lf_report {
    bool expect_red; // the first red check ends the program with success, no red one with failure
    uint32_t checks, red;
};

// One line a check; a red one is counted.
void lf_report_check(struct lf_report *report, bool ok, const char *format, ...) LF_PRINTF(3, 4);
// The exit status after the last check.
int lf_report_end(const struct lf_report *report);

// The elements of one stage of one prompt.
struct lf_tally {
    const char *stage;
    double share; // least share of elements that must be equal
    double slack; // float32: what counts as equal, in units of the row's greatest magnitude
    double reach; // float32: what an unequal element may be off, in units of the slack; 0: 1
    size_t n, equal;
    double worst; // greatest difference in units of what is allowed
};

// The spacing of bf16 at a magnitude.
double lf_spacing_bf16(double magnitude);
// bf16: unequal ones may differ by one spacing of the greater.
void lf_tally_bf16(struct lf_tally *tally, const uint16_t *got, const uint16_t *want, size_t n);
void lf_tally_f32(struct lf_tally *tally, const float *got, const float *want, size_t n);
// One value; an unequal one may be off by step.
void lf_tally_step(struct lf_tally *tally, float got, float want, double step);
// Integers: all equal or counted as unequal and beyond any bound.
void lf_tally_ids(struct lf_tally *tally, const uint32_t *got, const int32_t *want, size_t n);
// Judges and prints the tally, where it holds anything.
void lf_report_tally(struct lf_report *report, const char *prompt, const struct lf_tally *tally);
// |got - want| / |want| over n bf16 values.
double lf_distance_bf16(const uint16_t *got, const uint16_t *want, size_t n);
