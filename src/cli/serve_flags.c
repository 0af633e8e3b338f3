#include "cli/serve_flags.h"

#include <string.h>

#define GIB ((double)(UINT64_C(1) << 30))

struct lf_engine_options lf_serve_engine_options(const struct serve_flags *f) {
    bool off = f->no_drafts || !strcmp(f->drafts, "off");
    enum lf_drafts wanted = strcmp(f->drafts, "on") ? LF_DRAFTS_AUTO : LF_DRAFTS_ON;
    // 0 stands for the engine's own floor.
    uint64_t floor_bytes = (uint64_t)(f->spill_floor_gib * GIB);
    return (struct lf_engine_options){
        .device = f->engine.device,
        .isa = f->engine.isa,
        .threads = (uint32_t)f->engine.threads,
        .pin = lf_engine_flags_pin(&f->engine),
        .parallel = f->parallel == LF_FLAG_WORD ? LF_PARALLEL_AUTO : (uint32_t)f->parallel,
        .context = f->engine.context,
        .chunk_rows = (uint32_t)f->chunk_rows,
        .memory_limit_bytes = (uint64_t)(f->limit_gib * GIB),
        .reserve_bytes = (uint64_t)(f->reserve_gib * GIB),
        .prompt_cache_bytes =
            f->cache_gib < 0 ? LF_PROMPT_CACHE_AUTO : (uint64_t)(f->cache_gib * GIB),
        .spill_dir = f->spill_dir,
        .spill_bytes = (uint64_t)(f->spill_gib * GIB),
        .spill_floor_bytes = floor_bytes ? floor_bytes : 1,
        .spill_rows = f->spill_rows,
        .keep_shared = f->keep_shared,
        .drafts = off ? LF_DRAFTS_OFF : wanted,
        .draft_depth = (uint32_t)f->draft_depth,
        .queue_max = (uint32_t)f->queue,
        .queue_timeout_s = f->queue_timeout_s,
        .decode_share = f->decode_share,
        .long_prompts = (uint32_t)f->long_prompts,
        .max_gap_ms = (uint32_t)f->max_gap_ms,
    };
}
