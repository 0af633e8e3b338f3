#include "kernel/sample/sample.h"

#include "kernel/block.cuh"
#include "kernel/math.h"
#include "kernel/sample/noise.h"

// Blocks share a row out in parts of PART logits; OWN: of a thread, read together.
enum { THREADS = 512, OWN = 4, PART = THREADS * OWN, PARTS_MAX = 512, BLOCKS_A_PROCESSOR = 4 };
typedef unsigned long long u64;
typedef struct lf_histogram<u64> histogram;

// A row's rule, with its mask in device memory.
struct rule {
    struct lf_sampling sampling;
    uint64_t position;
    const uint32_t *mask;
};

// The last candidate in the order of S-4 that a filter keeps.
struct edge {
    uint32_t key, id;
};

// The filters in their order, each found by launches of one digit.
enum filter { TOP_K, TOP_P, FILTERS };

__device__ static bool by_mass(enum filter filter) {
    LF_CONTROL(8, return filter == TOP_K;) // 8: top_k after top_p
    return filter == TOP_P;
}

// What digits from the top say of a filter's edge; idle: the filter keeps everything.
struct found {
    uint32_t prefix, idle;
    u64 before, need;
};

struct leader {
    double score;
    u64 candidate;
};

// What the launches of a row hand on, zeros at first.
struct progress {
    u64 first; // candidate
    uint32_t bad, done, kept;
    u64 bin[FILTERS][LF_DIGITS][LF_BINS];
    struct found found[FILTERS][LF_DIGITS];
    struct edge edge[FILTERS];
    struct leader leader[PARTS_MAX];
};

// A launch's parameter: rules need no memory of their own.
enum { ROWS = 56 };
struct work {
    struct lf_sample_args args; // row is not read
    struct progress *progress;  // [rows]
    enum filter filter;         // of a launch that counts
    int digit;
    struct rule rule[ROWS];
};

// One row's draw; all threads hold the same.
struct draw {
    const float *logits;
    struct rule rule;
    struct progress *progress;
    uint32_t vocab, first;
    double x_first;
    struct edge edge;
};

static const uint32_t lowest_key = 0x00800000; // of the least finite logit

__device__ static float logit_of_key(uint32_t key) {
    return lf_f32_from_bits(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

// Minus infinity where masked and past the vocabulary.
__device__ static float logit_at(const struct draw &d, uint32_t id) {
    LF_CONTROL(15, if (id + 1 == d.vocab) return -INFINITY;) // 15: the last id is no candidate
    bool allowed = id < d.vocab && (!d.rule.mask || (d.rule.mask[id / 32] >> id % 32 & 1));
    return allowed ? d.logits[id] : -INFINITY;
}

// The i-th of a thread's logits of the part that begins at `first`.
__device__ static uint32_t own_id(uint32_t first, uint32_t i) {
    return first + i * THREADS + threadIdx.x;
}

// A block takes parts from here on, so far apart.
__device__ static uint32_t first_part(void) {
    return blockIdx.x * PART;
}

__device__ static uint32_t part_step(void) {
    return gridDim.x * PART;
}

__device__ static void load_own(const struct draw &d, uint32_t first, float logit[OWN]) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++)
        logit[i] = logit_at(d, own_id(first, i));
}

__device__ static bool is_kept(const struct draw &d, uint32_t key, uint32_t id) {
    return key > d.edge.key || (key == d.edge.key && id <= d.edge.id);
}

// floor(exp(x - x_first) * 2^40); equal infinities count as equal.
__device__ static uint64_t mass_of(const struct draw &d, float logit) {
    double below = (double)logit / d.rule.sampling.temperature - d.x_first;
    if (!(below < 0))
        return (uint64_t)1 << 40;
    LF_CONTROL(4, return (uint64_t)((double)((float)lf_exp64(below) + 1.0f - 1.0f) * 0x1p40);)
    LF_CONTROL(7, double min_p = d.rule.sampling.min_p; // 7: min_p before top_p
               if (min_p > 0 && below < lf_log64(min_p)) return 0;)
    return below < -28.0 ? 0 : (uint64_t)(lf_exp64(below) * 0x1p40);
}

