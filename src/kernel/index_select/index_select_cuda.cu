#include "kernel/index_select/index_select.h"

#include "kernel/block.cuh"
#include "kernel/linear/stream.cuh"

// OWN: items of a thread that are read together. NEAR_MAX: keys that have room in shared memory.
enum { THREADS = 1024, OWN = 8, TURN = THREADS * OWN, NEAR_MAX = 4 * TURN };
typedef struct lf_histogram<uint32_t> histogram;

// Items in ascending order with one key each.
struct source {
    const float *score;
    uint32_t n;            // items
    uint32_t size;         // 0: an item has a score of its own; else a block of so many scores
    struct lf_items items; // what entries items are; of blocks: they are themselves
    uint32_t *near;        // their keys in shared memory, where they have room; zeros behind them
};

__device__ static uint32_t key_of(const struct source &s, uint32_t item) {
    LF_CONTROL(1, if (!s.size) return item;) // 1: the newest entries instead of the best
    LF_CONTROL(7, if (!s.size && s.score[item] != s.score[item]) return UINT32_MAX;)
    LF_CONTROL(8, if (!s.size && lf_f32_bits(s.score[item]) == 0x80000000u) return 0x7FFFFFFF;)
    LF_CONTROL(9, if (s.size && item == s.n - 1) return lf_order_key(s.score[item * s.size]);)
    if (!s.size)
        return lf_order_key(s.score[item]);
    if (item == s.n - 1)
        return UINT32_MAX; // the newest block is forced in (8.7); no score has this key
    uint32_t best = 0;
#pragma unroll 8
    for (uint32_t i = item * s.size; i < (item + 1) * s.size; i++) {
        uint32_t key = lf_order_key(s.score[i]);
        best = key > best ? key : best;
    }
    return best;
}

template <bool near>
__device__ static uint32_t key_at(const struct source &s, uint32_t item) {
    return near ? s.near[item] : key_of(s, item);
}

__device__ static uint32_t key_below(const struct source &s, uint32_t item, uint32_t to) {
    return item < to ? key_of(s, item) : 0;
}

