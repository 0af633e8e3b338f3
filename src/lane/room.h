// What chunks and streams may take of the memory that is free while serving (engine.md M-9, M-10).
#pragma once
#include "lane/stream.h"

// The rows that the next chunk may have; what only larger chunks use is given back first.
uint32_t lf_room_chunk_rows(struct lf_engine *engine);
// Whether positions of a stream would fit if the prompt cache gave up all that it holds (C-11).
bool lf_room_can_be_made(struct lf_engine *engine, const struct lf_stream *stream,
                         uint64_t positions);
// Whether positions of a stream, the smallest chunk and all that live streams still owe fit.
LF_CHECKED enum lf_status lf_room_check(struct lf_engine *engine, const struct lf_stream *stream,
                                        uint64_t positions, struct lf_error *err);