// ceil(total * P / 2^32), at least 1 (S-8).
__device__ static uint64_t nucleus_need(uint64_t total, double top_p) {
    LF_CONTROL(10, top_p = (double)(float)top_p;) // 10: top_p in float32
    uint64_t share = (uint64_t)floor((top_p > 0 ? top_p : 0) * 0x1p32 + 0.5);
    uint64_t low = (total & 0xFFFFFFFFu) * share, high = (total >> 32) * share;
    uint64_t need = high + (low >> 32) + ((low & 0xFFFFFFFFu) != 0);
    return need ? need : 1;
}

__device__ static struct draw draw_of(const struct work &w) {
    uint32_t row = blockIdx.y;
    const struct lf_sample_args &a = w.args;
    struct draw d = {a.logits + row * a.logits_stride, w.rule[row], &w.progress[row], a.vocab};
    d.edge = {lowest_key, UINT32_MAX};
    LF_CONTROL(1, d.rule.position = w.rule[0].position + row;) // 1: the position from the place
    LF_CONTROL(9, d.rule.sampling.temperature = (float)d.rule.sampling.temperature;)
    LF_CONTROL(11, d.rule.mask = NULL;) // 11: the mask is not read
    LF_CONTROL(21, d.rule = w.rule[row - (row == 5)];) // 21: the neighbour's rule at place 5
    return d;
}

// After the first launch; false where the row has no distribution.
__device__ static bool read_first(struct draw *d) {
    if (d->progress->bad || !d->progress->first)
        return false;
    d->first = lf_candidate_id(d->progress->first);
    LF_CONTROL(3, d->first = (uint32_t)d->progress->first;)
    d->x_first = (double)d->logits[d->first] / d->rule.sampling.temperature;
    return true;
}

__device__ static bool is_bad(float logit) {
    LF_CONTROL(14, return logit == INFINITY;) // 14: a NaN is not seen
    return !(logit < INFINITY);
}

// The greatest candidate, and whether a logit is not a number.
__global__ static void __launch_bounds__(THREADS)
sample_first(__grid_constant__ const struct work w) {
    lf_take_turn();
    struct draw d = draw_of(w);
    u64 best = 0;
    int bad = 0;
    for (uint32_t first = first_part(); first < d.vocab; first += part_step())
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            uint32_t id = own_id(first, i);
            float logit = logit_at(d, id);
            bad |= id < d.vocab && is_bad(d.logits[id]);
            u64 candidate = lf_candidate(lf_order_key(logit), id);
            LF_CONTROL(3, candidate = candidate >> 32 << 32 | id;) // 3: ties to the higher id
            best = logit > -INFINITY && candidate > best ? candidate : best;
        }
    best = lf_block_max(best);
    bad = __syncthreads_or(bad);
    if (threadIdx.x == 0) {
        atomicMax(&d.progress->first, best);
        if (bad)
            atomicMax(&d.progress->bad, 1u);
    }
}

// The id of the count-th of all ids with the key, ascending; rare, so each block looks for itself.
__device__ static uint32_t find_tied(const struct draw &d, uint32_t tied, uint64_t count) {
    __shared__ uint32_t found;
    uint64_t rank = 0;
    for (uint32_t from = 0; from < d.vocab && rank < count; from += PART) {
        uint32_t first = from + threadIdx.x * OWN, own = 0, total;
        for (uint32_t i = 0; i < OWN; i++)
            own += lf_order_key(logit_at(d, first + i)) == tied;
        uint64_t before = rank + lf_block_sum_before(own, &total);
        for (uint32_t i = 0; i < OWN; i++)
            if (lf_order_key(logit_at(d, first + i)) == tied && ++before == count)
                found = first + i;
        rank += total;
    }
    __syncthreads();
    return found;
}

