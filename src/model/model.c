#include "model/model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sha256.h"
#include "kernel/attention/attention.h"
#include "kernel/index_score/index_score.h"
#include "kernel/index_select/index_select.h"
#include "kernel/linear/linear.h"
#include "model/graphs.h"
#include "model/page.h"
#include "model/target_ops.h"
#include "model/v41.h"

static float inverse_root(double n) {
    return (float)(1.0 / sqrt(n));
}

static void set_constants(struct lf_v41 *m) {
    const struct lf_topology *t = m->t;
    m->attention_scale = inverse_root(t->head_dim);
    m->index_scale = (float)(1.0 / sqrt(t->index_heads) / sqrt(t->index_dim));
    m->engram_scale = inverse_root(t->hidden);
    // Without any compressed layer nothing reaches back past a window: the cone starts at layer 0.
    m->last_source = t->n_kv_sources ? t->kv_sources[t->n_kv_sources - 1] : 0;
    lf_rope_table_init(&m->rope[0], t, false);
    lf_rope_table_init(&m->rope[1], t, true);
}

static enum lf_status set_info(struct lf_v41 *m, const struct lf_model_options *options,
                               struct lf_error *err) {
    uint64_t most = m->t->positions_max, context = options->context ? options->context : most;
    if (context > most)
        return lf_fail(err, LF_E_USAGE, "a context of %llu: the model has %llu positions",
                       (unsigned long long)context, (unsigned long long)most);
    m->info = (struct lf_target_info){
        .slots = options->slots ? options->slots : 1,
        .vocab = m->t->vocab,
        .window_max = LF_WINDOW_MAX,
        .launch_rows_max = LF_LAUNCH_ROWS,
        .chunk_rows_max = options->chunk_rows ? options->chunk_rows : lf_model_chunk_rows(m->t),
        .context = context,
        .pass_drafts = m->t->draft_block,
    };
    m->no_cone = options->no_cone;
    lf_state_shape_init(&m->shape, m->t, context);
    m->shape.memory = m->aside = options->memory;
    if (options->device) {
        m->shape.memory = options->device->memory;
        m->aside = options->device->aside;
        m->device.cuda = options->device->cuda;
        m->k = *options->device->kernels;
    }
    m->device.memory = m->shape.memory;
    m->shape.apart = m->shape.memory != NULL;
    return LF_OK;
}

static enum lf_status open_states(struct lf_v41 *m, struct lf_error *err) {
    uint32_t slots = m->info.slots;
    m->state = lf_arena_alloc(&m->arena, slots, sizeof *m->state);
    m->logits_here = m->device.memory ? lf_arena_alloc(&m->arena, m->info.vocab, sizeof(float))
                                     : NULL;
    if (!m->state || (m->device.memory && !m->logits_here))
        return lf_fail(err, LF_E_MEM, "out of memory for %u slots", slots);
    for (uint32_t s = 0; s < slots; s++)
        LF_TRY(lf_state_open(&m->state[s], &m->shape, err));
    return lf_lanes_open(m, err);
}

uint32_t lf_model_chunk_rows(const struct lf_topology *t) {
    enum { MOST = 2048, LEAST = 512, EXPERT_ROWS = 32 };
    uint64_t rows = MOST, enough = (uint64_t)EXPERT_ROWS * t->experts;
    // A chunk reads every weight once; with so many rows a read the arithmetic is what takes time.
    while (rows > LEAST && rows / 2 * t->experts_top >= enough)
        rows /= 2;
    return (uint32_t)rows;
}

static size_t scratch_bytes(const struct lf_topology *t) {
    size_t most = LF_LINEAR_SCRATCH_BYTES;
    size_t attention = lf_attention_scratch_bytes(t->heads, t->head_dim);
    size_t index = lf_index_score_scratch_bytes(t->index_heads, t->index_dim);
    size_t select = lf_index_select_scratch_bytes(t->index_topk, t->candidate_blocks);
    most = most < attention ? attention : most;
    most = most < select ? select : most;
    return most < index ? index : most;
}

uint64_t lf_model_scratch_bytes(const struct lf_topology *topology) {
    return lf_pool_scratch_bytes(scratch_bytes(topology));
}

