// Are events framed, joined and folded so that a stream's parts make the whole reply?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "serve/pieces.h"
#include "serve/sse.h"

static struct lf_reply_event text(enum lf_reply_event_kind kind, uint32_t index, const char *what) {
    return (struct lf_reply_event){.kind = kind, .index = index, .text = what,
                                   .len = strlen(what), .space = "", .complete = true};
}

static void add_all(struct lf_buffer *pieces) {
    struct lf_reply_event events[] = {
        text(LF_REPLY_REASONING, 0, "I "),   text(LF_REPLY_REASONING, 0, "think"),
        text(LF_REPLY_CONTENT, 0, "A"),      text(LF_REPLY_CONTENT, 0, "b"),
        text(LF_REPLY_CALL_OPEN, 0, "f"),    text(LF_REPLY_ARGUMENTS, 0, "{\"x\": "),
        text(LF_REPLY_ARGUMENTS, 0, "1}"),   text(LF_REPLY_CALL_CLOSE, 0, ""),
        text(LF_REPLY_CALL_OPEN, 1, "g"),    text(LF_REPLY_ARGUMENTS, 1, "{}"),
        text(LF_REPLY_CALL_CLOSE, 1, ""),
    };
    events[8].space = "ns";
    events[1].n_tokens = 1, events[2].n_tokens = 2, events[3].n_tokens = 3;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        lf_pieces_add(pieces, &events[i]);
}

static void neighbours_of_one_kind_are_joined(void **state) {
    (void)state;
    static const char *const want[] = {"I think", "Ab", "f", "{\"x\": 1}", "", "g", "{}", ""};
    struct lf_buffer pieces = {0}, scratch = {0};
    struct lf_reply_event event;
    size_t at = 0, n = 0;
    add_all(&pieces);
    for (; lf_pieces_next_joined(&pieces, &at, &scratch, &event); n++) {
        assert_true(n < 8);
        assert_int_equal(event.len, strlen(want[n]));
        assert_memory_equal(event.text, want[n], event.len);
        assert_int_equal(event.n_tokens, n == 0 ? 1 : n == 1 ? 5 : 0);
        if (n == 5)
            assert_string_equal(event.space, "ns");
    }
    assert_int_equal(n, 8);
    lf_buffer_free(&pieces);
    lf_buffer_free(&scratch);
}

static void the_fold_is_the_sum_of_the_events(void **state) {
    (void)state;
    struct lf_buffer pieces = {0};
    struct lf_folded folded = {0};
    add_all(&pieces);
    lf_folded_add(&folded, &pieces);
    assert_false(folded.failed);
    assert_string_equal(folded.reasoning.data, "I think");
    assert_string_equal(folded.content.data, "Ab");
    assert_int_equal(folded.reasoning_tokens, 1);
    assert_int_equal(folded.content_tokens, 5);
    assert_int_equal(folded.n_calls, 2);
    assert_string_equal(folded.call[0].name.data, "f");
    assert_string_equal(folded.call[0].arguments.data, "{\"x\": 1}");
    assert_string_equal(folded.call[1].space.data, "ns");
    lf_folded_free(&folded);
    lf_buffer_free(&pieces);
}

static void events_are_framed_as_the_stream_wants(void **state) {
    (void)state;
    struct lf_buffer out = {0};
    lf_sse_event(&out, "{\"a\":1}", 7);
    lf_sse_keep_alive(&out);
    lf_sse_done(&out);
    assert_string_equal(out.data, "data: {\"a\":1}\n\n: keep-alive\n\ndata: [DONE]\n\n");
    lf_buffer_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_of_one_kind_are_joined),
        cmocka_unit_test(the_fold_is_the_sum_of_the_events),
        cmocka_unit_test(events_are_framed_as_the_stream_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
