// Rates over several streams that ran together (bench.md section 3); NAN where unmeasured.
#pragma once
#include <stddef.h>
#include "bench/client.h"

// Each measured stream's tokens less one, from the earliest first to the latest last piece.
double lf_rates_aggregate(const struct lf_client *client, size_t n);
// Tokens delivered while every stream was live, over that time.
double lf_rates_steady(const struct lf_client *client, size_t n);
// Tokens of a reply that arrived after start and not after end, split by characters.
double lf_rates_tokens(const struct lf_answer *reply, double start_s, double end_s);