void lf_model_memory_read(struct lf_target *target, struct lf_model_memory *out) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    uint64_t pages = atomic_load(&m->kv_pages);
    *out = (struct lf_model_memory){
        .weights = m->weights_taken, .weights_there = m->weights_there_bytes, .work = m->work_taken,
        .scratch = lf_pool_bytes(m->device.pool),
        .kv_pages = pages, .kv_pages_used = atomic_load(&m->kv_pages_used),
        .kv_bytes = pages * (lf_page_bytes(m->shape.entry_bytes) +
                             lf_page_bytes(m->shape.key_bytes)),
    };
    for (uint32_t s = 0; s < m->info.slots; s++) {
        out->bounded += m->state[s].bounded_bytes;
        out->history += m->weights_there ? lf_state_history_there_bytes(&m->shape)
                                         : m->state[s].history_bytes;
    }
}

void lf_model_tell_pages(struct lf_v41 *m, uint32_t slot) {
    struct lf_state *s = &m->state[slot];
    uint64_t grown = lf_state_pages(&m->shape, s->grown);
    uint64_t used = lf_state_pages(&m->shape, s->length);
    atomic_fetch_add(&m->kv_pages, grown - s->pages_told);
    atomic_fetch_add(&m->kv_pages_used, used - s->used_told);
    s->pages_told = grown;
    s->used_told = used;
}

// The drafter takes part where the checkpoint has one: weights, rings, taps and its own buffers.
static enum lf_status open_drafter(struct lf_v41 *m, struct lf_checkpoint *checkpoint,
                                   const struct lf_model_options *options, struct lf_error *err) {
    struct lf_checkpoint_summary summary;
    lf_checkpoint_summary(checkpoint, &summary);
    if (!summary.has_drafts || options->no_drafts)
        return LF_OK;
    if (m->t->draft_block > LF_DRAFTS_MAX)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "config.json: dspark_block_size %u, this build drafts at most %d tokens",
                       m->t->draft_block, LF_DRAFTS_MAX);
    LF_TRY(lf_weights_fetch_draft(&m->weights, &m->arena, checkpoint, err));
    lf_state_shape_add_drafter(&m->shape);
    m->target.drafter = &lf_model_drafter_ops;
    return LF_OK;
}

static enum lf_status open_pool(struct lf_v41 *m, const struct lf_model_options *options,
                                struct lf_error *err) {
    struct lf_placement unbound;
    if (!options->placement)
        LF_TRY(lf_placement_read(&unbound, options->threads, LF_PIN_OFF, err));
    return lf_pool_open_at(&m->device.pool, options->placement ? options->placement : &unbound,
                           options->device ? 1 : scratch_bytes(m->t), err);
}

static enum lf_status move_weights(struct lf_v41 *m, struct lf_checkpoint *checkpoint,
                                   struct lf_error *err) {
    struct lf_weights_move move = {.memory = m->device.memory, .cuda = m->device.cuda,
                                   .pool = m->device.pool, .checkpoint = checkpoint};
    enum lf_status status = lf_weights_move(&move, &m->weights, err);
    m->weights_there = move.block;
    m->weights_there_bytes = move.bytes;
    return status;
}

// The small tensors of every layer differ between revisions and are cheap to read.
static void add_layers(struct lf_sha256 *sha, const struct lf_layer *layer, uint32_t n,
                       uint32_t hidden) {
    for (uint32_t l = 0; l < n; l++) {
        lf_sha256_add(sha, layer[l].attn_norm, hidden * sizeof *layer->attn_norm);
        lf_sha256_add(sha, layer[l].ffn_norm, hidden * sizeof *layer->ffn_norm);
        lf_sha256_add(sha, layer[l].gate_bias, layer[l].experts * sizeof *layer->gate_bias);
    }
}

static void add_small_tensors(struct lf_sha256 *sha, const struct lf_v41 *m) {
    const struct lf_topology *t = m->t;
    lf_sha256_add(sha, m->weights.norm, t->hidden * sizeof *m->weights.norm);
    add_layers(sha, m->weights.layer, t->layers, t->hidden);
    // A state with a drafter holds its rings too: it is no state of a server without (C-3).
    if (m->weights.draft)
        add_layers(sha, m->weights.draft->block, t->draft_layers, t->hidden);
}

