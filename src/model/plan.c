#include "model/plan.h"

#include "model/model.h"
#include "model/state.h"
#include "model/weights.h"
#include "model/work.h"

// What the process needs besides, as docs/design.md derives it; all of it has pages of its own.
enum {
    RUNTIME_BYTES = 16 * 1024 * 1024,
    RUNTIME_SLOT_BYTES = 2 * 1024 * 1024,
    RUNTIME_THREAD_BYTES = 256 * 1024,
    DEVICE_RUNTIME_BYTES = 256 * 1024 * 1024, // rings, code, what a pool rounds up
    DEVICE_HOST_BYTES = 256 * 1024 * 1024,    // the driver's context and pinned memory
    MARGIN_BYTES = 256 * 1024 * 1024,
};

static const struct {
    const char *key, *words;
} lines[LF_PLAN_PARTS] = {
    [LF_PLAN_WEIGHTS] = {"weights", "weights"},
    [LF_PLAN_ENGRAM] = {"engram_tables", "Engram tables, on disk (not counted)"},
    [LF_PLAN_DRAFTER] = {"drafter", "drafter"},
    [LF_PLAN_VISION] = {"vision_tower", "image tower (not loaded)"},
    [LF_PLAN_INDEX] = {"tensor_index", "tensor names and places"},
    [LF_PLAN_STATE] = {"slot_state", "slots: bounded state"},
    [LF_PLAN_HISTORY] = {"slot_history", "slots: token history, page tables"},
    [LF_PLAN_KV] = {"kv", "KV pages promised"},
    [LF_PLAN_WORK] = {"workspace", "workspace of a chunk or launch"},
    [LF_PLAN_LOGITS] = {"logits", "logits rows"},
    [LF_PLAN_ROTARY] = {"rotary", "rotary rows of a call"},
    [LF_PLAN_SCRATCH] = {"scratch", "scratch of the threads"},
    [LF_PLAN_CACHE] = {"prompt_cache", "prompt cache cap"},
    [LF_PLAN_TEXT] = {"tokenizer", "tokenizer, token map"},
    [LF_PLAN_RUNTIME] = {"runtime", "runtime: libraries, HTTP, stacks"},
};

const char *lf_plan_key(enum lf_plan_part part) {
    return lines[part].key;
}

const char *lf_plan_words(enum lf_plan_part part) {
    return lines[part].words;
}

bool lf_plan_counts(enum lf_plan_part part) {
    return part != LF_PLAN_ENGRAM;
}

bool lf_plan_exceeded(uint64_t planned, uint64_t measured) {
    uint64_t above = measured > planned ? measured - planned : 0;
    return above > planned / 50 && above > MARGIN_BYTES;
}

static uint64_t layer_bytes(const struct lf_topology *t, uint32_t experts) {
    return sizeof(struct lf_layer) + lf_arena_rounded(t->o_groups * sizeof(struct lf_matrix)) +
           lf_arena_rounded(experts * sizeof(struct lf_expert));
}

// The pointers and shapes of lf_weights, as its fetches take them from an arena.
static uint64_t weights_bytes(const struct lf_plan_ask *ask) {
    const struct lf_topology *t = ask->t;
    uint64_t bytes = t->layers * layer_bytes(t, t->experts) +
                     t->n_engram * lf_arena_rounded(sizeof(struct lf_engram_weights));
    if (ask->drafter)
        bytes += lf_arena_rounded(sizeof(struct lf_draft_weights)) +
                 t->draft_layers * layer_bytes(t, t->draft_experts);
    return bytes;
}

static uint32_t rows_max(const struct lf_plan_ask *ask) {
    return ask->chunk_rows > LF_LAUNCH_ROWS ? ask->chunk_rows : LF_LAUNCH_ROWS;
}

// What lies where kernels work, and what is the host's alone; on a CPU each line is their sum.
struct shares {
    uint64_t there[LF_PLAN_PARTS], here[LF_PLAN_PARTS];
};

static void add_weights(struct shares *s, const struct lf_plan_ask *ask) {
    s->there[LF_PLAN_WEIGHTS] = ask->weight_bytes;
    s->there[LF_PLAN_DRAFTER] = ask->drafter ? ask->draft_bytes : 0;
    s->here[LF_PLAN_INDEX] = ask->index_bytes + weights_bytes(ask);
    // Tables that are made up are memory like all weights.
    s->here[ask->made_up ? LF_PLAN_WEIGHTS : LF_PLAN_ENGRAM] = ask->table_bytes;
}

static void add_slots(struct shares *s, const struct lf_plan_ask *ask,
                      const struct lf_state_shape *shape) {
    uint64_t slots = ask->slots, seen = slots * lf_state_history_there_bytes(shape);
    s->there[LF_PLAN_STATE] = slots * lf_state_bounded_bytes(shape);
    s->there[LF_PLAN_HISTORY] = seen;
    s->here[LF_PLAN_HISTORY] = slots * lf_state_history_bytes(shape) - seen;
    s->there[LF_PLAN_KV] = slots * lf_state_kv_bytes(shape, ask->context);
    s->there[LF_PLAN_CACHE] = ask->cache_bytes;
    // Pages of saved states are the device's, all else of them the host's: either may fill the cap.
    if (ask->device)
        s->here[LF_PLAN_CACHE] = ask->cache_bytes;
}

