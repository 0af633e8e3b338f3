#include "kernel/attention/attention.h"

#include "kernel/attention/attention_many.cuh"
#include "kernel/attention/attention_scores.cuh"
#include "kernel/attention/attention_values.cuh"
#include "kernel/cuda_table.h"

// From so many rows on a row is not shared out. So many blocks fill a device, once and twice.
enum { MANY_ROWS = 33, ENOUGH_BLOCKS = 128, TWICE_ENOUGH = 256, NARROW_DIM = 128 };

// Most blocks of keys of a row: how many there are, only the device knows.
static uint32_t most_blocks(const struct lf_attention_args &a) {
    // A launch may hold some rows of a span, whose length only the device knows.
    uint32_t span = a.rows > LF_ATTENTION_SPAN_ROWS ? a.rows : (uint32_t)LF_ATTENTION_SPAN_ROWS;
    return lf_blocks(a.window + (a.whole_span ? span : 0) + (a.entries ? a.topk : 0), BLOCK);
}

// Bytes of a row's dot products and wide keys; many rows need nothing but their lists.
static size_t row_bytes(const struct work &w, bool many) {
    size_t keys = (size_t)w.blocks * BLOCK, cells = (size_t)w.blocks * w.tiles;
    return many ? keys * sizeof *w.key + sizeof *w.list
                : cells * CELL_WORDS * sizeof *w.cell + keys * w.a.head_dim * 2 +
                      sizeof *w.n;
}

// Shares the scratch out among as many rows as it holds; returns how many.
static uint32_t place_work(struct lf_device *device, bool many, struct work *w) {
    uint32_t rows = (uint32_t)(LF_CUDA_SCRATCH_BYTES / row_bytes(*w, many));
    LF_ASSERT(rows);
    rows = rows < w->a.rows ? rows : w->a.rows;
    size_t keys = (size_t)rows * w->blocks * BLOCK;
    void *scratch = lf_cuda_scratch(device->cuda);
    w->cell = (uint32_t *)scratch;
    w->wide = (uint8_t *)(w->cell + (size_t)rows * w->blocks * w->tiles * CELL_WORDS);
    w->n = (uint32_t *)(w->wide + keys * w->a.head_dim * 2);
    w->key = (const uint8_t **)scratch;
    w->list = (struct many_list *)(w->key + keys);
    return rows;
}

// Tiles of heads share the widening of keys where rows fill the device even so.
static void launch_scores(struct lf_device *device, struct work w) {
    uint32_t parts = w.blocks * (BLOCK / SCORE_KEYS);
    w.each = TILES_MOST;
    while (w.each > 1 && w.rows * parts * lf_blocks(w.tiles, w.each) < ENOUGH_BLOCKS)
        w.each /= 2;
    lf_cuda_launch(device, "attention", attention_scores,
                   dim3(parts, lf_blocks(w.tiles, w.each), w.rows), THREADS, w,
                   score_room_of(w).all);
}

// So do elements the weights; not those of lists that are weighed in several stages.
static void launch_values(struct lf_device *device, struct work w) {
    uint32_t halves = lf_blocks(w.a.heads, HALF_HEADS), all = lf_blocks(w.a.head_dim, VALUE_DIMS);
    w.parts = 1;
    while (w.blocks <= STAGE_BLOCKS && w.parts < all &&
           w.rows * halves * lf_blocks(all, 2 * w.parts) >= TWICE_ENOUGH)
        w.parts *= 2;
    lf_cuda_launch(device, "attention", attention_values,
                   dim3(lf_blocks(all, w.parts), halves, w.rows), VALUE_THREADS, w,
                   (uint32_t)sizeof(struct value_block));
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

// Keys as bf16 with their dot products, then weights and values.
static void run_few(struct lf_device *device, const struct work &w) {
    launch_scores(device, w);
    launch_values(device, w);
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
