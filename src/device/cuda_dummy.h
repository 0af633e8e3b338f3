// Made-up weights written where they are used, with the bytes that the host would have written.
#pragma once
#include "device/cuda.h"
#include "format/dummy_rule.h"

#ifdef __cplusplus
extern "C" {
#endif

// Queues bytes offset to offset + bytes - 1 of the rule's tensor, to to.
void lf_cuda_dummy(struct lf_cuda *cuda, void *to, const struct lf_dummy_rule *rule,
                   uint64_t offset, uint64_t bytes);

#ifdef __cplusplus
}
#endif
