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
// Whether a stream does better to stay in line, for a file or another prompt's mark (C-16, C-18).
bool lf_resume_waits(struct lf_engine *engine, struct lf_stream *stream);
// Once a turn: takes in what the disk thread finished.
void lf_resume_disk(struct lf_engine *engine);
// Whether the disk thread holds bytes that come free, or entries that somebody waits for.
bool lf_resume_busy(const struct lf_engine *engine);
// Opens the cache and its disk as the options say.
LF_CHECKED enum lf_status lf_resume_open(struct lf_engine *engine, struct lf_error *err);
// The engine thread's last work: writes states, then waits for as long as the disk thread takes.
void lf_resume_flush(struct lf_engine *engine);
// How long it writes; 0: there is no disk, or the engine is dead.
double lf_resume_flush_s(const struct lf_engine *engine);
// Takes an entry from the cache for a stream's storage (L-43); false: none is left.
bool lf_resume_evict(struct lf_engine *engine);
