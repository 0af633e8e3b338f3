// Does reasoning end where its budget or a loop says, whatever is drafted (prompts.md 12.9, L-6)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "http_client.h"
#include "serve/thinking.h"
#include "served.h"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","                    \
    "\"parameters\":{\"type\":\"object\"}}}]"
#define DSML "\xEF\xBD\x9C" "DSML" "\xEF\xBD\x9C"

enum { CLOSE = 5000, MOST = 600 };

// The rule itself: the newest 256 ids repeat with a period of at most 8.
static bool is_loop(const uint32_t *id, uint32_t n) {
    for (uint32_t period = 1; n >= LF_LOOP_TOKENS && period <= LF_LOOP_PERIOD; period++) {
        uint32_t i = n - LF_LOOP_TOKENS + period;
        while (i < n && id[i] == id[i - period])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

// Noise, then a cycle that may be broken somewhere: the guard fires where the rule says, once.
static void does_the_guard_fire_at_the_first_loop(void **state) {
    (void)state;
    uint32_t seed = 1, fired = 0;
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t id[MOST], period = 1 + round % 10, noise = round * 7 % 40, expected = 0;
        struct lf_thinking t = {.close = CLOSE, .guard = true};
        for (uint32_t i = 0; i < MOST; i++) {
            seed = seed * 1664525 + 1013904223;
            id[i] = i < noise + period ? seed >> 30 : id[i - period];
        }
        if (round % 3 == 0)
            id[noise + round % 350] = 9;
        for (uint32_t n = 1; n <= MOST; n++) {
            lf_thinking_hear(&t, id[n - 1], true);
            if (!expected && is_loop(id, n))
                expected = n;
            assert_int_equal(lf_thinking_path(&t, id, n, NULL, 0),
                             expected == n ? CLOSE : LF_PATH_FREE);
        }
        fired += expected > 0;
    }
    assert_in_range(fired, 200, 399);
}

static void is_a_cycle_left_alone_outside_reasoning_and_without_the_guard(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct lf_thinking t = {.close = CLOSE, .guard = kind != 0, .closed = kind == 1};
        for (uint32_t n = 1; n <= MOST; n++) {
            lf_thinking_hear(&t, 3, kind != 2 || n < 250);
            assert_int_equal(lf_thinking_path(&t, NULL, n, NULL, 0), LF_PATH_FREE);
        }
    }
}

// After a yield the path is asked about prefixes shorter than what was heard (L-40).
static void are_earlier_prefixes_answered_as_before(void **state) {
    (void)state;
    for (uint32_t budget = 0; budget < 12; budget++) {
        for (uint32_t closes = 1; closes < 12; closes++) {
            struct lf_thinking t = {.close = CLOSE, .budget = budget};
            uint32_t first[12];
            for (uint32_t n = 0; n < 12; n++) {
                first[n] = lf_thinking_path(&t, NULL, n, NULL, 0);
                assert_int_equal(first[n],
                                 budget && n == budget && n < closes ? CLOSE : LF_PATH_FREE);
                lf_thinking_hear(&t, n, n + 1 < closes);
            }
            for (uint32_t n = 0; n < 12; n++)
                assert_int_equal(lf_thinking_path(&t, NULL, n, NULL, 0), first[n]);
        }
    }
}

static void is_the_close_guessed_ahead_of_drafts(void **state) {
    (void)state;
    struct lf_thinking t = {.close = CLOSE, .budget = 4};
    uint32_t draft[] = {1, 2, 3, 4}, closing[] = {1, CLOSE, 3, 4};
    assert_int_equal(lf_thinking_path(&t, NULL, 0, draft, 4), CLOSE);
    assert_int_equal(lf_thinking_path(&t, NULL, 0, draft, 3), LF_PATH_FREE);
    assert_int_equal(lf_thinking_path(&t, NULL, 0, closing, 4), LF_PATH_FREE);
}

