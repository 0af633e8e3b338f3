#include "format/inventory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128 };

// Sizes by the symbols of tensors.json.
enum dim {
    NONE,
    THREE,
    HIDDEN,
    VOCAB,
    HEADS,
    HEAD_DIM,
    HEADS_DIM,
    Q_LORA,
    GROUPS_RANK,
    GROUP_DIM,
    EXPERTS,
    EXPERT_DIM,
    INDEX_HEADS,
    INDEX_DIM,
    INDEX_HEADS_DIM,
    STREAMS,
    STREAMS_DIM,
    MIXES,
    ENGRAM_OUT,
    ENGRAM_IN,
    ENGRAM_ROWS,
    ENGRAM_DIM,
    TAPS_DIM,
    RANK,
    HIDDEN_RANK,
    ONE,
    DIMS,
};

// The layers a pattern runs over; draft blocks have every layer's tensors.
enum over {
    BLOCKS,
    KV_SOURCES,
    POOLED_SOURCES,
    INDEX_SOURCES,
    ENGRAM_LAYERS,
    FIRST_DRAFT,
    LAST_DRAFT,
    BLOCK_EXPERTS,
};

static const struct pattern {
    const char *name;
    enum lf_want_kind kind;
    enum over over;
    enum dim shape[2];
} patterns[] = {
    {"attn_norm.weight", LF_WANT_BF16, BLOCKS, {HIDDEN, NONE}},
    {"ffn_norm.weight", LF_WANT_BF16, BLOCKS, {HIDDEN, NONE}},
    {"hc_attn_fn", LF_WANT_F32, BLOCKS, {MIXES, STREAMS_DIM}},
    {"hc_attn_base", LF_WANT_F32, BLOCKS, {MIXES, NONE}},
    {"hc_attn_scale", LF_WANT_F32, BLOCKS, {THREE, NONE}},
    {"hc_ffn_fn", LF_WANT_F32, BLOCKS, {MIXES, STREAMS_DIM}},
    {"hc_ffn_base", LF_WANT_F32, BLOCKS, {MIXES, NONE}},
    {"hc_ffn_scale", LF_WANT_F32, BLOCKS, {THREE, NONE}},
    {"attn.wq_a", LF_WANT_LINEAR, BLOCKS, {Q_LORA, HIDDEN}},
    {"attn.q_norm.weight", LF_WANT_BF16, BLOCKS, {Q_LORA, NONE}},
    {"attn.wq_b", LF_WANT_LINEAR, BLOCKS, {HEADS_DIM, Q_LORA}},
    {"attn.wkv", LF_WANT_LINEAR, BLOCKS, {HEAD_DIM, HIDDEN}},
    {"attn.kv_norm.weight", LF_WANT_BF16, BLOCKS, {HEAD_DIM, NONE}},
    {"attn.attn_sink", LF_WANT_F32, BLOCKS, {HEADS, NONE}},
    {"attn.wo_a", LF_WANT_LINEAR, BLOCKS, {GROUPS_RANK, GROUP_DIM}},
    {"attn.wo_b", LF_WANT_LINEAR, BLOCKS, {HIDDEN, GROUPS_RANK}},
    {"attn.compressor.wkv", LF_WANT_PLAIN, KV_SOURCES, {HEAD_DIM, HIDDEN}},
    {"attn.compressor.wgate", LF_WANT_PLAIN, POOLED_SOURCES, {HEAD_DIM, HIDDEN}},
    {"attn.compressor.norm.weight", LF_WANT_BF16, KV_SOURCES, {HEAD_DIM, NONE}},
    {"attn.indexer.wq_b", LF_WANT_LINEAR, INDEX_SOURCES, {INDEX_HEADS_DIM, Q_LORA}},
    {"attn.indexer.weights_proj", LF_WANT_PLAIN, INDEX_SOURCES, {INDEX_HEADS, HIDDEN}},
    {"attn.indexer.wk", LF_WANT_PLAIN, KV_SOURCES, {INDEX_DIM, HEAD_DIM}},
    {"attn.indexer.k_norm.weight", LF_WANT_BF16, KV_SOURCES, {INDEX_DIM, NONE}},
    {"engram.embed", LF_WANT_TABLE, ENGRAM_LAYERS, {ENGRAM_ROWS, ENGRAM_DIM}},
    {"engram.q_weight", LF_WANT_BF16, ENGRAM_LAYERS, {STREAMS, HIDDEN}},
    {"engram.k_weight", LF_WANT_BF16, ENGRAM_LAYERS, {STREAMS, HIDDEN}},
    {"engram.wkv", LF_WANT_LINEAR, ENGRAM_LAYERS, {ENGRAM_OUT, ENGRAM_IN}},
    {"ffn.gate", LF_WANT_PLAIN, BLOCKS, {EXPERTS, HIDDEN}},
    {"ffn.gate.bias", LF_WANT_F32, BLOCKS, {EXPERTS, NONE}},
    {"ffn.gate.bias_vl", LF_WANT_F32, BLOCKS, {EXPERTS, NONE}},
    {"w1", LF_WANT_LINEAR, BLOCK_EXPERTS, {EXPERT_DIM, HIDDEN}},
    {"w2", LF_WANT_LINEAR, BLOCK_EXPERTS, {HIDDEN, EXPERT_DIM}},
    {"w3", LF_WANT_LINEAR, BLOCK_EXPERTS, {EXPERT_DIM, HIDDEN}},
    {"ffn.shared_experts.w1", LF_WANT_LINEAR, BLOCKS, {EXPERT_DIM, HIDDEN}},
    {"ffn.shared_experts.w2", LF_WANT_LINEAR, BLOCKS, {HIDDEN, EXPERT_DIM}},
    {"ffn.shared_experts.w3", LF_WANT_LINEAR, BLOCKS, {EXPERT_DIM, HIDDEN}},
    {"main_proj", LF_WANT_LINEAR, FIRST_DRAFT, {HIDDEN, TAPS_DIM}},
    {"main_norm.weight", LF_WANT_BF16, FIRST_DRAFT, {HIDDEN, NONE}},
    {"norm.weight", LF_WANT_BF16, LAST_DRAFT, {HIDDEN, NONE}},
    {"markov_head.embed", LF_WANT_PLAIN, LAST_DRAFT, {VOCAB, RANK}},
    {"markov_head.head", LF_WANT_PLAIN, LAST_DRAFT, {VOCAB, RANK}},
    {"confidence_head.proj", LF_WANT_PLAIN, LAST_DRAFT, {ONE, HIDDEN_RANK}},
};

