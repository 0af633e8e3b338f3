#include "kernel/attention/attention.h"

#include "kernel/attention/attention_many.cuh"
#include "kernel/attention/attention_scores.cuh"
#include "kernel/attention/attention_values.cuh"
#include "kernel/cuda_table.h"

// Few rows are shared out more finely, from many on not at all; so many blocks fill a device.
enum { FEW_ROWS = 8, MANY_ROWS = 33, ENOUGH_BLOCKS = 128, NARROW_DIM = 128 };

// Most blocks of keys of a row: how many there are, only the device knows.
static uint32_t most_blocks(const struct lf_attention_args &a) {
    // A launch may hold some rows of a span, whose length only the device knows.
    uint32_t span = a.rows > LF_ATTENTION_SPAN_ROWS ? a.rows : (uint32_t)LF_ATTENTION_SPAN_ROWS;
    return lf_blocks(a.window + (a.whole_span ? span : 0) + (a.entries ? a.topk : 0), BLOCK);
}

// Many rows need nothing but their lists.
static size_t row_bytes(const struct work &w, bool many) {
    size_t heads = sizeof *w.factor * TILE_HEADS, cell = sizeof *w.cell * CELL_WORDS;
    size_t keys = sizeof *w.key * w.blocks * BLOCK;
    return many ? keys + sizeof *w.list : w.tiles * ((cell + heads) * w.blocks + heads) + keys;
}

// Shares the scratch out among as many rows as it holds; returns how many.
static uint32_t place_work(struct lf_device *device, bool many, struct work *w) {
    uint32_t rows = (uint32_t)(LF_CUDA_SCRATCH_BYTES / row_bytes(*w, many));
    LF_ASSERT(rows);
    rows = rows < w->a.rows ? rows : w->a.rows;
    size_t cells = many ? 0 : (size_t)rows * w->blocks * w->tiles;
    w->cell = (uint32_t *)lf_cuda_scratch(device->cuda);
    w->key = (const uint8_t **)(w->cell + cells * CELL_WORDS);
    w->factor = (float *)(w->key + (size_t)rows * w->blocks * BLOCK);
    w->total = w->factor + cells * TILE_HEADS;
    w->list = (struct many_list *)w->factor;
    return rows;
}

// With few rows a block of threads has half a tile: the launch takes as long as one of them.
static void launch_weights(struct lf_device *device, struct work w, uint32_t rows) {
    w.halves = rows > FEW_ROWS ? 2 : 1;
    dim3 grid(2 / w.halves * w.tiles, rows);
    uint32_t bytes = 3 * w.halves * w.blocks * HALF_HEADS * (uint32_t)sizeof(float);
    lf_cuda_launch(device, "attention", attention_weights, grid, WEIGHT_WARPS * LF_WARP, w, bytes);
}

static void launch_scores(struct lf_device *device, const struct work &w, uint32_t groups,
                          uint32_t rows) {
    uint32_t parts = lf_blocks(ENOUGH_BLOCKS, rows * groups);
    dim3 grid(parts < w.blocks ? parts : w.blocks, groups, rows);
    // Elements past head_dim are zeros, which leave a chain as it is.
    if (w.a.head_dim <= NARROW_DIM)
        lf_cuda_launch(device, "attention", attention_scores<NARROW_DIM>, grid, THREADS, w,
                       score_bytes<NARROW_DIM>);
    else
        lf_cuda_launch(device, "attention", attention_scores<LF_CUDA_HEAD_DIM_MAX>, grid, THREADS,
                       w, score_bytes<LF_CUDA_HEAD_DIM_MAX>);
}

template <uint32_t DIMS>
static void launch_values(struct lf_device *device, const struct work &w, uint32_t groups,
                          uint32_t rows) {
    dim3 grid(lf_blocks(w.a.head_dim, DIMS), groups, rows);
    lf_cuda_launch(device, "attention", attention_values<DIMS>, grid, THREADS, w,
                   value_form<DIMS>::bytes);
}

template <uint32_t DIMS>
static void launch_many(struct lf_device *device, const struct work &w) {
    uint32_t items = w.rows * head_groups(w), most = lf_cuda_info(device->cuda)->processors;
    lf_cuda_launch(device, "attention", attention_many<DIMS>, dim3(items < most ? items : most),
                   MANY_THREADS, w, (uint32_t)sizeof(struct many_block<DIMS>) + TILE_ALIGN);
}

// The lists, then all else.
static void run_many(struct lf_device *device, const struct work &w) {
    lf_cuda_launch(device, "attention", attention_lists, dim3(w.rows), THREADS, w);
    if (w.a.head_dim <= NARROW_DIM)
        launch_many<NARROW_DIM>(device, w);
    else
        launch_many<LF_CUDA_HEAD_DIM_MAX>(device, w);
}

// Three launches: dot products of blocks of keys, then each head's weights, then values.
static void run_few(struct lf_device *device, const struct work &w) {
    uint32_t groups = head_groups(w);
    launch_scores(device, w, groups, w.rows);
    launch_weights(device, w, w.rows);
    if (w.rows > FEW_ROWS)
        launch_values<64>(device, w, groups, w.rows);
    else
        launch_values<32>(device, w, groups, w.rows);
}

void lf_attention_cuda(struct lf_device *device, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0 && args->head_dim <= LF_CUDA_HEAD_DIM_MAX);
    struct work w = {};
    w.a = *args, w.blocks = most_blocks(*args), w.tiles = lf_blocks(args->heads, TILE_HEADS);
    bool many = args->rows >= MANY_ROWS;
    uint32_t most = args->rows ? place_work(device, many, &w) : 0;
    for (; w.first < args->rows; w.first += most) {
        w.rows = args->rows - w.first < most ? args->rows - w.first : most;
        if (many)
            run_many(device, w);
        else
            run_few(device, w);
    }
}