static json_t *ask(struct served *s, const char *format, ...) {
    char body[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(body, sizeof body, format, args);
    va_end(args);
    const char *path = strstr(body, "\"prompt\"") ? "/v1/completions" : "/v1/chat/completions";
    struct reply reply = http_call(s->url, "POST", path, "", body);
    json_t *json = json_loadb(reply.body.data, reply.body.len, 0, NULL);
    if (!json || reply.status != 200)
        fail_msg("%d: %s", reply.status, reply.body.data);
    http_free(&reply);
    return json;
}

static json_int_t reasoning_of(json_t *json) {
    json_t *usage = json_object_get(json, "usage");
    json_t *details = json_object_get(usage, "completion_tokens_details");
    return json_integer_value(json_object_get(details, "reasoning_tokens"));
}

static json_t *ids_of(json_t *json) {
    return json_object_get(json_object_get(json, "lanefold"), "token_ids");
}

static uint32_t id_at(json_t *json, size_t i) {
    return (uint32_t)json_integer_value(json_array_get(ids_of(json), i));
}

// Whether the reply is the script, or the script with the close at index at.
static bool equals_script(const struct served *s, json_t *json, size_t at) {
    uint32_t close = (uint32_t)s->controls.id[LF_CONTROL_THINK_END];
    bool same = json_array_size(ids_of(json)) == s->script.len;
    for (size_t i = 0; same && i < s->script.len; i++)
        same = id_at(json, i) == (i == at ? close : s->script.id[i]);
    return same;
}

static size_t find(const struct served *s, int64_t id) {
    size_t i = 0;
    while (i < s->script.len && s->script.id[i] != id)
        i++;
    return i;
}

// Budgets of 0 to past the reply's end, with right, wrong and no drafts.
static void is_the_budget_kept_for_every_number(void **state) {
    (void)state;
    for (int right = 0; right <= 2; right++) {
        struct served s;
        served_open(&s, &(struct served_plan){.script = "I greet them now.</think>Hello there!",
                                              .drafter = {.present = true, .right = right / 2.0},
                                              .options.thinking = true});
        size_t end = find(&s, s.controls.id[LF_CONTROL_THINK_END]);
        assert_in_range(end, 3, s.script.len - 2);
        for (size_t budget = 0; budget <= s.script.len + 1; budget++) {
            for (int draft = 0; draft <= 1; draft++) {
                json_t *json = ask(&s, "{" HELLO ",\"return_token_ids\":true,\"draft\":%s,"
                                       "\"thinking_budget\":%zu}",
                                   draft ? "true" : "false", budget);
                size_t at = budget && budget < end ? budget : end;
                assert_true(equals_script(&s, json, at));
                assert_int_equal(reasoning_of(json), at + 1);
                json_decref(json);
            }
        }
        served_close(&s);
    }
}

// A block of calls ends reasoning without its tag (prompts.md 12.3): nothing is forced into it.
static void is_a_call_inside_reasoning_left_whole(void **state) {
    (void)state;
    struct served s;
    size_t forced = 0, whole = 0;
    served_open(&s, &(struct served_plan){
                        .script = "I look.\n\n<" DSML " calls>\n"
                                  "<" DSML " invoke name=\"get_weather\">\n"
                                  "</" DSML " invoke>\n</" DSML " calls>",
                        .drafter = {.present = true, .right = 1}, .options.thinking = true});
    for (size_t budget = 1; budget < s.script.len; budget++) {
        json_t *json = ask(&s, "{" HELLO "," TOOLS ",\"return_token_ids\":true,"
                               "\"thinking_budget\":%zu}", budget);
        json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
        json_t *calls = json_object_get(json_object_get(choice, "message"), "tool_calls");
        if (equals_script(&s, json, s.script.len)) {
            whole++;
            assert_int_equal(json_array_size(calls), 1);
        } else {
            forced++;
            assert_int_equal(whole, 0);
            assert_true(equals_script(&s, json, budget));
        }
        json_decref(json);
    }
    assert_true(forced >= 3 && whole >= 3);
    served_close(&s);
}

// Chat mode and completions have no reasoning to end; a stream counts as a whole reply does.
static void is_a_reply_without_reasoning_left_alone(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "Hello there, all of you!"});
    for (size_t budget = 1; budget < 6; budget++) {
        json_t *json = ask(&s, "{" HELLO ",\"return_token_ids\":true,\"thinking_budget\":%zu}",
                           budget);
        assert_true(equals_script(&s, json, s.script.len));
        assert_int_equal(reasoning_of(json), 0);
        json_decref(json);
        json = ask(&s, "{\"prompt\":\"<think>\",\"return_token_ids\":true,\"thinking_budget\":%zu}",
                   budget);
        assert_true(equals_script(&s, json, s.script.len));
        json_decref(json);
    }
    served_close(&s);
}

// api.md 8: the close has no text and so no entry, forced or not.
static void does_a_forced_close_have_no_entry(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "I greet them now.</think>Hello there!",
                                          .options.thinking = true});
    json_t *json = ask(&s, "{" HELLO ",\"thinking_budget\":3,\"logprobs\":true,"
                           "\"top_logprobs\":2}");
    json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
    json_t *lists = json_object_get(choice, "logprobs");
    json_t *reasoning = json_object_get(lists, "reasoning_content");
    assert_int_equal(json_array_size(reasoning), 3);
    json_decref(json);
    served_close(&s);
}

static void does_a_loop_close_only_where_the_operator_asks(void **state) {
    (void)state;
    for (int guard = 0; guard <= 1; guard++) {
        struct served s;
        served_open(&s, &(struct served_plan){.script = "no", .repeat = 700, .context = 2000,
                                              .drafter = {.present = true, .right = 0.9},
                                              .options = {.thinking = true, .loop_guard = guard}});
        for (int draft = 0; draft <= 1; draft++) {
            json_t *json = ask(&s, "{" HELLO ",\"return_token_ids\":true,\"draft\":%s}",
                               draft ? "true" : "false");
            assert_true(s.script.len > LF_LOOP_TOKENS + 10);
            assert_true(equals_script(&s, json, guard ? LF_LOOP_TOKENS : s.script.len));
            assert_int_equal(reasoning_of(json), guard ? LF_LOOP_TOKENS + 1 : s.script.len - 1);
            json_decref(json);
        }
        served_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_the_guard_fire_at_the_first_loop),
        cmocka_unit_test(is_a_cycle_left_alone_outside_reasoning_and_without_the_guard),
        cmocka_unit_test(are_earlier_prefixes_answered_as_before),
        cmocka_unit_test(is_the_close_guessed_ahead_of_drafts),
        cmocka_unit_test(is_the_budget_kept_for_every_number),
        cmocka_unit_test(is_a_call_inside_reasoning_left_whole),
        cmocka_unit_test(is_a_reply_without_reasoning_left_alone),
        cmocka_unit_test(does_a_forced_close_have_no_entry),
        cmocka_unit_test(does_a_loop_close_only_where_the_operator_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
