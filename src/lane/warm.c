#include "lane/warm.h"

#include <stdlib.h>

static uint32_t least(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

// token: as many ids as the longest chunk has rows.
static enum lf_status warm_chunk(struct lf_target *t, const uint32_t *token, struct lf_error *err) {
    const struct lf_target_info *info = t->ops->info(t);
    uint32_t rows = least(info->chunk_rows_max, info->context), drawn;
    struct lf_bound end = {.at = rows, .logits = true};
    struct lf_chunk chunk = {.rows = rows, .tok = token, .plan = &end, .n_plan = 1};
    struct lf_sampling rule = {0};
    struct lf_window last = {.pos0 = rows, .rule = &rule};
    LF_TRY(t->ops->grow(t, 0, rows, err));
    LF_TRY(t->ops->prefill(t, &chunk, 1, err));
    LF_TRY(t->ops->draw_last(t, &last, &drawn, err));
    return t->ops->reset(t, 0, err);
}

// A window of every slot, each as long as the launch has room for, after a prompt of one row.
static enum lf_status warm_launch(struct lf_target *t, const uint32_t *token,
                                  struct lf_window *window, uint32_t *drawn,
                                  struct lf_error *err) {
    const struct lf_target_info *info = t->ops->info(t);
    struct lf_sampling rule = {0};
    struct lf_bound end = {.at = 1};
    uint32_t slots = least(info->slots, info->launch_rows_max);
    uint32_t rows = least(info->window_max, info->launch_rows_max / slots);
    rows = least(rows, info->context - 1);
    for (uint32_t s = 0; rows && s < slots; s++) {
        struct lf_chunk chunk = {.slot = s, .rows = 1, .tok = token, .plan = &end, .n_plan = 1};
        LF_TRY(t->ops->grow(t, s, 1 + rows, err));
        LF_TRY(t->ops->prefill(t, &chunk, 1, err));
        window[s] = (struct lf_window){.slot = s, .rows = rows, .pos0 = 1, .tok = token,
                                       .rule = &rule};
    }
    if (rows) {
        uint32_t *kept = drawn + info->launch_rows_max;
        LF_TRY(t->ops->verify(t, window, slots, drawn, err));
        for (uint32_t s = 0; s < slots; s++)
            kept[s] = rows;
        LF_TRY(t->ops->keep(t, window, kept, slots, err));
    }
    for (uint32_t s = 0; s < slots; s++)
        LF_TRY(t->ops->reset(t, s, err));
    return LF_OK;
}

enum lf_status lf_target_warm(struct lf_target *t, struct lf_error *err) {
    const struct lf_target_info *info = t->ops->info(t);
    size_t ids = info->chunk_rows_max + info->window_max;
    uint32_t *token = calloc(ids, sizeof *token);
    struct lf_window *window = calloc(info->slots, sizeof *window);
    uint32_t *drawn = calloc((size_t)info->launch_rows_max + info->slots, sizeof *drawn);
    if (!token || !window || !drawn)
        lf_fail(err, LF_E_MEM, "out of memory for the first launch");
    else if (warm_chunk(t, token, err) == LF_OK)
        warm_launch(t, token, window, drawn, err);
    free(token);
    free(window);
    free(drawn);
    return err->status;
}
