#include "format/engram_layout.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SEED_FACTOR = 10007 };

typedef unsigned __int128 wide;

// numpy's default_rng: a seed sequence feeding PCG64 (model.md 6.2, steps 1 to 5).
struct generator {
    wide state, inc;
};

static uint32_t seed_hash(uint32_t v, uint32_t *a) {
    v ^= *a;
    *a *= 0x931e8875u;
    v *= *a;
    return v ^ v >> 16;
}

static uint32_t seed_blend(uint32_t x, uint32_t y) {
    uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;
    return r ^ r >> 16;
}

static void generator_step(struct generator *g) {
    const wide factor = (wide)0x2360ed051fc65da4u << 64 | 0x4385df649fccf645u;
    g->state = g->state * factor + g->inc;
}

static struct generator generator_seeded(uint32_t seed) {
    uint32_t a = 0x43b0d7e5u, b = 0x8b51f9ddu, pool[4];
    uint64_t word[4] = {0};
    for (int i = 0; i < 4; i++)
        pool[i] = seed_hash(i == 0 ? seed : 0, &a);
    for (int s = 0; s < 4; s++)
        for (int d = 0; d < 4; d++)
            if (d != s)
                pool[d] = seed_blend(pool[d], seed_hash(pool[s], &a));
    for (int i = 0; i < 8; i++) {
        uint32_t v = pool[i % 4] ^ b;
        b *= 0x58f38dedu;
        v *= b;
        word[i / 2] |= (uint64_t)(v ^ v >> 16) << (i % 2 * 32);
    }
    struct generator g = {.inc = ((wide)word[2] << 64 | word[3]) << 1 | 1};
    generator_step(&g);
    g.state += (wide)word[0] << 64 | word[1];
    generator_step(&g);
    return g;
}

static uint64_t generator_next(struct generator *g) {
    generator_step(g);
    uint64_t mixed = (uint64_t)(g->state >> 64) ^ (uint64_t)g->state;
    unsigned turn = (unsigned)(g->state >> 122);
    return mixed >> turn | mixed << (64 - turn) % 64;
}

static uint64_t generator_below(struct generator *g, uint64_t bound) {
    uint64_t reject = (0 - bound) % bound;
    for (;;) {
        wide product = (wide)generator_next(g) * bound;
        if ((uint64_t)product >= reject)
            return (uint64_t)(product >> 64);
    }
}

static int is_prime(uint32_t n) {
    if (n < 4)
        return n > 1;
    if (n % 2 == 0)
        return 0;
    for (uint32_t d = 3; (uint64_t)d * d <= n; d += 2)
        if (n % d == 0)
            return 0;
    return 1;
}

// The next prime from *candidate on; the one after it is looked for from *candidate on again.
static uint32_t next_prime(uint32_t *candidate) {
    while (!is_prime(*candidate))
        (*candidate)++;
    return (*candidate)++;
}

void lf_engram_layout_rows(uint64_t *rows, const struct lf_topology *topology) {
    uint32_t candidate = (uint32_t)topology->engram_vocab;
    for (uint32_t t = 0; t < topology->n_engram; t++) {
        rows[t] = 0;
        for (uint32_t c = 0; c < (topology->engram_ngram - 1) * topology->engram_heads; c++)
            rows[t] += next_prime(&candidate);
    }
}

// All tables and orders together take the primes from engram_vocab on in ascending order.
static enum lf_status fill_primes(struct lf_engram_layout *layout,
                                  const struct lf_topology *topology, struct lf_error *err) {
    uint32_t candidate = (uint32_t)topology->engram_vocab;
    for (uint32_t t = 0; t < layout->tables; t++) {
        struct lf_engram_columns *table = &layout->table[t];
        for (uint32_t c = 0; c < layout->columns; c++) {
            table->prime[c] = next_prime(&candidate);
            table->offset[c] = table->rows;
            table->rows += table->prime[c];
        }
        if (table->rows != topology->engram_rows[t])
            return lf_fail(err, LF_E_VALUE,
                           "engram_num_embeddings[%u] is %" PRIu64 ", but the primes of its %u "
                           "columns from engram_vocab_size %" PRIu64 " on add up to %" PRIu64,
                           t, topology->engram_rows[t], layout->columns, topology->engram_vocab,
                           table->rows);
    }
    return LF_OK;
}

static enum lf_status check_sizes(const struct lf_topology *topology, struct lf_error *err) {
    if (topology->engram_ngram < 2 || topology->engram_ngram > LF_NGRAM_MAX)
        return lf_fail(err, LF_E_VALUE, "engram_max_ngram_size must be 2 to %d, found %u",
                       LF_NGRAM_MAX, topology->engram_ngram);
    if (topology->engram_heads == 0 ||
        topology->engram_heads > LF_ENGRAM_COLUMNS_MAX / (topology->engram_ngram - 1))
        return lf_fail(err, LF_E_VALUE, "engram_n_heads must be 1 to %u, found %u",
                       LF_ENGRAM_COLUMNS_MAX / (topology->engram_ngram - 1),
                       topology->engram_heads);
    if (topology->engram_vocab == 0 || topology->engram_vocab > INT32_MAX)
        return lf_fail(err, LF_E_VALUE, "engram_vocab_size must be 1 to %d, found %" PRIu64,
                       INT32_MAX, topology->engram_vocab);
    // The draw of step 5 holds for bounds of 2^32 and more.
    if (topology->engram_classes == 0 || topology->engram_classes >= 1u << 30)
        return lf_fail(err, LF_E_VALUE,
                       "engram_compressed_vocab_size must be 1 to %u, found %u", (1u << 30) - 1,
                       topology->engram_classes);
    return LF_OK;
}

enum lf_status lf_engram_layout_build(struct lf_engram_layout *out,
                                      const struct lf_topology *topology, struct lf_error *err) {
    *out = (struct lf_engram_layout){0};
    if (topology->n_engram == 0)
        return LF_OK;
    LF_TRY(check_sizes(topology, err));
    out->table = calloc(topology->n_engram, sizeof *out->table);
    if (!out->table)
        return lf_fail(err, LF_E_MEM, "out of memory for the Engram layout");
    out->tables = topology->n_engram;
    out->ngram = topology->engram_ngram;
    out->heads = topology->engram_heads;
    out->columns = (out->ngram - 1) * out->heads;
    enum lf_status status = fill_primes(out, topology, err);
    if (status != LF_OK) {
        lf_engram_layout_free(out);
        return status;
    }
    uint64_t bound = (uint64_t)INT64_MAX / topology->engram_classes / 2;
    for (uint32_t t = 0; t < out->tables; t++) {
        struct generator g = generator_seeded(SEED_FACTOR * topology->engram_layers[t]);
        for (uint32_t s = 0; s < topology->engram_ngram; s++)
            out->table[t].multiplier[s] = 2 * generator_below(&g, bound) + 1;
    }
    return LF_OK;
}

void lf_engram_layout_free(struct lf_engram_layout *layout) {
    free(layout->table);
    *layout = (struct lf_engram_layout){0};
}