static const char *const vision_block_names[] = {
    "norm1.weight", "attn.wqkv.weight", "attn.wqkv.bias", "attn.wo.weight", "attn.wo.bias",
    "norm2.weight", "mlp.w1.weight",    "mlp.w2.weight",
};

static const char *const vision_names[] = {
    "image_start",
    "image_end",
    "image_newline",
    "vision.patch_embed.proj.weight",
    "vision.patch_embed.proj.bias",
    "vision.norm.weight",
    "aligner.w1.weight",
    "aligner.w1.bias",
    "aligner.w2.weight",
    "aligner.w2.bias",
};

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

struct builder {
    struct lf_inventory *out;
    struct lf_arena *arena;
    const struct lf_topology *t;
    size_t cap;
    uint64_t dim[DIMS];
    struct lf_error *err;
};

static void fill_dims(uint64_t dim[DIMS], const struct lf_topology *t) {
    uint64_t orders = t->n_engram ? t->engram_ngram - 1 : 0;
    memset(dim, 0, DIMS * sizeof *dim);
    dim[ONE] = 1;
    dim[THREE] = 3;
    dim[HIDDEN] = t->hidden;
    dim[VOCAB] = t->vocab;
    dim[HEADS] = t->heads;
    dim[HEAD_DIM] = t->head_dim;
    dim[HEADS_DIM] = (uint64_t)t->heads * t->head_dim;
    dim[Q_LORA] = t->q_lora;
    dim[GROUPS_RANK] = (uint64_t)t->o_groups * t->o_lora;
    dim[GROUP_DIM] = dim[HEADS_DIM] / t->o_groups;
    dim[EXPERT_DIM] = t->expert_dim;
    dim[INDEX_HEADS] = t->index_heads;
    dim[INDEX_DIM] = t->index_dim;
    dim[INDEX_HEADS_DIM] = (uint64_t)t->index_heads * t->index_dim;
    dim[STREAMS] = t->streams;
    dim[STREAMS_DIM] = (uint64_t)t->streams * t->hidden;
    dim[MIXES] = (uint64_t)t->streams * (2 + t->streams);
    dim[ENGRAM_OUT] = (uint64_t)(t->streams + 1) * t->hidden;
    dim[ENGRAM_IN] = orders * t->engram_heads * t->engram_dim;
    dim[ENGRAM_DIM] = t->engram_dim;
    dim[TAPS_DIM] = (uint64_t)t->n_draft_taps * t->hidden;
    dim[RANK] = t->draft_markov_rank;
    dim[HIDDEN_RANK] = (uint64_t)t->hidden + t->draft_markov_rank;
}

static enum lf_status add(struct builder *b, struct lf_wanted wanted, const char *format, ...)
    LF_PRINTF(3, 4);

