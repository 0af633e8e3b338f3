#include "kernel/index_select/index_select.h"

#include "base/number.h"
#include "device/pool.h"
#include "kernel/isa.h"

enum { CHUNK = 256, BINS = 2048 };

// Items in ascending order with one key each: entries, blocks, or the entries of given blocks.
struct source {
    const float *score;
    uint32_t n;             // items
    uint32_t size;          // entries a block
    int of_blocks;          // an item is a block, its key the best of its entries
    const uint32_t *inside; // NULL, or ascending blocks whose entries are the items
};

// Ascending with the float's value; both zeros are one value, NaN is below -infinity.
static uint32_t order(float x) {
    uint32_t bits = lf_f32_bits(x + 0.0f), magnitude = bits & 0x7FFFFFFFu;
#if LF_FAULT == 8
    bits = lf_f32_bits(x); // 8: -0 below +0
#endif
    uint32_t key = bits >> 31 ? ~bits : bits | 0x80000000u;
#if LF_FAULT == 7
    return magnitude > 0x7F800000u ? UINT32_MAX - 1 : key; // 7: NaN above every number
#endif
    return magnitude > 0x7F800000u ? 0 : key;
}

static uint32_t block_key(const struct source *s, uint32_t block) {
    uint32_t from = block * s->size, end = from + s->size, best = 0;
#if LF_FAULT == 9
    end = block == s->n - 1 ? from : end; // 9: the newest block is not forced in
#else
    if (block == s->n - 1)
        return UINT32_MAX; // the newest block is forced in (8.7); no score has this key
#endif
    for (uint32_t i = from; i < end; i++) {
        uint32_t key = order(s->score[i]);
        best = key > best ? key : best;
    }
    return best;
}

static uint32_t entry_of(const struct source *s, uint32_t item) {
    return s->inside ? s->inside[item / s->size] * s->size + item % s->size : item;
}

// Keys of items first .. first+n-1.
static void read_keys(const struct source *s, uint32_t first, uint32_t n, uint32_t keys[CHUNK]) {
    if (s->of_blocks)
        for (uint32_t i = 0; i < n; i++)
            keys[i] = block_key(s, first + i);
    else if (s->inside)
        for (uint32_t i = 0; i < n; i++)
            keys[i] = order(s->score[entry_of(s, first + i)]);
    else
        for (uint32_t i = 0; i < n; i++)
            keys[i] = order(s->score[first + i]);
}

// How many items with the known upper bits have each value of the digit below them.
static void count_digits(const struct source *s, uint32_t known, uint32_t prefix, uint32_t shift,
                         uint32_t mask, uint32_t bins[BINS]) {
    uint32_t keys[CHUNK];
    for (uint32_t i = 0; i <= mask; i++)
        bins[i] = 0;
    for (uint32_t first = 0; first < s->n; first += CHUNK) {
        uint32_t n = s->n - first < CHUNK ? s->n - first : CHUNK;
        read_keys(s, first, n, keys);
        for (uint32_t i = 0; i < n; i++)
            if ((keys[i] & known) == prefix)
                bins[keys[i] >> shift & mask]++;
    }
}

// The k-th greatest key, digit by digit from the top; *ties: how many items with it are chosen.
static uint32_t find_threshold(const struct source *s, uint32_t k, uint32_t *ties) {
    static const uint32_t shift[3] = {21, 10, 0}, mask[3] = {2047, 2047, 1023};
    uint32_t bins[BINS], known = 0, prefix = 0;
    for (int digit = 0; digit < 3; digit++) {
        uint32_t bin = mask[digit];
        count_digits(s, known, prefix, shift[digit], mask[digit], bins);
        for (; k > bins[bin]; bin--)
            k -= bins[bin];
        prefix |= bin << shift[digit];
        known |= mask[digit] << shift[digit];
#if LF_FAULT == 3
        *ties = bins[bin] - k; // 3: ties to the higher index: how many are passed over
#endif
    }
#if LF_FAULT == 3
#else
    *ties = k;
#endif
    return prefix;
}

