// Random operations on the prompt cache: the cap holds at every instant (engine.md C-5 to C-7).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cache_lane.h"

enum { OPERATIONS = 1000000, CAPS = 10, TEXTS = 12 };

static struct lf_check_rng rng = {2026};
static bool live[SLOTS];

static uint32_t below(uint32_t n) {
    return lf_check_below(&rng, n);
}

// The rule itself, row by row, for the longest entry that may be resumed.
static uint64_t longest_by_hand(uint32_t slot, uint64_t rows) {
    uint64_t best = 0;
    struct lf_rowkeys text = keys_of(&lane[slot], rows);
    for (struct lf_entry *e = cache->first; e; e = e->next) {
        const struct lf_rowkeys *k = &e->keys;
        bool leads = k->n <= rows && (k->n < rows || e->logits);
        for (uint64_t i = 0; leads && i < k->n; i++) {
            bool a = k->n_images && i - k->image->start < k->image->rows;
            bool b = text.n_images && i - text.image->start < text.image->rows;
            leads = a == b && k->token[i] == text.token[i] &&
                    (!a || (k->image->start == text.image->start &&
                            k->image->digest[0] == text.image->digest[0]));
        }
        if (leads && k->n > best)
            best = k->n;
    }
    return best;
}

// A prompt of one of a few texts, sometimes with an end of its own or an image.
static void random_begin(uint32_t slot, bool by_hand) {
    struct lane *l = &lane[slot];
    uint32_t text = below(TEXTS), rows = below(8) ? 1 + below(400) : 1 + below(3000);
    uint32_t own = below(2) ? rows : below(rows + 1);
    write_text(slot, 0, own, text);
    write_text(slot, own, rows, 100 + below(1000));
    l->image.rows = 0;
    if (text % 4 == 0 && rows > 60)
        put_image(slot, 20, 30, (uint8_t)below(2));
    l->shared[0] = below(rows + 1);
    l->shared[1] = below(rows + 1);
    uint64_t want = by_hand ? longest_by_hand(slot, rows) : 0;
    uint32_t fails = saves->fail_restores;
    uint64_t got = begin(slot, rows, below(rows + 1), below(rows + 1), below(3));
    if (by_hand && saves->fail_restores == fails)
        assert_int_equal(got, want);
    live[slot] = true;
}

static void operate(uint32_t number) {
    uint32_t slot = below(SLOTS);
    if (below(100) == 0)
        saves->fail_saves = 1;
    if (below(100) == 0)
        saves->fail_restores = 1;
    if (below(100) == 0)
        lf_cache_evict(cache);
    if (!live[slot]) {
        random_begin(slot, number % 16 == 0);
        return;
    }
    if (lane[slot].at < lane[slot].rows && below(8)) {
        step(slot);
        return;
    }
    if (lane[slot].at < lane[slot].rows || below(4) == 0) {
        cancel(slot);
    } else {
        uint32_t reply = below(REPLY_MAX);
        write_text(slot, lane[slot].rows, lane[slot].rows + reply, below(4));
        finish(slot, reply);
    }
    live[slot] = false;
}

static void the_cap_holds_over_a_million_random_operations(void **state) {
    uint64_t hits = 0, evicted = 0, refused = 0, failed = 0;
    (void)state;
    for (uint32_t i = 0; i < CAPS; i++) {
        open_cache(10000 + i * i * 10000);
        memset(live, 0, sizeof live);
        for (uint32_t n = 0; n < OPERATIONS / CAPS; n++) {
            operate(n);
            check_account();
        }
        struct lf_cache_stats s = stats();
        hits += s.hits;
        evicted += s.evicted;
        refused += s.refused;
        failed += s.failed;
        close_cache();
    }
    // Every way was taken often.
    assert_true(hits > 10000 && evicted > 10000 && refused > 10000 && failed > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cap_holds_over_a_million_random_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