// By small tensors, while the host can read them; equal names, equal bits.
static void name_weights(struct lf_v41 *m, const struct lf_model_options *options) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    char hex[65], arithmetic[64];
    // The bits do not depend on threads or instruction set, so neither does the name.
    int len = snprintf(arithmetic, sizeof arithmetic, LF_VERSION " %s",
                       options->device ? options->device->arithmetic : "cpu w16");
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, arithmetic, (size_t)len + 1);
    lf_sha256_add(&sha, m->t->config_sha256, sizeof m->t->config_sha256);
    add_small_tensors(&sha, m);
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
    snprintf(m->target.fingerprint, 20, "lf_%.16s", hex);
}

static enum lf_status open_parts(struct lf_v41 *m, struct lf_checkpoint *checkpoint,
                                 const struct lf_model_options *options, struct lf_error *err) {
    uint32_t rows_max;
    LF_TRY(lf_kernels_init(&m->k, options->isa, err));
    LF_TRY(set_info(m, options, err));
    LF_TRY(lf_engram_layout_build(&m->engram_layout, m->t, err));
    set_constants(m);
    LF_TRY(lf_weights_fetch(&m->weights, &m->arena, checkpoint, err));
    LF_TRY(open_drafter(m, checkpoint, options, err));
    m->weights_taken = m->arena.bytes;
    name_weights(m, options);
    LF_TRY(open_pool(m, options, err));
    if (options->device)
        LF_TRY(move_weights(m, checkpoint, err));
#if LF_FAULT == 1
    // 1: threads in a sum
    m->attention_scale *= 1 + 0x1p-20f * (float)lf_pool_threads(m->device.pool);
#endif
    rows_max = m->info.chunk_rows_max > LF_LAUNCH_ROWS ? m->info.chunk_rows_max : LF_LAUNCH_ROWS;
    LF_TRY(lf_work_open(&m->work, &m->arena, &m->shape, m->info.slots, rows_max, LF_LAUNCH_ROWS,
                        err));
    m->work_taken = m->work.bytes - (options->device ? m->work.bytes_here : 0);
    LF_TRY(open_states(m, err));
    LF_TRY(lf_graphs_open(m, err));
    return lf_mem_wait(m->device.memory, err);
}

void lf_model_close(struct lf_target *target) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    for (uint32_t s = 0; m->state && s < m->info.slots; s++)
        if (m->state[s].history)
            lf_state_close(&m->state[s], &m->shape);
    lf_graphs_close(m);
    lf_tables_close(&m->lanes);
    lf_work_close(&m->work, m->device.memory);
    lf_mem_free(m->device.memory, m->weights_there);
    lf_pool_close(m->device.pool);
    lf_engram_layout_free(&m->engram_layout);
    lf_arena_free(&m->arena);
    free(m);
}

// What times depend on beside the fingerprint: the device, or instruction set and threads.
static void name_times(struct lf_v41 *m, const struct lf_model_options *options) {
    enum lf_isa isa = options->isa == LF_ISA_AUTO ? lf_isa_best() : options->isa;
    if (options->device)
        snprintf(m->info.name, sizeof m->info.name, "%s %.39s", m->target.fingerprint,
                 options->device->name);
    else
        snprintf(m->info.name, sizeof m->info.name, "%s cpu %s %u", m->target.fingerprint,
                 lf_isa_name(isa), lf_pool_threads(m->device.pool));
}

enum lf_status lf_model_open(struct lf_target **out, struct lf_checkpoint *checkpoint,
                             const struct lf_token_map *map, const struct lf_model_options *options,
                             struct lf_error *err) {
    struct lf_v41 *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return lf_fail(err, LF_E_MEM, "out of memory for the model");
    m->target.ops = &lf_model_target_ops;
    m->t = lf_checkpoint_topology(checkpoint);
    m->map = map;
    if (map->size != m->t->vocab && m->t->n_engram)
        lf_fail(err, LF_E_FORMAT, "tokenizer.json has %u ids, config.json vocab_size says %u",
                map->size, m->t->vocab);
    else
        open_parts(m, checkpoint, options, err);
    if (err->status != LF_OK) {
        lf_model_close(&m->target);
        return err->status;
    }
    name_times(m, options);
    *out = &m->target;
    return LF_OK;
}