// One digit of a filter's edge, whose counts are complete; the others are known.
__device__ static struct found find_digit(const struct draw &d, enum filter filter, int digit,
                                          histogram *h) {
    struct found found = {0, 0, 0, 0};
    if (digit > 0)
        found = d.progress->found[filter][digit - 1];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += THREADS)
        h->bin[i] = d.progress->bin[filter][digit][i];
    if (threadIdx.x == 0)
        h->before = found.before;
    u64 total;
    struct lf_histogram_share<u64> share = lf_histogram_sum(h, &total);
    if (digit == 0) {
        found.need = by_mass(filter) ? nucleus_need(total, d.rule.sampling.top_p)
                                     : (uint64_t)d.rule.sampling.top_k;
        found.idle = found.need > total;
    }
    if (!found.idle) {
        lf_histogram_find(h, share, found.need);
        found.prefix |= h->place << lf_digit_shift(digit);
        found.before = h->before;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        d.progress->found[filter][digit] = found;
    return found;
}

// Moves the edge to the candidate whose weight brings the sum in order up to what is needed.
__device__ static void find_edge(struct draw *d, enum filter filter, histogram *h) {
    struct found found = find_digit(*d, filter, LF_DIGITS - 1, h);
    if (!found.idle) {
        uint64_t each = by_mass(filter) ? mass_of(*d, logit_of_key(found.prefix)) : 1;
        uint64_t count = (found.need - found.before + each - 1) / each;
        bool all = count * each >= h->bin[h->place];
        LF_CONTROL(18, all = true;) // 18: all candidates tied at the end are kept
        struct edge edge = {found.prefix, UINT32_MAX};
        if (!all)
            edge.id = find_tied(*d, found.prefix, count);
        else if (edge.key == d->edge.key)
            edge.id = d->edge.id;
        d->edge = edge;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        d->progress->edge[filter] = d->edge;
}

__device__ static bool has_filter(const struct draw &d, enum filter filter) {
    const struct lf_sampling &rule = d.rule.sampling;
    LF_CONTROL(13, if (filter == TOP_K) return false;) // 13: top_k left out
    LF_CONTROL(22, if (filter == TOP_P) return false;) // 22: top_p left out
    return rule.temperature > 0 && (by_mass(filter) ? rule.top_p < 1 : rule.top_k > 0);
}

// The edge that filters before `end` leave; of the last of them it may still have to be found.
__device__ static void read_edge(struct draw *d, int end, bool is_found, histogram *h) {
    bool top_k = end > TOP_K && has_filter(*d, TOP_K), top_p = end > TOP_P && has_filter(*d, TOP_P);
    if (top_k && (top_p || is_found))
        d->edge = d->progress->edge[TOP_K];
    if ((top_k || top_p) && !is_found)
        find_edge(d, top_p ? TOP_P : TOP_K, h);
}

// A part's weights by a digit, in halves: no sum of PART of them passes 32 bits.
enum { HALF_BITS = 20 };
struct part_bins {
    uint32_t low[LF_BINS], high[LF_BINS];
};
static_assert(((u64)PART << HALF_BITS) <= UINT32_MAX, "sums of halves");

__device__ static void add_weight(struct part_bins *bins, uint32_t place, u64 weight) {
    if (weight & ((1u << HALF_BITS) - 1))
        atomicAdd(&bins->low[place], (uint32_t)weight & ((1u << HALF_BITS) - 1));
    if (weight >> HALF_BITS)
        atomicAdd(&bins->high[place], (uint32_t)(weight >> HALF_BITS));
}

// Adds a part's weights by a digit to the row's.
__device__ static void count_part(const struct draw &d, const struct work &w, uint32_t first,
                                  uint32_t prefix, struct part_bins *bins) {
    uint32_t known = w.digit > 0 ? lf_digits_known(w.digit - 1) : 0;
    float logit[OWN];
    load_own(d, first, logit);
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += THREADS)
        bins->low[i] = bins->high[i] = 0;
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint32_t key = lf_order_key(logit[i]);
        if ((key & known) == prefix && is_kept(d, key, own_id(first, i)))
            add_weight(bins, key >> lf_digit_shift(w.digit) & lf_digit_mask(w.digit),
                       by_mass(w.filter) ? mass_of(d, logit[i]) : 1);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += THREADS)
        if (bins->low[i] | bins->high[i])
            atomicAdd(&d.progress->bin[w.filter][w.digit][i],
                      ((u64)bins->high[i] << HALF_BITS) + bins->low[i]);
}

