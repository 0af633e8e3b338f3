#include "kernel/sample/sample.h"

#include "kernel/block.cuh"
#include "kernel/math.h"
#include "kernel/sample/noise.h"

// OWN: logits of a thread that are read together.
enum { THREADS = 1024, OWN = 4, TURN = THREADS * OWN };
enum { ROWS = 60 }; // of a launch: their rules are its parameter

// A row's rule, with its mask in device memory.
struct rule {
    struct lf_sampling sampling;
    uint64_t position;
    const uint32_t *mask;
};

struct draws {
    struct lf_sample_args args; // row is not read
    struct rule rule[ROWS];
};

// One row's draw; all threads hold the same.
struct draw {
    const float *logits;
    struct rule rule;
    uint32_t vocab, first;
    double x_first;
    uint32_t edge_key, edge_id; // the last candidate still kept
};

static const uint32_t lowest_key = 0x00800000; // of the least finite logit

__device__ static float logit_of_key(uint32_t key) {
    return lf_f32_from_bits(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

// Minus infinity where masked.
__device__ static float logit_at(const struct draw &d, uint32_t id) {
    bool allowed = !d.rule.mask || (d.rule.mask[id / 32] >> id % 32 & 1);
    return allowed ? d.logits[id] : -INFINITY;
}

// Logits id, id + THREADS ... of a thread; minus infinity past the vocabulary too.
__device__ static void load_own(const struct draw &d, uint32_t id, float logit[OWN]) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++)
        logit[i] = id + i * THREADS < d.vocab ? logit_at(d, id + i * THREADS) : -INFINITY;
}

__device__ static bool is_kept(const struct draw &d, uint32_t key, uint32_t id) {
    return key > d.edge_key || (key == d.edge_key && id <= d.edge_id);
}

// floor(exp(x - x_first) * 2^40); equal infinities count as equal.
__device__ static uint64_t mass_of(const struct draw &d, float logit) {
    double below = (double)logit / d.rule.sampling.temperature - d.x_first;
    if (!(below < 0))
        return (uint64_t)1 << 40;
    return below < -28.0 ? 0 : (uint64_t)(lf_exp64(below) * 0x1p40);
}

// ceil(total * P / 2^32), at least 1 (S-8).
__device__ static uint64_t nucleus_need(uint64_t total, double top_p) {
    uint64_t share = (uint64_t)floor((top_p > 0 ? top_p : 0) * 0x1p32 + 0.5);
    uint64_t low = (total & 0xFFFFFFFFu) * share, high = (total >> 32) * share;
    uint64_t need = high + (low >> 32) + ((low & 0xFFFFFFFFu) != 0);
    return need ? need : 1;
}

// The first candidate into d->first; false where there is none, or a logit is not a number.
__device__ static bool find_first(struct draw *d) {
    unsigned long long best = 0;
    int bad = 0;
#pragma unroll 4
    for (uint32_t id = threadIdx.x; id < d->vocab; id += THREADS)
        bad |= !(d->logits[id] < INFINITY);
    for (uint32_t id = threadIdx.x; id < d->vocab; id += TURN) {
        float logit[OWN];
        load_own(*d, id, logit);
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            unsigned long long candidate = lf_candidate(lf_order_key(logit[i]), id + i * THREADS);
            best = logit[i] > -INFINITY && candidate > best ? candidate : best;
        }
    }
    best = lf_block_max(best);
    d->first = lf_candidate_id(best);
    return !__syncthreads_or(bad) && best;
}

__device__ static void fill_bins(const struct draw &d, bool by_mass, uint32_t prefix,
                                 uint32_t known, int digit, struct lf_histogram *h) {
    lf_histogram_clear(h);
    for (uint32_t id = threadIdx.x; id < d.vocab; id += TURN) {
        float logit[OWN];
        load_own(d, id, logit);
        for (uint32_t i = 0; i < OWN; i++) {
            uint32_t key = lf_order_key(logit[i]);
            if ((key & known) == prefix && is_kept(d, key, id + i * THREADS))
                atomicAdd(&h->bin[key >> lf_digit_shift(digit) & lf_digit_mask(digit)],
                          (unsigned long long)(by_mass ? mass_of(d, logit[i]) : 1));
        }
    }
    lf_histogram_sum(h);
}

// The id of the count-th candidate, by ascending id, that has the key; bins are ranges of ids.
__device__ static uint32_t find_tied(const struct draw &d, uint32_t tied, uint64_t count,
                                     struct lf_histogram *h) {
    __shared__ uint32_t found;
    uint32_t width = (d.vocab + LF_BINS - 1) / LF_BINS;
    lf_histogram_clear(h);
    for (uint32_t id = threadIdx.x; id < d.vocab; id += TURN) {
        float logit[OWN];
        load_own(d, id, logit);
        for (uint32_t i = 0; i < OWN; i++)
            if (lf_order_key(logit[i]) == tied)
                atomicAdd(&h->bin[LF_BINS - 1 - (id + i * THREADS) / width], 1ull);
    }
    if (threadIdx.x == 0)
        h->before = 0;
    lf_histogram_sum(h);
    lf_histogram_find(h, count);
    uint32_t first = (LF_BINS - 1 - h->place) * width;
    for (uint32_t i = threadIdx.x; i < width && first + i < d.vocab; i += THREADS) {
        uint64_t rank = h->before;
        for (uint32_t j = 0; j <= i; j++)
            rank += lf_order_key(logit_at(d, first + j)) == tied;
        if (rank == count && lf_order_key(logit_at(d, first + i)) == tied)
            found = first + i;
    }
    __syncthreads();
    return found;
}

