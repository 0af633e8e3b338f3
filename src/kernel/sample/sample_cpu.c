#include "kernel/sample/sample.h"

#include <math.h>
#include <stdbool.h>
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/sample/noise.h"

enum { BLOCK = 64, LANES = 16, BUCKETS = 2048 };

// All filters of engine.md 10.3 keep the first candidates of S-4's order: those up to the edge.
struct draw {
    const float *logits;
    const struct lf_sample_row *row;
    uint32_t vocab;
    uint32_t first; // id of the first candidate
    double temperature, x_first;
    uint32_t edge_key, edge_id; // the last candidate still kept
};

static const uint32_t lowest_key = 0x00800000; // of the least finite logit

// Ascends with the logit; the two zeros are equal.
static uint32_t key_of(float logit) {
    uint32_t bits = lf_f32_bits(logit + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static float logit_of_key(uint32_t key) {
    return lf_f32_from_bits(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

// Logits id .. id+63, minus infinity where masked or past the end.
static void load_block(const struct draw *d, uint32_t id, float out[BLOCK]) {
    const uint32_t *mask = d->row->mask;
    uint32_t n = d->vocab - id < BLOCK ? d->vocab - id : BLOCK;
    for (uint32_t i = 0; i < n; i++)
        out[i] = d->logits[id + i];
    for (uint32_t i = n; i < BLOCK; i++)
        out[i] = -INFINITY;
#if LF_FAULT == 11
    mask = NULL; // 11: the mask is not read
#elif LF_FAULT == 15
    if (id + n == d->vocab)
        out[n - 1] = -INFINITY; // 15: the last id is no candidate
#endif
    if (!mask)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (!(mask[(id + i) / 32] >> (id + i) % 32 & 1))
            out[i] = -INFINITY;
}

static bool holds_bad(const struct draw *d) {
    uint32_t bad = 0;
    for (uint32_t i = 0; i < d->vocab; i++)
#if LF_FAULT == 14
        bad |= d->logits[i] == INFINITY; // 14: a NaN is not seen
#else
        bad |= !(d->logits[i] < INFINITY);
#endif
    return bad;
}

// The first candidate into d->first; false where there is none.
static bool find_first(struct draw *d) {
    float lane[LANES], block[BLOCK], max = -INFINITY;
    for (int j = 0; j < LANES; j++)
        lane[j] = -INFINITY;
    for (uint32_t id = 0; id < d->vocab; id += BLOCK) {
        load_block(d, id, block);
        for (int i = 0; i < BLOCK; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] = block[i + j] > lane[j] ? block[i + j] : lane[j];
    }
    for (int j = 0; j < LANES; j++)
        max = lane[j] > max ? lane[j] : max;
    if (max == -INFINITY)
        return false;
#if LF_FAULT == 3
    for (uint32_t id = 0; id < d->vocab; id++) {
        load_block(d, id, block);
        d->first = block[0] == max ? id : d->first; // 3: ties of the greatest to the higher id
    }
    return true;
#endif
    for (uint32_t id = 0;; id += BLOCK) {
        load_block(d, id, block);
        for (uint32_t i = 0; i < BLOCK; i++)
            if (block[i] == max) {
                d->first = id + i;
                return true;
            }
    }
}

static bool is_kept(const struct draw *d, uint32_t key, uint32_t id) {
    return key > d->edge_key || (key == d->edge_key && id <= d->edge_id);
}

// floor(exp(x - x_first) * 2^40); equal infinities count as equal.
static uint64_t mass_of(const struct draw *d, float logit) {
    double below = (double)logit / d->temperature - d->x_first;
    if (!(below < 0))
        return (uint64_t)1 << 40;
#if LF_FAULT == 4
    return (uint64_t)((double)((float)lf_exp64(below) + 1.0f - 1.0f) * 0x1p40); // 4: beside 1
#elif LF_FAULT == 7
    if (d->row->rule->min_p > 0 && below < lf_log64(d->row->rule->min_p))
        return 0; // 7: min_p before top_p
#endif
    return below < -28.0 ? 0 : (uint64_t)(lf_exp64(below) * 0x1p40);
}

static uint64_t weigh(const struct draw *d, bool by_mass, float logit) {
    return by_mass ? mass_of(d, logit) : 1;
}

struct digit {
    uint32_t shift, width;
};

// Weights of the kept candidates whose key's known bits are prefix's, by the value of one digit.
static void fill_buckets(const struct draw *d, bool by_mass, uint32_t prefix, uint32_t known,
                         struct digit digit, uint64_t bucket[BUCKETS]) {
    float block[BLOCK];
    uint32_t key[BLOCK];
    memset(bucket, 0, BUCKETS * sizeof *bucket);
    for (uint32_t id = 0; id < d->vocab; id += BLOCK) {
        load_block(d, id, block);
        for (uint32_t i = 0; i < BLOCK; i++)
            key[i] = key_of(block[i]);
        for (uint32_t i = 0; i < BLOCK; i++)
            if ((key[i] & known) == prefix && is_kept(d, key[i], id + i))
                bucket[key[i] >> digit.shift & (digit.width - 1)] += weigh(d, by_mass, block[i]);
    }
}

// ceil(total * P / 2^32), at least 1 (S-8).
static uint64_t nucleus_need(uint64_t total, double top_p) {
#if LF_FAULT == 10
    top_p = (double)(float)top_p; // 10: top_p in float32
#endif
    double share = floor((top_p > 0 ? top_p : 0) * 0x1p32 + 0.5);
    unsigned __int128 product = (unsigned __int128)total * (uint64_t)share;
    uint64_t need = (uint64_t)((product + 0xFFFFFFFFu) >> 32);
    return need ? need : 1;
}

// The id at which candidates of one key, by ascending id, bring `before` up to `need`.
static uint32_t find_tied(const struct draw *d, uint32_t tied, uint64_t each, uint64_t before,
                          uint64_t need) {
    float block[BLOCK];
    for (uint32_t id = 0;; id += BLOCK) {
        load_block(d, id, block);
        for (uint32_t i = 0; i < BLOCK; i++) {
            if (key_of(block[i]) != tied)
                continue;
            before += each;
            if (before >= need)
                return id + i;
        }
    }
}

// Moves the edge to the candidate whose weight brings the sum in order up to what is needed.
static void move_edge(struct draw *d, bool by_mass) {
    static const struct digit digits[3] = {{21, 2048}, {10, 2048}, {0, 1024}};
    uint64_t bucket[BUCKETS], before = 0, need = 0;
    uint32_t prefix = 0, known = 0;
    for (int level = 0; level < 3; level++) {
        struct digit digit = digits[level];
        fill_buckets(d, by_mass, prefix, known, digit, bucket);
        if (level == 0) {
            uint64_t total = 0;
            for (uint32_t i = 0; i < digit.width; i++)
                total += bucket[i];
            need = by_mass ? nucleus_need(total, d->row->rule->top_p)
                           : (uint64_t)d->row->rule->top_k;
            if (need > total)
                return;
        }
        uint32_t b = digit.width - 1;
        for (; before + bucket[b] < need; b--)
            before += bucket[b];
        prefix |= b << digit.shift;
        known |= (digit.width - 1) << digit.shift;
    }
    uint64_t each = weigh(d, by_mass, logit_of_key(prefix));
    d->edge_id = find_tied(d, prefix, each, before, need);
    d->edge_key = prefix;
#if LF_FAULT == 18
    d->edge_id = UINT32_MAX; // 18: all candidates tied at the end kept
#endif
}

// The noise of ids id .. id+63 at one position (S-1, S-2).
static void noise_block(const struct draw *d, uint32_t id, uint64_t noise[BLOCK]) {
    uint64_t position = d->row->position, seed = d->row->rule->seed;
    uint32_t c0[BLOCK], c1[BLOCK], c2[BLOCK], c3[BLOCK];
#if LF_FAULT == 5
    seed = (uint32_t)seed; // 5: the seed truncated to 32 bits
#elif LF_FAULT == 6
    position = (uint32_t)position; // 6: the position truncated to 32 bits
#endif
    for (uint32_t i = 0; i < BLOCK; i++) {
        c0[i] = id + i;
        c1[i] = (uint32_t)position;
        c2[i] = (uint32_t)(position >> 32);
        c3[i] = 0;
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    int rounds = LF_PHILOX_ROUNDS;
#if LF_FAULT == 20
    rounds = 9; // 20: nine rounds of Philox
#endif
    for (int round = 0; round < rounds; round++) {
        uint32_t next0 = k0, next1 = k1;
        for (uint32_t i = 0; i < BLOCK; i++) {
            next0 = k0, next1 = k1;
            lf_philox_round(&c0[i], &c1[i], &c2[i], &c3[i], &next0, &next1);
        }
        k0 = next0, k1 = next1;
    }
    for (uint32_t i = 0; i < BLOCK; i++)
        noise[i] = (uint64_t)c1[i] << 32 | c0[i];
}

struct leader {
    double score;
    uint32_t key, id, kept;
};

// Ids come ascending: an equal score goes to the greater logit, then to the id already there.
static void enter(struct leader *best, double score, uint32_t key, uint32_t id) {
    bool first = score > best->score || (score == best->score && key > best->key);
#if LF_FAULT == 2
    first = score >= best->score; // 2: ties of a race to the higher id
#endif
    if (first) {
        best->score = score;
        best->key = key;
        best->id = id;
    }
}

// S-10 over one block; candidates that cannot win by the bound of their noise cost no logarithm.
static void race_block(const struct draw *d, uint32_t id, double x_least, struct leader *best) {
    float block[BLOCK];
    double x[BLOCK];
    uint64_t noise[BLOCK], open = 0;
    load_block(d, id, block);
    for (uint32_t i = 0; i < BLOCK; i++)
        x[i] = (double)block[i] / d->temperature;
#if LF_FAULT == 19
    for (uint32_t i = 0; i < BLOCK; i++)
        x[i] = (double)block[i]; // 19: the temperature left out of the race
#endif
    for (uint32_t i = 0; i < BLOCK; i++) {
        if (!is_kept(d, key_of(block[i]), id + i) || !(x[i] >= x_least))
            continue;
        best->kept++;
        open |= (uint64_t)(x[i] + LF_NOISE_GUMBEL_MAX >= best->score) << i;
    }
    if (!open)
        return;
    noise_block(d, id, noise);
    for (; open; open &= open - 1) {
        int i = __builtin_ctzll(open);
        double most = lf_noise_gumbel_bound(noise[i]);
#if LF_FAULT == 17
        most -= 1.5; // 17: candidates dropped whose noise could still win
#endif
        if (x[i] + most >= best->score)
            enter(best, x[i] + lf_noise_gumbel(noise[i]), key_of(block[i]), id + (uint32_t)i);
    }
}

static struct leader run_race(const struct draw *d) {
    const struct lf_sampling *rule = d->row->rule;
    double x_least = rule->min_p > 0 ? d->x_first + lf_log64(rule->min_p) : -(double)INFINITY;
#if LF_FAULT == 12
    x_least = -(double)INFINITY; // 12: min_p left out
#endif
    struct leader best = {.key = key_of(d->logits[d->first]), .id = d->first};
    best.score = d->x_first + lf_sample_gumbel(rule->seed, d->row->position, d->first);
    for (uint32_t id = 0; id < d->vocab; id += BLOCK)
        race_block(d, id, x_least, &best);
    return best;
}

// top_k, then top_p (S-6, S-8).
static void apply_filters(struct draw *d) {
    bool by_count = d->row->rule->top_k > 0, by_mass = d->row->rule->top_p < 1;
#if LF_FAULT == 8
    if (by_mass)
        move_edge(d, true);
    by_mass = false; // 8: top_k after top_p
#elif LF_FAULT == 13
    by_count = false; // 13: top_k left out
#elif LF_FAULT == 22
    by_mass = false; // 22: top_p left out
#endif
    if (by_count)
        move_edge(d, false);
    if (by_mass)
        move_edge(d, true);
}

static void sample_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_sample_args *a = ctx;
    const struct lf_sample_row *r = &a->row[row];
#if LF_FAULT == 1
    struct lf_sample_row placed = *r;
    placed.position = a->row[0].position + row; // 1: the position from the row's place
    r = &placed;
#elif LF_FAULT == 21
    r -= row == 5; // 21: the neighbour's rule
#endif
    const struct lf_sampling *rule = r->rule;
    struct draw d = {.logits = a->logits + row * a->logits_stride, .row = r,
                     .vocab = a->vocab, .temperature = rule->temperature,
                     .edge_key = lowest_key, .edge_id = UINT32_MAX};
    struct leader best = {.id = LF_SAMPLE_NONE};
    (void)worker;
#if LF_FAULT == 9
    d.temperature = (double)(float)rule->temperature; // 9: the temperature in float32
#endif
    if (!holds_bad(&d) && find_first(&d)) {
        best.id = d.first;
        if (rule->temperature > 0) {
            d.x_first = (double)d.logits[d.first] / d.temperature;
            apply_filters(&d);
            best = run_race(&d);
        }
    }
#if LF_FAULT == 16
    if (row + 1 == a->rows)
        a->drawn[a->rows] = 0; // 16: a write past the row
#endif
    a->drawn[row] = best.id;
    if (a->kept)
        a->kept[row] = best.kept;
}

void LF_KERNEL_NAME(lf_sample)(struct lf_device *device, const struct lf_sample_args *args) {
    lf_pool_run(device->pool, args->rows, sample_row, (void *)args);
}