static void add_calls(struct shares *s, const struct lf_plan_ask *ask,
                      const uint64_t work[LF_WORK_PARTS]) {
    uint64_t scratch = ask->device ? lf_pool_scratch_bytes(1) : lf_model_scratch_bytes(ask->t);
    s->there[LF_PLAN_WORK] = work[LF_WORK_ROWS];
    s->here[LF_PLAN_WORK] = work[LF_WORK_HOST];
    s->there[LF_PLAN_LOGITS] = work[LF_WORK_LOGITS];
    s->there[LF_PLAN_ROTARY] = work[LF_WORK_ROTARY];
    s->here[LF_PLAN_SCRATCH] = ask->threads * scratch;
    if (ask->device) {
        s->here[LF_PLAN_LOGITS] = ask->t->vocab * sizeof(float);
        s->here[LF_PLAN_ROTARY] = work[LF_WORK_ROTARY];
    }
}

static void add_process(struct shares *s, const struct lf_plan_ask *ask) {
    s->here[LF_PLAN_TEXT] = ask->text_bytes + ask->t->vocab * sizeof(uint32_t);
    s->here[LF_PLAN_RUNTIME] = RUNTIME_BYTES + (uint64_t)ask->slots * RUNTIME_SLOT_BYTES +
                               (uint64_t)ask->threads * RUNTIME_THREAD_BYTES;
    if (ask->device) {
        s->there[LF_PLAN_RUNTIME] = DEVICE_RUNTIME_BYTES;
        s->here[LF_PLAN_RUNTIME] += DEVICE_HOST_BYTES;
    }
}

static void add_up(struct lf_plan *plan, const struct shares *s, bool device) {
    for (int part = 0; part < LF_PLAN_PARTS; part++) {
        plan->bytes[part] = s->there[part] + (device ? 0 : s->here[part]);
        plan->host_bytes[part] = device ? s->here[part] : 0;
        if (lf_plan_counts(part)) {
            plan->need += plan->bytes[part];
            plan->host_need += plan->host_bytes[part];
        }
    }
}

void lf_plan_make(struct lf_plan *out, const struct lf_plan_ask *ask) {
    struct lf_state_shape shape;
    struct shares shares = {0};
    uint64_t work[LF_WORK_PARTS], launch[LF_WORK_PARTS];
    lf_state_shape_init(&shape, ask->t, ask->context);
    shape.apart = ask->device;
    if (ask->drafter)
        lf_state_shape_add_drafter(&shape);
    lf_work_bytes(work, &shape, ask->slots, rows_max(ask), LF_LAUNCH_ROWS);
    lf_work_bytes(launch, &shape, ask->slots, LF_LAUNCH_ROWS, LF_LAUNCH_ROWS);
    add_weights(&shares, ask);
    add_slots(&shares, ask, &shape);
    add_calls(&shares, ask, work);
    add_process(&shares, ask);
    *out = (struct lf_plan){
        .launch_bytes = launch[LF_WORK_ROWS] + launch[LF_WORK_HOST] + launch[LF_WORK_ROTARY],
        .kv_position_bytes = lf_state_position_bytes(&shape),
        .kv_pages = ask->slots * lf_state_pages(&shape, ask->context),
        .context = ask->context, .slots = ask->slots, .chunk_rows = ask->chunk_rows,
        .threads = ask->threads,
    };
    add_up(out, &shares, ask->device);
}

void lf_plan_measure(uint64_t bytes[LF_PLAN_PARTS], const struct lf_plan *plan,
                     const struct lf_model_memory *memory) {
    // The three are counted as one: what is above the plan shows in the first.
    uint64_t others = plan->bytes[LF_PLAN_LOGITS] + plan->bytes[LF_PLAN_ROTARY];
    uint64_t drafter = plan->bytes[LF_PLAN_DRAFTER], there = memory->weights_there;
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        bytes[part] = 0;
    bytes[LF_PLAN_STATE] = memory->bounded;
    bytes[LF_PLAN_KV] = memory->kv_bytes;
    bytes[LF_PLAN_WORK] = memory->work > others ? memory->work - others : 0;
    bytes[LF_PLAN_HISTORY] = memory->history;
    if (there) {
        bytes[LF_PLAN_WEIGHTS] = there > drafter ? there - drafter : 0;
        bytes[LF_PLAN_DRAFTER] = drafter;
    } else {
        bytes[LF_PLAN_INDEX] = memory->weights;
        bytes[LF_PLAN_SCRATCH] = memory->scratch;
    }
}