// All keys come to shared memory, ahead of a meeting.
__device__ static void bring_keys(const struct source &s) {
    uint32_t room = lf_blocks(s.n, OWN) * OWN;
    for (uint32_t first = threadIdx.x; first < room; first += TURN) {
        uint32_t key[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            key[i] = key_below(s, first + i * THREADS, s.n);
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            if (first + i * THREADS < room)
                s.near[first + i * THREADS] = key[i];
    }
}

// What digits from the top say: those bits of the k-th greatest key, and how many are greater.
struct found {
    uint32_t prefix, greater;
};

// Counts, by a digit, keys of items from .. to-1 whose higher digits are those found.
template <bool near>
__device__ static void count_digit(const struct source &s, uint32_t from, uint32_t to, int digit,
                                   struct found found, histogram *h) {
    uint32_t shift = lf_digit_shift(digit), mask = lf_digit_mask(digit);
    uint32_t known = digit ? lf_digits_known(digit - 1) : 0;
    lf_histogram_clear(h);
    for (uint32_t first = from + threadIdx.x; first < to; first += TURN) {
        uint32_t key[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            key[i] = first + i * THREADS < to ? key_at<near>(s, first + i * THREADS) : 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            if (first + i * THREADS < to && (key[i] & known) == found.prefix)
                atomicAdd(&h->bin[key[i] >> shift & mask], 1u);
    }
}

// One more digit, from counts over all items.
__device__ static struct found find_digit(histogram *h, int digit, struct found found, uint32_t k) {
    __syncthreads();
    if (threadIdx.x == 0)
        h->before = found.greater;
    uint32_t total;
    struct lf_histogram_share<uint32_t> share = lf_histogram_sum(h, &total);
    lf_histogram_find(h, share, k);
    return {found.prefix | h->place << lf_digit_shift(digit), h->before};
}

// Which of a thread's neighbouring items have keys above the threshold, and which that key.
struct compared {
    uint32_t greater, same;
};

template <bool near>
__device__ static struct compared compare_items(const struct source &s, uint32_t item, uint32_t to,
                                                uint32_t threshold) {
    struct compared are = {0, 0};
    uint4 four[OWN / 4];
    if (item >= to)
        return are;
#pragma unroll
    for (uint32_t i = 0; i < OWN / 4; i++)
        if (near)
            four[i] = *(const uint4 *)(s.near + item + 4 * i);
        else
            four[i] = {key_below(s, item + 4 * i, to), key_below(s, item + 4 * i + 1, to),
                       key_below(s, item + 4 * i + 2, to), key_below(s, item + 4 * i + 3, to)};
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint4 of = four[i / 4];
        uint32_t key = i % 4 == 0 ? of.x : i % 4 == 1 ? of.y : i % 4 == 2 ? of.z : of.w;
        are.greater |= (uint32_t)(key > threshold) << i;
        are.same |= (uint32_t)(item + i < to && key == threshold) << i;
    }
    return are;
}

// How many, the greater in the lower half: a turn has at most TURN.
__device__ static uint32_t count_both(struct compared are) {
    return (uint32_t)__popc(are.greater) + ((uint32_t)__popc(are.same) << 16);
}

// Keys before an item: greater ones, and tied ones.
struct rank {
    uint32_t greater, same;
};

__device__ static struct rank count_ranks(const struct source &s, uint32_t from, uint32_t to,
                                          uint32_t threshold) {
    struct rank rank = {0, 0};
    for (uint32_t first = from; first < to; first += TURN) {
        uint32_t item = first + threadIdx.x * OWN, total;
        lf_block_sum_before(count_both(compare_items<false>(s, item, to, threshold)), &total);
        rank.greater += total & 0xFFFF;
        rank.same += total >> 16;
    }
    return rank;
}

// Chosen among items before some place: all of greater keys, and the first `ties` tied ones.
__device__ static uint32_t chosen_before(struct rank rank, uint32_t ties) {
    return rank.greater + (rank.same < ties ? rank.same : ties);
}

// Lists the chosen ones of items from .. to-1, before which are those of `rank`.
template <bool near>
__device__ static void list_chosen(const struct source &s, uint32_t from, uint32_t to,
                                   struct found found, uint32_t k, struct rank rank,
                                   uint32_t *out) {
    uint32_t threshold = found.prefix, ties = k - found.greater, total;
    for (uint32_t first = from; first < to && chosen_before(rank, ties) < k; first += TURN) {
        uint32_t item = first + threadIdx.x * OWN;
        struct compared are = compare_items<near>(s, item, to, threshold);
        uint32_t before = lf_block_sum_before(count_both(are), &total);
        struct rank own = {rank.greater + (before & 0xFFFF), rank.same + (before >> 16)};
        for (uint32_t left = are.greater | are.same; left; left &= left - 1) {
            uint32_t i = (uint32_t)__ffs((int)left) - 1, is_greater = are.greater >> i & 1;
            uint32_t at = chosen_before(own, ties);
            bool is_chosen = is_greater || own.same < ties;
            LF_CONTROL(3, at -= own.same == ties; // 3: a later tie instead of the last chosen one
                       is_chosen = is_greater || own.same + 1 < ties || own.same == ties;)
            if (is_chosen)
                out[at] = lf_item_entry(&s.items, item + i);
            own.greater += is_greater;
            own.same += !is_greater;
        }
        rank.greater += total & 0xFFFF;
        rank.same += total >> 16;
    }
}

// What a row chooses: its entries, and before them the blocks it publishes.
struct choice {
    struct source from;
    uint32_t k;       // chosen
    uint32_t *out;    // ascending
    bool takes_all;   // out is 0, 1 ... and no score is read
};

__device__ static struct choice choose_blocks(const struct lf_index_select_args &a, uint32_t row) {
    uint32_t visible = a.visible[row], size = a.block_size;
    struct source s = {a.score + row * a.score_stride, visible / size + (visible % size != 0),
                       size};
    uint32_t most = a.topk_blocks;
    LF_CONTROL(2, most /= 2;) // 2: half the candidate blocks
    bool fits = s.n <= most;
    return {s, fits ? s.n : most, a.blocks + (size_t)row * a.topk_blocks, fits};
}

__device__ static struct choice choose_entries(const struct lf_index_select_args &a, uint32_t row) {
    uint32_t visible = a.visible[row], *out = a.selected + (size_t)row * a.topk;
    struct source s = {a.score + row * a.score_stride, visible};
    LF_CONTROL(10, s.score -= row == 5 ? a.score_stride : 0;)
    if (visible <= a.topk)
        return {s, visible, out, true};
    bool restricts = a.mode == LF_CANDIDATES_RESTRICT;
    LF_CONTROL(6, restricts = false;) // 6: the published blocks ignored
    if (restricts) {
        struct lf_candidates candidates = {a.blocks, a.n_blocks, a.block_size, a.topk_blocks};
        s.items = lf_items_of(&candidates, row, visible);
        s.n = s.items.n;
    }
    LF_CONTROL(4, s.n -= s.n > a.topk;) // 4: the last candidate is skipped
    LF_CONTROL(12, if (restricts) s.n = a.n_blocks[row] * a.block_size;)
    return {s, s.n < a.topk ? s.n : a.topk, out, false};
}

// Choice 0 is of entries, 1 of blocks.
__device__ static struct choice choice_of(const struct lf_index_select_args &a, uint32_t row,
                                          uint32_t choice) {
    return choice ? choose_blocks(a, row) : choose_entries(a, row);
}

__device__ static void store_count(const struct lf_index_select_args &a, uint32_t row,
                                   uint32_t choice, uint32_t n) {
    LF_CONTROL(11, a.selected[(size_t)a.rows * a.topk] = 0;) // 11: a write past the row's list
    if (threadIdx.x == 0)
        (choice ? a.n_blocks : a.n_selected)[row] = n;
}

__device__ static void list_all(const struct choice &c) {
    for (uint32_t i = threadIdx.x; i < c.k; i += THREADS)
        c.out[i] = i;
}

template <bool near>
__device__ static void choose(const struct choice &c, histogram *h) {
    struct found found = {0, 0};
    for (int digit = 0; digit < LF_DIGITS; digit++) {
        count_digit<near>(c.from, 0, c.from.n, digit, found, h);
        found = find_digit(h, digit, found, c.k);
    }
    list_chosen<near>(c.from, 0, c.from.n, found, c.k, {0, 0}, c.out);
}

struct rows {
    struct lf_index_select_args a;
    uint32_t room; // keys in shared memory
};

// A block a row and choice.
__global__ static void __launch_bounds__(THREADS) index_select_rows(struct rows r) {
    lf_take_turn();
    __shared__ histogram h;
    LF_DYNAMIC_SHARED(keys);
    struct choice c = choice_of(r.a, blockIdx.x, blockIdx.y);
    store_count(r.a, blockIdx.x, blockIdx.y, c.k);
    if (c.takes_all) {
        list_all(c);
    } else if (c.k && c.from.n <= r.room) {
        c.from.near = (uint32_t *)keys;
        bring_keys(c.from);
        choose<true>(c, &h);
    } else if (c.k) {
        choose<false>(c, &h);
    }
}

// Few rows of many items: blocks share a choice out in parts, a launch a step.
enum { PARTS_MAX = 128, CHOICES = 2, ROWS_MAX = 64 };

// What the launches hand on of a row's choice.
struct progress {
    uint32_t bin[LF_DIGITS][LF_BINS];
    struct found found[LF_DIGITS];
    struct rank part[PARTS_MAX];
};

struct work {
    struct lf_index_select_args a;
    struct progress *progress; // [rows][CHOICES]
    uint32_t items;            // of a part
    int digit;                 // of a launch that counts
};

// A block's place in the work; where it has none, from >= to.
struct share {
    struct choice choice;
    struct progress *progress;
    uint32_t from, to;
};

__device__ static struct share share_of(const struct work &w) {
    uint32_t row = blockIdx.y, choice = blockIdx.z;
    struct choice c = choice_of(w.a, row, choice);
    uint32_t items = c.from.size ? lf_blocks(w.items, c.from.size) : w.items;
    uint32_t n = c.takes_all || !c.k ? 0 : c.from.n, from = blockIdx.x * items;
    return {c, &w.progress[row * CHOICES + choice], from, n < from + items ? n : from + items};
}

// What digits up to one say: those before it are known, its counts are complete.
__device__ static struct found resume(struct progress *p, int digit, uint32_t k, histogram *h) {
    struct found before = {0, 0};
    if (digit > 0)
        before = p->found[digit - 1];
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += THREADS)
        h->bin[i] = p->bin[digit][i];
    struct found found = find_digit(h, digit, before, k);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        p->found[digit] = found;
    return found;
}

