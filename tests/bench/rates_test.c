// Are the aggregate and the steady rate of streams with known pieces what they are by hand?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "bench/rates.h"

// A measured reply: n pieces of so many characters, one each step from first.
static void fill(struct lf_client *client, struct lf_answer_piece *piece, size_t n, double first,
                 double step, uint32_t chars, int64_t tokens) {
    for (size_t i = 0; i < n; i++)
        piece[i] = (struct lf_answer_piece){first + (double)i * step, chars};
    client->reply = (struct lf_answer){.piece = piece, .pieces = n, .tokens = tokens,
                                       .first_s = first, .last_s = piece[n - 1].at_s,
                                       .decode_tps = 1, .ttft_s = 1};
}

static void aggregate_spans_all_measured_streams(void **state) {
    (void)state;
    struct lf_answer_piece one[5], two[5];
    struct lf_client client[3] = {0};
    fill(&client[0], one, 5, 10, 1, 2, 9);
    fill(&client[1], two, 5, 12, 1, 2, 5);
    client[2].reply.decode_tps = NAN;
    client[2].reply.tokens = 1000;
    assert_true(lf_rates_aggregate(client, 3) == (8.0 + 4.0) / 6.0);
    assert_true(isnan(lf_rates_aggregate(client + 2, 1)));
}

static void steady_counts_only_while_every_stream_is_live(void **state) {
    (void)state;
    struct lf_answer_piece one[5], two[5];
    struct lf_client client[2] = {0};
    // Live together from 12 to 14: two of five pieces of each.
    fill(&client[0], one, 5, 10, 1, 3, 10);
    fill(&client[1], two, 5, 12, 1, 1, 5);
    assert_true(fabs(lf_rates_steady(client, 2) - (4.0 + 2.0) / 2.0) < 1e-12);
    fill(&client[1], two, 5, 20, 1, 1, 5);
    assert_true(isnan(lf_rates_steady(client, 2)));
    client[1].reply.decode_tps = NAN;
    assert_true(isnan(lf_rates_steady(client, 2)));
}

static void tokens_are_split_by_characters(void **state) {
    (void)state;
    struct lf_answer_piece piece[2] = {{1, 30}, {2, 10}};
    struct lf_answer reply = {.piece = piece, .pieces = 2, .tokens = 8};
    assert_true(lf_rates_tokens(&reply, 1, 2) == 2);
    assert_true(lf_rates_tokens(&reply, 0, 2) == 8);
    assert_true(lf_rates_tokens(&reply, 2, 3) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aggregate_spans_all_measured_streams),
        cmocka_unit_test(steady_counts_only_while_every_stream_is_live),
        cmocka_unit_test(tokens_are_split_by_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