// Weights by a digit of those that the filters before keep.
__global__ static void __launch_bounds__(THREADS)
sample_count(__grid_constant__ const struct work w) {
    lf_take_turn();
    __shared__ histogram h;
    __shared__ struct part_bins bins;
    struct draw d = draw_of(w);
    if (!has_filter(d, w.filter) || !read_first(&d))
        return;
    read_edge(&d, w.filter, w.digit > 0, &h);
    struct found found = {0, 0, 0, 0};
    if (w.digit > 0)
        found = find_digit(d, w.filter, w.digit - 1, &h);
    if (found.idle)
        return;
    for (uint32_t first = first_part(); first < d.vocab; first += part_step())
        count_part(d, w, first, found.prefix, &bins);
}

__device__ static uint64_t noise_of(const struct draw &d, uint32_t id) {
    uint64_t position = d.rule.position, seed = d.rule.sampling.seed;
    LF_CONTROL(5, seed = (uint32_t)seed;) // 5: the seed truncated to 32 bits
    LF_CONTROL(6, position = (uint32_t)position;) // 6: the position truncated to 32 bits
    uint32_t c0 = id, c1 = (uint32_t)position, c2 = (uint32_t)(position >> 32), c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < LF_PHILOX_ROUNDS; round++) {
        LF_CONTROL(20, if (round == 9) break;) // 20: nine rounds of Philox
        lf_philox_round(&c0, &c1, &c2, &c3, &k0, &k1);
    }
    return (uint64_t)c1 << 32 | c0;
}

// Ascends with the score; both zeros are one value.
__device__ static u64 order_score(double score) {
    u64 bits = lf_f64_bits(score + 0.0);
    return bits >> 63 ? ~bits : bits | (u64)1 << 63;
}

// One that passed the edge; false where min_p leaves it out. What cannot win costs no logarithm.
__device__ static bool enter(const struct draw &d, float logit, uint32_t id, double x_least,
                             struct leader *best) {
    double x = (double)logit / d.rule.sampling.temperature;
    LF_CONTROL(19, x = (double)logit;) // 19: the temperature left out of the race
    if (!(x >= x_least))
        return false;
    if (!(x + LF_NOISE_GUMBEL_MAX >= best->score))
        return true;
    uint64_t noise = noise_of(d, id);
    LF_CONTROL(17, if (!(x + lf_noise_gumbel_bound(noise) - 1.5 >= best->score)) return true;)
    if (!(x + lf_noise_gumbel_bound(noise) >= best->score))
        return true;
    double score = x + lf_noise_gumbel(noise);
    u64 candidate = lf_candidate(lf_order_key(logit), id);
    LF_CONTROL(2, candidate = id;) // 2: ties of a race to the higher id
    if (score > best->score || (score == best->score && candidate > best->candidate))
        *best = {score, candidate};
    return true;
}

__device__ static double score_of_order(u64 order) {
    return lf_f64_from_bits(order >> 63 ? order & ~((u64)1 << 63) : ~order);
}

// The best of all threads' leaders, to all of them.
__device__ static struct leader best_leader(struct leader own) {
    u64 greatest = lf_block_max(order_score(own.score));
    u64 candidate = lf_block_max(order_score(own.score) == greatest ? own.candidate : 0);
    return {score_of_order(greatest), candidate};
}

// S-10 in the block's parts. Every thread starts from the first candidate.
__device__ static struct leader run_race(const struct draw &d, uint32_t *kept) {
    const struct lf_sampling &rule = d.rule.sampling;
    double x_least = rule.min_p > 0 ? d.x_first + lf_log64(rule.min_p) : -(double)INFINITY;
    LF_CONTROL(12, x_least = -(double)INFINITY;) // 12: min_p left out
    struct leader best = {d.x_first + lf_noise_gumbel(noise_of(d, d.first)),
                          lf_candidate(lf_order_key(d.logits[d.first]), d.first)};
    LF_CONTROL(2, best.candidate = d.first;)
    *kept = 0;
    for (uint32_t first = first_part(); first < d.vocab; first += part_step()) {
        float logit[OWN];
        load_own(d, first, logit);
        for (uint32_t i = 0; i < OWN; i++)
            if (is_kept(d, lf_order_key(logit[i]), own_id(first, i)))
                *kept += enter(d, logit[i], own_id(first, i), x_least, &best);
    }
    return best_leader(best);
}

