// Cosines and sines of a row as the positions' tables hold them, for records of rotations.
#pragma once
#include "contract/record.h"

void lf_rope_fill_cos(const struct lf_fill *fill, void *data, size_t n);
void lf_rope_fill_sin(const struct lf_fill *fill, void *data, size_t n);