// The k items of greatest key, ties to the lower item, ascending; k <= n. Returns k.
static uint32_t select_best(const struct source *s, uint32_t k, uint32_t *out) {
    uint32_t keys[CHUNK], ties, found = 0;
    if (k == 0)
        return 0;
    uint32_t threshold = find_threshold(s, k, &ties);
    for (uint32_t first = 0; first < s->n; first += CHUNK) {
        uint32_t n = s->n - first < CHUNK ? s->n - first : CHUNK;
        read_keys(s, first, n, keys);
        for (uint32_t i = 0; i < n; i++)
#if LF_FAULT == 3
            if (keys[i] > threshold || (keys[i] == threshold && !(ties && ties--)))
#else
            if (keys[i] > threshold || (keys[i] == threshold && ties && ties--))
#endif
                out[found++] = entry_of(s, first + i);
    }
    return found;
}

static uint32_t list_all(uint32_t n, uint32_t *out) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = i;
    return n;
}

// Every block while they fit: then no score is read.
static void publish(const struct lf_index_select_args *args, uint32_t row) {
    uint32_t visible = args->visible[row], size = args->block_size, limit = args->topk_blocks;
    uint32_t *blocks = args->blocks + (size_t)row * args->topk_blocks;
    struct source s = {.score = args->score + row * args->score_stride, .size = size,
                       .n = visible / size + (visible % size != 0), .of_blocks = 1};
#if LF_FAULT == 2
    limit /= 2; // 2: half the candidate blocks
#endif
    args->n_blocks[row] = s.n <= limit ? list_all(s.n, blocks) : select_best(&s, limit, blocks);
#if LF_FAULT == 5
    uint32_t held = blocks[0]; // 5: blocks in no order
    blocks[0] = blocks[limit / 2], blocks[limit / 2] = held;
#endif
}

static void choose(const struct lf_index_select_args *args, uint32_t row) {
    uint32_t visible = args->visible[row], *out = args->selected + (size_t)row * args->topk;
    struct source s = {.score = args->score + row * args->score_stride, .n = visible,
                       .size = 1};
#if LF_FAULT == 10
    s.score -= row == 5 ? args->score_stride : 0; // 10: the sixth row reads the fifth's scores
#elif LF_FAULT == 11
    out[args->topk] = 0; // 11: a write past the row's list
#endif
    if (visible <= args->topk) {
        args->n_selected[row] = list_all(visible, out);
        return;
    }
#if LF_FAULT == 1
    for (uint32_t i = 0; i < args->topk; i++)
        out[i] = visible - args->topk + i; // 1: the newest entries instead of the best
    args->n_selected[row] = args->topk;
    return;
#endif
#if LF_FAULT == 6 // 6: the published blocks ignored
#else
    if (args->mode == LF_CANDIDATES_RESTRICT) {
        uint32_t n = args->n_blocks[row];
        s.inside = args->blocks + (size_t)row * args->topk_blocks;
        s.size = args->block_size;
        s.n = n * s.size;
#if LF_FAULT == 12 // 12: entries of the newest block past what is visible
#else
        if (n && visible - s.inside[n - 1] * s.size < s.size)
            s.n -= s.size - (visible - s.inside[n - 1] * s.size);
#endif
    }
#endif
#if LF_FAULT == 4
    s.n -= s.n != 0; // 4: the last candidate is skipped
#endif
    args->n_selected[row] = select_best(&s, s.n < args->topk ? s.n : args->topk, out);
}

static void select_row(void *ctx, uint32_t row, uint32_t worker) {
    (void)worker;
    const struct lf_index_select_args *args = ctx;
    if (args->mode == LF_CANDIDATES_PUBLISH)
        publish(args, row);
    choose(args, row);
}

void LF_KERNEL_NAME(lf_index_select)(struct lf_device *device,
                                     const struct lf_index_select_args *args) {
    struct lf_index_select_args copy = *args;
    lf_pool_run(device->pool, args->rows, select_row, &copy);
}