static enum lf_status add(struct builder *b, struct lf_wanted wanted, const char *format, ...) {
    char name[KEY_BYTES];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    LF_ASSERT(len > 0 && (size_t)len < sizeof name && b->out->n < b->cap);
    wanted.name = lf_arena_copy(b->arena, name, (size_t)len);
    if (!wanted.name)
        return lf_fail(b->err, LF_E_MEM, "out of memory for the list of tensors");
    b->out->wanted[b->out->n++] = wanted;
    return LF_OK;
}

static bool listed(uint32_t layer, const uint32_t *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == layer)
            return true;
    return false;
}

static bool runs_over(const struct lf_topology *t, enum over over, bool draft, uint32_t layer) {
    switch (over) {
    case BLOCKS:
    case BLOCK_EXPERTS:
        return true;
    case KV_SOURCES:
        return !draft && listed(layer, t->kv_sources, t->n_kv_sources);
    case POOLED_SOURCES:
        return !draft && t->ratio[layer] > 1 && listed(layer, t->kv_sources, t->n_kv_sources);
    case INDEX_SOURCES:
        return !draft && listed(layer, t->index_sources, t->n_index_sources);
    case ENGRAM_LAYERS:
        return !draft && listed(layer, t->engram_layers, t->n_engram);
    case FIRST_DRAFT:
        return draft && layer == 0;
    case LAST_DRAFT:
        return draft && layer == t->draft_layers - 1;
    }
    return false;
}

static enum lf_want_group group_of(const struct pattern *p, bool draft) {
    bool image = strcmp(p->name, "ffn.gate.bias_vl") == 0;
    if (draft)
        return image ? LF_GROUP_DRAFT_BIAS : LF_GROUP_DRAFT;
    return image ? LF_GROUP_IMAGE_BIAS : p->kind == LF_WANT_TABLE ? LF_GROUP_ENGRAM : LF_GROUP_TEXT;
}

// All tensors of layers.LAYER or mtp.LAYER.
static enum lf_status add_block(struct builder *b, bool draft, uint32_t layer) {
    const struct lf_topology *t = b->t;
    const char *root = draft ? "mtp" : "layers";
    uint32_t experts = draft ? t->draft_experts : t->experts;
    b->dim[EXPERTS] = experts;
    for (uint32_t i = 0; i < t->n_engram; i++)
        if (t->engram_layers[i] == layer)
            b->dim[ENGRAM_ROWS] = t->engram_rows[i];
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        const struct pattern *p = &patterns[i];
        if (!runs_over(t, p->over, draft, layer))
            continue;
        struct lf_wanted wanted = {
            .kind = p->kind,
            .group = group_of(p, draft),
            .rank = p->shape[1] == NONE ? 1 : 2,
            .shape = {b->dim[p->shape[0]], b->dim[p->shape[1]]},
            .slice_rows = p->shape[0] == GROUPS_RANK ? t->o_lora : 0,
        };
        if (p->over != BLOCK_EXPERTS)
            LF_TRY(add(b, wanted, "%s.%u.%s", root, layer, p->name));
        for (uint32_t e = 0; p->over == BLOCK_EXPERTS && e < experts; e++)
            LF_TRY(add(b, wanted, "%s.%u.ffn.experts.%u.%s", root, layer, e, p->name));
    }
    return LF_OK;
}

static enum lf_status add_globals(struct builder *b) {
    struct lf_wanted table = {.kind = LF_WANT_PLAIN, .group = LF_GROUP_TEXT, .rank = 2,
                              .shape = {b->t->vocab, b->t->hidden}};
    struct lf_wanted norm = {.kind = LF_WANT_BF16, .group = LF_GROUP_TEXT, .rank = 1,
                             .shape = {b->t->hidden}};
    LF_TRY(add(b, table, "embed"));
    LF_TRY(add(b, norm, "norm.weight"));
    return add(b, table, "head");
}

static enum lf_status add_vision(struct builder *b) {
    struct lf_wanted wanted = {.kind = LF_WANT_PRESENT, .group = LF_GROUP_VISION};
    for (size_t i = 0; i < COUNT_OF(vision_names); i++)
        LF_TRY(add(b, wanted, "%s", vision_names[i]));
    for (uint32_t layer = 0; layer < b->t->vision_layers; layer++)
        for (size_t i = 0; i < COUNT_OF(vision_block_names); i++)
            LF_TRY(add(b, wanted, "vision.blocks.%u.%s", layer, vision_block_names[i]));
    return LF_OK;
}