__global__ static void __launch_bounds__(THREADS) index_select_clear(struct work w) {
    lf_take_turn();
    uint32_t *bin = w.progress[blockIdx.x].bin[0];
    for (uint32_t i = threadIdx.x; i < LF_DIGITS * LF_BINS; i += THREADS)
        bin[i] = 0;
}

__global__ static void __launch_bounds__(THREADS) index_select_count(struct work w) {
    lf_take_turn();
    __shared__ histogram h;
    struct share s = share_of(w);
    if (s.from >= s.to)
        return;
    LF_CONTROL(13, if (blockIdx.x == 1) return;) // 13: the second part of a row is left out
    struct found found = {0, 0};
    if (w.digit > 0)
        found = resume(s.progress, w.digit - 1, s.choice.k, &h);
    count_digit<false>(s.choice.from, s.from, s.to, w.digit, found, &h);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += THREADS)
        if (h.bin[i])
            atomicAdd(&s.progress->bin[w.digit][i], h.bin[i]);
}

__global__ static void __launch_bounds__(THREADS) index_select_rank(struct work w) {
    lf_take_turn();
    __shared__ histogram h;
    struct share s = share_of(w);
    if (s.from >= s.to)
        return;
    struct found found = resume(s.progress, LF_DIGITS - 1, s.choice.k, &h);
    struct rank rank = count_ranks(s.choice.from, s.from, s.to, found.prefix);
    if (threadIdx.x == 0)
        s.progress->part[blockIdx.x] = rank;
}