// Moves the edge to the candidate whose weight brings the sum in order up to what is needed.
__device__ static void move_edge(struct draw *d, bool by_mass) {
    __shared__ struct lf_histogram h;
    uint64_t need = 0;
    uint32_t prefix = 0, known = 0;
    if (threadIdx.x == 0)
        h.before = 0;
    for (int digit = 0; digit < LF_DIGITS; digit++) {
        fill_bins(*d, by_mass, prefix, known, digit, &h);
        if (digit == 0) {
            need = by_mass ? nucleus_need(h.total, d->rule.sampling.top_p)
                           : (uint64_t)d->rule.sampling.top_k;
            if (need > h.total)
                return;
        }
        lf_histogram_find(&h, need);
        prefix |= h.place << lf_digit_shift(digit);
        known |= lf_digit_mask(digit) << lf_digit_shift(digit);
    }
    uint64_t each = by_mass ? mass_of(*d, logit_of_key(prefix)) : 1;
    uint64_t count = (need - h.before + each - 1) / each;
    __syncthreads();
    d->edge_id = find_tied(*d, prefix, count, &h);
    d->edge_key = prefix;
}

__device__ static uint64_t noise_of(const struct draw &d, uint32_t id) {
    uint64_t position = d.rule.position, seed = d.rule.sampling.seed;
    uint32_t c0 = id, c1 = (uint32_t)position, c2 = (uint32_t)(position >> 32), c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < LF_PHILOX_ROUNDS; round++)
        lf_philox_round(&c0, &c1, &c2, &c3, &k0, &k1);
    return (uint64_t)c1 << 32 | c0;
}

// Ascends with the score; both zeros are one value.
__device__ static unsigned long long order_score(double score) {
    unsigned long long bits = lf_f64_bits(score + 0.0);
    return bits >> 63 ? ~bits : bits | (unsigned long long)1 << 63;
}

struct leader {
    double score;
    unsigned long long candidate;
};

// One that passed the edge; false where min_p leaves it out. What cannot win costs no logarithm.
__device__ static bool enter(const struct draw &d, float logit, uint32_t id, double x_least,
                             struct leader *best) {
    double x = (double)logit / d.rule.sampling.temperature;
    if (!(x >= x_least))
        return false;
    if (!(x + LF_NOISE_GUMBEL_MAX >= best->score))
        return true;
    uint64_t noise = noise_of(d, id);
    if (!(x + lf_noise_gumbel_bound(noise) >= best->score))
        return true;
    double score = x + lf_noise_gumbel(noise);
    unsigned long long candidate = lf_candidate(lf_order_key(logit), id);
    if (score > best->score || (score == best->score && candidate > best->candidate))
        *best = {score, candidate};
    return true;
}

// S-10. Every thread starts from the first candidate.
__device__ static uint32_t run_race(const struct draw &d, uint32_t *kept) {
    const struct lf_sampling &rule = d.rule.sampling;
    double x_least = rule.min_p > 0 ? d.x_first + lf_log64(rule.min_p) : -(double)INFINITY;
    struct leader best = {d.x_first + lf_noise_gumbel(noise_of(d, d.first)),
                          lf_candidate(lf_order_key(d.logits[d.first]), d.first)};
    *kept = 0;
    for (uint32_t id = threadIdx.x; id < d.vocab; id += TURN) {
        float logit[OWN];
        load_own(d, id, logit);
        for (uint32_t i = 0; i < OWN; i++)
            if (is_kept(d, lf_order_key(logit[i]), id + i * THREADS))
                *kept += enter(d, logit[i], id + i * THREADS, x_least, &best);
    }
    unsigned long long greatest = lf_block_max(order_score(best.score));
    return lf_candidate_id(lf_block_max(order_score(best.score) == greatest ? best.candidate : 0));
}

__global__ static void __launch_bounds__(THREADS)
sample_rows(__grid_constant__ const struct draws draws) {
    __shared__ uint32_t kept_all;
    const struct lf_sample_args &a = draws.args;
    struct draw d = {a.logits + blockIdx.x * a.logits_stride, draws.rule[blockIdx.x], a.vocab};
    d.edge_key = lowest_key;
    d.edge_id = UINT32_MAX;
    uint32_t drawn = LF_SAMPLE_NONE, kept = 0;
    if (threadIdx.x == 0)
        kept_all = 0;
    if (find_first(&d)) {
        const struct lf_sampling &rule = d.rule.sampling;
        drawn = d.first;
        if (rule.temperature > 0) {
            d.x_first = (double)d.logits[d.first] / rule.temperature;
            if (rule.top_k > 0)
                move_edge(&d, false);
            if (rule.top_p < 1)
                move_edge(&d, true);
            drawn = run_race(d, &kept);
        }
    }
    __syncthreads();
    if (kept)
        atomicAdd(&kept_all, kept);
    __syncthreads();
    if (threadIdx.x == 0) {
        a.drawn[blockIdx.x] = drawn;
        if (a.kept)
            a.kept[blockIdx.x] = kept_all;
    }
}

void lf_sample_cuda(struct lf_device *device, const struct lf_sample_args *args) {
    for (uint32_t first = 0; first < args->rows; first += ROWS) {
        uint32_t n = args->rows - first < ROWS ? args->rows - first : (uint32_t)ROWS;
        struct draws draws = {*args};
        for (uint32_t r = 0; r < n; r++) {
            const struct lf_sample_row *row = &args->row[first + r];
            draws.rule[r] = {*row->rule, row->position, row->mask};
        }
        draws.args.logits += first * args->logits_stride;
        draws.args.drawn += first;
        if (draws.args.kept)
            draws.args.kept += first;
        lf_cuda_launch(device, "sample", sample_rows, dim3(n), THREADS, draws);
    }
}