static int order_wanted(const void *a, const void *b) {
    const struct lf_wanted *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int order_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum lf_status add_parents(struct builder *b) {
    struct lf_inventory *out = b->out;
    out->parent = lf_arena_alloc(b->arena, out->n, sizeof *out->parent);
    if (!out->parent)
        return lf_fail(b->err, LF_E_MEM, "out of memory for the list of tensors");
    for (size_t i = 0; i < out->n; i++) {
        const char *name = out->wanted[i].name, *last = strrchr(name, '.');
        if (lf_wanted_has_weight(&out->wanted[i]) || !last)
            continue;
        char *parent = lf_arena_copy(b->arena, name, (size_t)(last - name));
        if (!parent)
            return lf_fail(b->err, LF_E_MEM, "out of memory for the list of tensors");
        out->parent[out->parents++] = parent;
    }
    qsort(out->parent, out->parents, sizeof *out->parent, order_text);
    return LF_OK;
}

enum lf_status lf_inventory_build(struct lf_inventory *out, struct lf_arena *arena,
                                  const struct lf_topology *topology, struct lf_error *err) {
    struct builder b = {.out = out, .arena = arena, .t = topology, .err = err};
    *out = (struct lf_inventory){0};
    uint64_t blocks = (uint64_t)topology->layers + topology->draft_layers;
    uint64_t experts = (uint64_t)topology->layers * topology->experts +
                       (uint64_t)topology->draft_layers * topology->draft_experts;
    // Far above any model; keeps a hostile count from eating the memory.
    if (experts > 1u << 20)
        return lf_fail(err, LF_E_TOO_LARGE,
                       "text_config.n_routed_experts: %llu experts in all layers, at most %u",
                       (unsigned long long)experts, 1u << 20);
    b.cap = 3 + blocks * COUNT_OF(patterns) + experts * 3 + COUNT_OF(vision_names) +
            topology->vision_layers * COUNT_OF(vision_block_names);
    out->wanted = lf_arena_alloc(arena, b.cap, sizeof *out->wanted);
    if (!out->wanted)
        return lf_fail(err, LF_E_MEM, "out of memory for the list of tensors");
    fill_dims(b.dim, topology);
    LF_TRY(add_globals(&b));
    for (uint32_t layer = 0; layer < topology->layers; layer++)
        LF_TRY(add_block(&b, false, layer));
    for (uint32_t layer = 0; layer < topology->draft_layers; layer++)
        LF_TRY(add_block(&b, true, layer));
    if (topology->has_vision)
        LF_TRY(add_vision(&b));
    qsort(out->wanted, out->n, sizeof *out->wanted, order_wanted);
    return add_parents(&b);
}

// len bytes of text as a key for one of the two sorted lists.
static const char *key_copy(char key[KEY_BYTES], const char *text, size_t len) {
    if (len >= KEY_BYTES)
        return NULL;
    memcpy(key, text, len);
    key[len] = 0;
    return key;
}

static const struct lf_wanted *find_entry(const struct lf_inventory *inventory, const char *name) {
    struct lf_wanted key = {.name = name};
    return name ? bsearch(&key, inventory->wanted, inventory->n, sizeof key, order_wanted) : NULL;
}

const struct lf_wanted *lf_inventory_find(const struct lf_inventory *inventory,
                                          const char *tensor) {
    char key[KEY_BYTES];
    const struct lf_wanted *exact = find_entry(inventory, tensor);
    if (exact && !lf_wanted_has_weight(exact))
        return exact;
    const char *last = strrchr(tensor, '.');
    bool weight = last && strcmp(last, ".weight") == 0;
    if (!weight && !(last && strcmp(last, ".scale") == 0))
        return NULL;
    const struct lf_wanted *map =
        find_entry(inventory, key_copy(key, tensor, (size_t)(last - tensor)));
    if (!map || !lf_wanted_has_weight(map) || (!weight && map->kind == LF_WANT_PLAIN))
        return NULL;
    return map;
}

enum lf_tensor_role lf_inventory_role(const struct lf_inventory *inventory, const char *tensor) {
    char text[KEY_BYTES];
    const char *last = strrchr(tensor, '.');
    if (lf_inventory_find(inventory, tensor))
        return LF_ROLE_WANTED;
    const char *parent = last ? key_copy(text, tensor, (size_t)(last - tensor)) : NULL;
    if (!parent)
        return LF_ROLE_UNKNOWN;
    const struct lf_wanted *map = find_entry(inventory, parent);
    bool known = (map && lf_wanted_has_weight(map)) ||
                 bsearch(&parent, inventory->parent, inventory->parents, sizeof parent, order_text);
    return known ? LF_ROLE_STRAY : LF_ROLE_UNKNOWN;
}
