// The gates of kernel-contract.md 2 to 5, one shape at a time.
#pragma once
#include "contract/trial.h"

void lf_gate_bound(struct lf_trial *trial, const struct lf_shape *shape);
void lf_gate_rows(struct lf_trial *trial, const struct lf_shape *shape);
void lf_gate_memory(struct lf_trial *trial, const struct lf_shape *shape);
void lf_gate_edges(struct lf_trial *trial, const struct lf_shape *shape);
// Bytes of stack one launch takes on the present instruction set, its pool's thread being its own.
struct lf_launch;
size_t lf_stack_measure(struct lf_launch *launch);