__global__ static void __launch_bounds__(THREADS) index_select_list(struct work w) {
    lf_take_turn();
    struct share s = share_of(w);
    if (blockIdx.x == 0) {
        store_count(w.a, blockIdx.y, blockIdx.z, s.choice.k);
        if (s.choice.takes_all)
            list_all(s.choice);
    }
    if (s.from >= s.to)
        return;
    uint32_t lane = threadIdx.x % LF_WARP, greater = 0, same = 0;
    for (uint32_t part = lane; part < blockIdx.x; part += LF_WARP) {
        greater += s.progress->part[part].greater;
        same += s.progress->part[part].same;
    }
    list_chosen<false>(s.choice.from, s.from, s.to, s.progress->found[LF_DIGITS - 1], s.choice.k,
                {lf_warp_sum(greater), lf_warp_sum(same)}, s.choice.out);
}

static void select_in_parts(struct lf_device *device, const struct lf_index_select_args *args,
                            uint32_t choices) {
    struct work w = {*args, (struct progress *)lf_cuda_scratch(device->cuda), 0, 0};
    uint32_t each = args->rows * CHOICES;
    w.items = TURN * lf_blocks(args->score_stride, PARTS_MAX * TURN);
    dim3 grid(lf_blocks(args->score_stride, w.items), args->rows, choices);
    LF_ASSERT(each * sizeof *w.progress <= LF_CUDA_SCRATCH_BYTES);
    lf_cuda_launch(device, "index_select", index_select_clear, dim3(each), THREADS, w);
    for (w.digit = 0; w.digit < LF_DIGITS; w.digit++)
        lf_cuda_launch(device, "index_select", index_select_count, grid, THREADS, w);
    lf_cuda_launch(device, "index_select", index_select_rank, grid, THREADS, w);
    lf_cuda_launch(device, "index_select", index_select_list, grid, THREADS, w);
}

void lf_index_select_cuda(struct lf_device *device, const struct lf_index_select_args *args) {
    uint32_t choices = args->mode == LF_CANDIDATES_PUBLISH ? 2 : 1;
    size_t items = args->score_stride, inside = (size_t)args->topk_blocks * args->block_size;
    if (args->mode == LF_CANDIDATES_RESTRICT && inside < items)
        items = inside;
    if (args->rows <= ROWS_MAX && items > NEAR_MAX) {
        select_in_parts(device, args, choices);
        return;
    }
    uint32_t most = items < NEAR_MAX ? (uint32_t)items : (uint32_t)NEAR_MAX;
    struct rows rows = {*args, lf_blocks(most, OWN) * OWN};
    lf_cuda_launch(device, "index_select", index_select_rows, dim3(args->rows, choices), THREADS,
                   rows, rows.room * (uint32_t)sizeof(uint32_t));
}