__device__ static void store_drawn(const struct lf_sample_args &a, uint32_t drawn, uint32_t kept) {
    if (threadIdx.x == 0) {
        LF_CONTROL(16, a.drawn[gridDim.y] = 0;) // 16: a write past the row
        a.drawn[blockIdx.y] = drawn;
        if (a.kept)
            a.kept[blockIdx.y] = kept;
    }
}

__global__ static void __launch_bounds__(THREADS)
sample_race(__grid_constant__ const struct work w) {
    lf_take_turn();
    __shared__ histogram h;
    struct draw d = draw_of(w);
    bool has_first = read_first(&d);
    if (!has_first || !(d.rule.sampling.temperature > 0)) {
        if (blockIdx.x == 0)
            store_drawn(w.args, has_first ? d.first : LF_SAMPLE_NONE, 0);
        return;
    }
    read_edge(&d, FILTERS, false, &h);
    uint32_t kept;
    struct leader best = run_race(d, &kept);
    kept = lf_warp_sum(kept);
    if (threadIdx.x % LF_WARP == 0 && kept)
        atomicAdd(&d.progress->kept, kept);
    if (threadIdx.x == 0)
        d.progress->leader[blockIdx.x] = best;
    if (!lf_is_last_block(&d.progress->done, gridDim.x))
        return;
    const volatile struct progress *p = d.progress;
    uint32_t part = threadIdx.x < gridDim.x ? threadIdx.x : 0;
    best = best_leader({p->leader[part].score, p->leader[part].candidate});
    LF_CONTROL(2, best.candidate = ~best.candidate;)
    store_drawn(w.args, lf_candidate_id(best.candidate), p->kept);
}

static bool any_filter(const struct lf_sample_row *row, uint32_t rows, enum filter filter) {
    for (uint32_t r = 0; r < rows; r++) {
        const struct lf_sampling *rule = row[r].rule;
        if (rule->temperature > 0 && (filter == TOP_P ? rule->top_p < 1 : rule->top_k > 0))
            return true;
    }
    return false;
}

static void draw_rows(struct lf_device *device, struct work *w, const struct lf_sample_row *row) {
    // Each block finds its row's digits anew: many rows have few blocks each.
    uint32_t parts = lf_blocks(w->args.vocab, PART);
    uint32_t most = lf_blocks(BLOCKS_A_PROCESSOR * lf_cuda_info(device->cuda)->processors,
                              w->args.rows);
    dim3 grid(parts < most ? parts : most, w->args.rows);
    lf_cuda_fill(device->cuda, w->progress, 0, sizeof *w->progress * w->args.rows);
    lf_cuda_launch(device, "sample", sample_first, grid, THREADS, *w);
    for (int filter = 0; filter < FILTERS; filter++) {
        w->filter = (enum filter)filter;
        if (any_filter(row, w->args.rows, w->filter))
            for (w->digit = 0; w->digit < LF_DIGITS; w->digit++)
                lf_cuda_launch(device, "sample", sample_count, grid, THREADS, *w);
    }
    lf_cuda_launch(device, "sample", sample_race, grid, THREADS, *w);
}

void lf_sample_cuda(struct lf_device *device, const struct lf_sample_args *args) {
    LF_ASSERT(args->vocab <= PARTS_MAX * PART);
    static_assert(ROWS * sizeof(struct progress) <= LF_CUDA_SCRATCH_BYTES, "rows of a launch");
    for (uint32_t first = 0; first < args->rows; first += ROWS) {
        uint32_t n = args->rows - first < ROWS ? args->rows - first : (uint32_t)ROWS;
        struct work w = {*args, (struct progress *)lf_cuda_scratch(device->cuda), TOP_K, 0};
        for (uint32_t r = 0; r < n; r++) {
            const struct lf_sample_row *row = &args->row[first + r];
            w.rule[r] = {*row->rule, row->position, row->mask};
        }
        w.args.rows = n;
        w.args.logits += first * args->logits_stride;
        w.args.drawn += first;
        if (w.args.kept)
            w.args.kept += first;
        draw_rows(device, &w, args->row + first);
    }
}
