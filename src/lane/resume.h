// A stream and the prompt cache: resume in a slot, marks of the prompt pass, the reply's end.
#pragma once
#include "lane/stream.h"

// After the slot is taken: restores the longest saved prefix and plans the pass's boundaries.
void lf_resume_begin(struct lf_engine *engine, struct lf_stream *stream);
// Rows of the next chunk, at most rows: a chunk ends at every boundary of the plan.
uint32_t lf_resume_rows(const struct lf_stream *stream, uint64_t rows);
// After a chunk, before its stream draws.
void lf_resume_mark(struct lf_engine *engine, struct lf_stream *stream);
// Before the slot is reset: saves a finished reply's end (L-23), gives up what was promised.
void lf_resume_end(struct lf_engine *engine, struct lf_stream *stream);
// Takes an entry from the cache for a stream's storage (L-43); false: none is left.
bool lf_resume_evict(struct lf_engine *engine);
