// Do generated ids become the expected reasoning, text and calls, however they are cut?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "demo_tokenizer.h"
#include "reply_fold.h"

static struct lf_controls demo_controls;

static int open_controls(void **state) {
    if (open_demo(state))
        return -1;
    demo_controls = find_controls(demo);
    return 0;
}

// One vector holds an integer past 64 bits, so integers are read as reals.
static json_t *load_vectors(void) {
    char path[4096];
    json_error_t wrong;
    path_under(path, "LF_SOURCE_ROOT", "tests/data/vectors/prompts.json");
    json_t *json = json_load_file(path, JSON_DECODE_INT_AS_REAL, &wrong);
    if (!json)
        fail_msg("%s: %s", path, wrong.text);
    return json;
}

static bool text_is(const struct lf_buffer *text, const json_t *expected) {
    size_t len = json_is_string(expected) ? json_string_length(expected) : 0;
    return text->len == len && (!len || !memcmp(text->data, json_string_value(expected), len));
}

static const char *finish_reason(const struct fold *f, bool length) {
    return length ? "length" : f->n_calls ? "tool_calls" : "stop";
}

static bool fold_is(const struct fold *f, const json_t *expect, bool length) {
    const json_t *calls = json_object_get(expect, "tool_calls");
    const char *reason = json_string_value(json_object_get(expect, "finish_reason"));
    bool same = text_is(&f->reasoning, json_object_get(expect, "reasoning_content")) &&
                text_is(&f->content, json_object_get(expect, "content")) &&
                f->n_calls == json_array_size(calls) && !strcmp(reason, finish_reason(f, length));
    for (uint32_t i = 0; same && i < f->n_calls; i++) {
        const json_t *call = json_array_get(calls, i);
        same = text_is(&f->call[i].name, json_object_get(call, "name")) &&
               text_is(&f->call[i].space, json_object_get(call, "namespace")) &&
               text_is(&f->call[i].arguments, json_object_get(call, "arguments")) &&
               f->call[i].complete == !json_is_false(json_object_get(call, "complete"));
    }
    return same;
}

static void check_fold(const json_t *one, const struct lf_tokenizer *t,
                       const struct lf_controls *controls, const struct lf_ids *ids,
                       const char *how, size_t where) {
    const char *ends_with = json_string_value(json_object_get(one, "prompt_ends_with"));
    struct lf_reply_options options = {
        .tools = json_array_size(json_object_get(one, "tools_offered")) > 0,
        .in_reasoning = !strcmp(ends_with, "<think>"),
        .parallel_calls = true,
    };
    bool length = !strcmp(json_string_value(json_object_get(one, "stopped_by")), "length");
    struct fold f = fold_ids(t, controls, &options, ids, length);
    if (!fold_is(&f, json_object_get(one, "expect"), length))
        fail_msg("%s, %s %zu: reasoning '%s', content '%s', %u calls, first '%s' '%s'",
                 json_string_value(json_object_get(one, "name")), how, where,
                 f.reasoning.len ? f.reasoning.data : "", f.content.len ? f.content.data : "",
                 f.n_calls, f.n_calls ? f.call[0].name.data : "",
                 f.n_calls && f.call[0].arguments.len ? f.call[0].arguments.data : "");
    fold_free(&f);
}

// The ids of a case's segments; the text is cut after `piece` characters and at character `split`.
static struct lf_ids encode_case(const struct lf_tokenizer *t, const json_t *one, size_t piece,
                                 size_t split) {
    const json_t *generated = json_object_get(one, "generated");
    struct lf_ids ids = {0};
    for (size_t i = 0; i < json_array_size(generated); i++) {
        const json_t *segment = json_array_get(generated, i);
        const char *kind = json_string_value(json_array_get(segment, 0));
        const char *text = json_string_value(json_array_get(segment, 1));
        if (strcmp(kind, "text")) {
            encode_control(t, text, &ids);
            continue;
        }
        size_t len = strlen(text), characters = 0, at = 0;
        while (at < len && characters < split) {
            at += next_character(text + at, len - at);
            characters++;
        }
        split -= characters;
        encode_piece(t, text, piece ? 0 : at, &ids);
        encode_pieces(t, piece ? text : text + at, piece, &ids);
    }
    return ids;
}

static size_t count_characters(const json_t *one) {
    const json_t *generated = json_object_get(one, "generated");
    size_t characters = 0;
    for (size_t i = 0; i < json_array_size(generated); i++) {
        const json_t *segment = json_array_get(generated, i);
        const char *text = json_string_value(json_array_get(segment, 1));
        if (!strcmp(json_string_value(json_array_get(segment, 0)), "text"))
            for (; *text; text++)
                characters += (*text & 0xC0) != 0x80;
    }
    return characters;
}

static void check_case(const struct lf_tokenizer *t, const struct lf_controls *controls,
                       const json_t *one) {
    size_t characters = count_characters(one);
    for (size_t split = 0; split <= characters; split++) {
        struct lf_ids ids = encode_case(t, one, 0, split);
        check_fold(one, t, controls, &ids, "split at", split);
        lf_ids_free(&ids);
    }
    for (size_t piece = 1; piece <= 7; piece++) {
        struct lf_ids ids = encode_case(t, one, piece, 0);
        check_fold(one, t, controls, &ids, "pieces of", piece);
        lf_ids_free(&ids);
    }
}

static void vectors_parse_with_the_demo_vocabulary_at_every_split(void **state) {
    (void)state;
    json_t *vectors = load_vectors();
    const json_t *cases = json_object_get(vectors, "parse_cases");
    assert_true(json_array_size(cases) >= 30);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(demo, &demo_controls, json_array_get(cases, i));
    json_decref(vectors);
}

static void vectors_parse_from_the_releases_ids(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    struct lf_tokenizer *t =
        open_tokenizer("LF_SHARED", "data/v41-tokenizer/tokenizer.json", &err);
    if (!t) {
        print_message("skipped, the release's vocabulary is not at hand: %s\n", err.text);
        skip();
    }
    struct lf_controls controls = find_controls(t);
    json_t *vectors = load_vectors();
    const json_t *cases = json_object_get(vectors, "parse_cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *wanted = json_object_get(one, "ids");
        struct lf_ids ids = {0};
        for (size_t j = 0; j < json_array_size(wanted); j++)
            lf_ids_add(&ids, (uint32_t)json_real_value(json_array_get(wanted, j)));
        check_fold(one, t, &controls, &ids, "one id at a time", 0);
        lf_ids_free(&ids);
        check_case(t, &controls, one);
    }
    json_decref(vectors);
    lf_tokenizer_close(t);
}

// Control tokens in these texts are written between U+27E6 and U+27E7; ⟦D⟧ is the DSML mark.
static void encode_marked(const char *marked, size_t piece, struct lf_ids *out) {
    static const char open[] = "⟦", close[] = "⟧";
    while (*marked) {
        const char *mark = strstr(marked, open);
        size_t len = mark ? (size_t)(mark - marked) : strlen(marked);
        char text[1024];
        assert_true(len < sizeof text);
        snprintf(text, sizeof text, "%.*s", (int)len, marked);
        encode_pieces(demo, text, piece, out);
        marked += len;
        if (!mark)
            continue;
        marked += strlen(open);
        const char *end = strstr(marked, close);
        assert_non_null(end);
        snprintf(text, sizeof text, "%.*s", (int)(end - marked), marked);
        encode_control(demo, strcmp(text, "D") ? text : "｜DSML｜", out);
        marked = end + strlen(close);
    }
}

static void describe(const struct fold *f, struct lf_buffer *out) {
    lf_buffer_printf(out, "R[%s]C[%s]", f->reasoning.len ? f->reasoning.data : "",
                     f->content.len ? f->content.data : "");
    for (uint32_t i = 0; i < f->n_calls; i++)
        lf_buffer_printf(out, " %s|%s(%s)%s", f->call[i].space.len ? f->call[i].space.data : "",
                         f->call[i].name.data,
                         f->call[i].arguments.len ? f->call[i].arguments.data : "",
                         f->call[i].complete ? "" : "...");
    if (f->stop >= 0)
        lf_buffer_printf(out, " stop %d", f->stop);
}

struct marked_case {
    const char *generated, *expected;
    struct lf_reply_options options;
};

static void check_marked(const struct marked_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t piece = 0; piece <= 4; piece++) {
            struct lf_ids ids = {0};
            struct lf_buffer text = {0};
            encode_marked(cases[i].generated, piece, &ids);
            struct fold f = fold_ids(demo, &demo_controls, &cases[i].options, &ids, false);
            describe(&f, &text);
            if (strcmp(text.data, cases[i].expected))
                fail_msg("%s\n gives %s\n, not %s (pieces of %zu)", cases[i].generated, text.data,
                         cases[i].expected, piece);
            fold_free(&f);
            lf_buffer_free(&text);
            lf_ids_free(&ids);
        }
}

#define TOOLS {.tools = true, .parallel_calls = true}
#define OPEN "\n\n<⟦D⟧ calls>\n<⟦D⟧ invoke name=\"f\">\n"
#define SHUT "</⟦D⟧ invoke>\n</⟦D⟧ calls>"
#define PARAMETER(k, v) "<⟦D⟧ parameter name=\"" k "\" string=\"true\">" v "</⟦D⟧ parameter>\n"

static void damaged_calls_are_kept_or_shown_never_lost(void **state) {
    (void)state;
    static const struct marked_case cases[] = {
        // 12.5: a closing tag of any name ends a value, and closes what it names.
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"true\">1</⟦D⟧ banana>\n" SHUT,
         "R[]C[] |f({\"x\": \"1\"})", TOOLS},
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"true\">1</⟦D⟧ invoke></⟦D⟧ calls>rest",
         "R[]C[] |f({\"x\": \"1\"})", TOOLS},
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"true\">1</⟦D⟧ calls>rest",
         "R[]C[] |f({\"x\": \"1\"})", TOOLS},
        // 12.5: an opening tag inside a value is text; so is a bare mark.
        {OPEN PARAMETER("x", "a<⟦D⟧ invoke name=\"g\">b⟦D⟧c") SHUT,
         "R[]C[] |f({\"x\": \"a<｜DSML｜ invoke name=\\\"g\\\">b｜DSML｜c\"})", TOOLS},
        // 12.4: a new invoke closes the open call; a nested calls tag is dropped.
        {OPEN PARAMETER("x", "1") "<⟦D⟧ invoke name=\"s::g\">" SHUT,
         "R[]C[] |f({\"x\": \"1\"}) s|g({})", TOOLS},
        {OPEN "<⟦D⟧ calls>" PARAMETER("x", "1") SHUT, "R[]C[] |f({\"x\": \"1\"})", TOOLS},
        // 12.5: bodies.
        {OPEN "run it\n" SHUT, "R[]C[] |f({\"arguments\": \"\\nrun it\\n\"})", TOOLS},
        {OPEN "[1]" SHUT, "R[]C[] |f({\"arguments\": \"\\n[1]\"})", TOOLS},
        {OPEN " \t\n" SHUT, "R[]C[] |f({})", TOOLS},
        {OPEN "lost" PARAMETER("x", "1") SHUT, "R[]C[] |f({\"x\": \"1\"})", TOOLS},
        // 12.5: typed values.
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"false\">NaN</⟦D⟧ parameter>" SHUT,
         "R[]C[] |f({\"x\": \"NaN\"})", TOOLS},
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"false\"></⟦D⟧ parameter>" SHUT,
         "R[]C[] |f({\"x\": \"\"})", TOOLS},
        {OPEN "<⟦D⟧ parameter string=\"false\" name=\"x\">{\"a\":[ ]}</⟦D⟧ parameter>" SHUT,
         "R[]C[] |f({\"x\": {\"a\":[ ]}})", TOOLS},
        // 12.2: known names without what they need, and unknown names, are text.
        {"a <⟦D⟧ invoke> b", "R[]C[a <｜DSML｜ invoke> b]", TOOLS},
        {"a <⟦D⟧ parameter name=\"x\"> b", "R[]C[a <｜DSML｜ parameter name=\"x\"> b]", TOOLS},
        {"a <⟦D⟧ banana <⟦D⟧ calls> b", "R[]C[a <｜DSML｜ banana <｜DSML｜ calls> b]", TOOLS},
        {"a </⟦D⟧banana> b", "R[]C[a </｜DSML｜banana> b]", TOOLS},
        {"a <⟦D⟧  calls> b", "R[]C[a <｜DSML｜  calls> b]", TOOLS},
        {"a ⟦D⟧ calls> b", "R[]C[a ｜DSML｜ calls> b]", TOOLS},
        {"a <⟦D⟧ callsign> b", "R[]C[a <｜DSML｜ callsign> b]", TOOLS},
        // 12.8: cut anywhere.
        {"a <⟦D⟧ cal", "R[]C[a <｜DSML｜ cal]", TOOLS},
        {"a\n\n<", "R[]C[a\n\n<]", TOOLS},
        {"a\n\n<⟦D⟧ calls>\n</", "R[]C[a\n\n<｜DSML｜ calls>\n</]", TOOLS},
        {"a\n\n<⟦D⟧ calls>\n x</⟦D⟧ parameter> y", "R[]C[a\n\n<｜DSML｜ calls>\n x</｜DSML｜ "
         "parameter> y]", TOOLS},
        {OPEN, "R[]C[] |f()...", TOOLS},
        {OPEN "{\"x\": 1}", "R[]C[] |f()...", TOOLS},
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"true\">ab</", "R[]C[] |f({\"x\": \"ab</)...",
         TOOLS},
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"true\">ab</⟦D⟧ para",
         "R[]C[] |f({\"x\": \"ab)...", TOOLS},
        {OPEN "<⟦D⟧ parameter name=\"x\" string=\"false\">12", "R[]C[] |f()...", TOOLS},
        {OPEN PARAMETER("x", "1") "</⟦D⟧ invoke>", "R[]C[] |f({\"x\": \"1\"})", TOOLS},
        // 12.1 and 11: borders and control tokens inside markup show nothing.
        {OPEN PARAMETER("x", "a⟦</think>⟧b⟦<think>⟧c⟦<｜User｜>⟧d") SHUT,
         "R[]C[] |f({\"x\": \"abcd\"})", TOOLS},
        {"a⟦<｜User｜>⟧b⟦<｜deepseek_image｜>⟧c", "R[]C[abc]", TOOLS},
    };
    check_marked(cases, sizeof cases / sizeof *cases);
}

#define THINKING {.tools = true, .parallel_calls = true, .in_reasoning = true}

static void reasoning_ends_at_its_border_or_at_a_block(void **state) {
    (void)state;
    static const struct marked_case cases[] = {
        {"r <⟦D⟧ ca⟦</think>⟧lls>", "R[r <｜DSML｜ ca]C[lls>]", THINKING},
        {"r\n\n⟦</think>⟧\n\n<⟦D⟧ calls></⟦D⟧ calls>x", "R[r\n\n]C[x]", THINKING},
        {"r <⟦D⟧ banana ⟦</think>⟧a <⟦D⟧ calls></⟦D⟧ calls>b", "R[r <｜DSML｜ banana ]C[a b]",
         THINKING},
        {"r\n\n<⟦D⟧ invoke name=\"f\"></⟦D⟧ invoke>", "R[r]C[] |f({})", THINKING},
        {"r<⟦D⟧ calls></⟦D⟧ calls>c", "R[r]C[c]", THINKING},
        {"r\n\n<⟦D⟧ calls>x", "R[r]C[\n\n<｜DSML｜ calls>x]", THINKING},
        {"r</⟦D⟧ calls>s⟦</think>⟧c", "R[rs]C[c]", THINKING},
        {"r\n<", "R[r\n<]C[]", THINKING},
    };
    check_marked(cases, sizeof cases / sizeof *cases);
}

static void one_call_is_let_through_when_calls_are_not_parallel(void **state) {
    (void)state;
    static const struct marked_case cases[] = {
        {OPEN PARAMETER("x", "1") "</⟦D⟧ invoke>\n<⟦D⟧ invoke name=\"g\">\n" SHUT,
         "R[]C[] |f({\"x\": \"1\"})", {.tools = true}},
        {OPEN PARAMETER("x", "1") "<⟦D⟧ invoke name=\"g\">\n" SHUT,
         "R[]C[] |f({\"x\": \"1\"})", {.tools = true}},
    };
    check_marked(cases, sizeof cases / sizeof *cases);
}

static const char *const stops[] = {"", "END", "ENDE", "\n\n", "é!", "abab"};
#define STOPS .stop = stops, .n_stops = 6

static void stop_strings_end_the_content_where_the_first_one_is_complete(void **state) {
    (void)state;
    static const struct marked_case cases[] = {
        {"one ENDtwo", "R[]C[one ] stop 1", {STOPS}},
        {"one ENDEtwo", "R[]C[one ] stop 1", {STOPS}},
        {"one ENDtwo", "R[]C[one END] stop 1", {STOPS, .include_stop = true}},
        {"EN ENEND", "R[]C[EN EN] stop 1", {STOPS}},
        {"aabaabab", "R[]C[aaba] stop 5", {STOPS}},
        {"caf é é!x", "R[]C[caf é ] stop 4", {STOPS}},
        {"held EN", "R[]C[held EN]", {STOPS}},
        {"a⟦</think>⟧E⟦<｜User｜>⟧ND", "R[]C[a] stop 1", {STOPS}},
        {"r END⟦</think>⟧c", "R[r END]C[c]", {STOPS, .in_reasoning = true}},
        {"r END⟦</think>⟧c", "R[r ]C[] stop 1",
         {STOPS, .in_reasoning = true, .stop_in_reasoning = true}},
        {"r EN⟦</think>⟧D c", "R[r EN]C[D c]",
         {STOPS, .in_reasoning = true, .stop_in_reasoning = true}},
        // 12.8: never in tool markup; a blank line before a block is markup.
        {"a" OPEN PARAMETER("x", "END\n\n") SHUT, "R[]C[a] |f({\"x\": \"END\\n\\n\"})",
         {.tools = true, .parallel_calls = true, STOPS}},
        {"a\n\nb", "R[]C[a] stop 3", {.tools = true, STOPS}},
        {"a\n\n", "R[]C[a] stop 3", {.tools = true, STOPS}},
        {"EN" OPEN SHUT, "R[]C[EN] |f({})", {.tools = true, .parallel_calls = true, STOPS}},
        {"EN<⟦D⟧ calls></⟦D⟧ calls>D", "R[]C[] stop 1", {.tools = true, STOPS}},
        {"<⟦D⟧ calls> END", "R[]C[<｜DSML｜ calls> ] stop 1", {.tools = true, STOPS}},
    };
    check_marked(cases, sizeof cases / sizeof *cases);
}

static void push_tells_the_stop_once_with_the_id_that_completed_it(void **state) {
    (void)state;
    static const char *const stop[] = {"END"};
    struct lf_reply_options options = {.stop = stop, .n_stops = 1};
    struct fold f = {0};
    struct lf_reply *reply;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_ids ids = {0};
    assert_int_equal(
        lf_reply_open(&reply, demo, &demo_controls, &options, fold_event, &f, &err), LF_OK);
    encode_pieces(demo, "x ENDy", 1, &ids);
    assert_int_equal(ids.len, 6);
    for (size_t i = 0; i < ids.len; i++)
        assert_int_equal(lf_reply_push(reply, ids.id[i]), i == 4 ? 0 : -1);
    lf_reply_end(reply, false);
    assert_string_equal(f.content.data, "x ");
    lf_reply_close(reply);
    lf_ids_free(&ids);
    fold_free(&f);
}

static void broken_characters_become_replacement_characters(void **state) {
    (void)state;
    // Bytes 0x80 up are single tokens of every byte-level vocabulary: find them by their bytes.
    uint32_t byte_id[256] = {0};
    for (uint32_t id = 0; id < lf_tokenizer_size(demo); id++) {
        size_t len;
        const char *bytes = lf_tokenizer_bytes(demo, id, &len);
        if (len == 1 && !lf_tokenizer_is_added(demo, id))
            byte_id[(unsigned char)bytes[0]] = id;
    }
    static const struct {
        const char *bytes, *expected;
    } cases[] = {
        {"\xC3\xA9", "é"}, {"\xE2\x82", "\uFFFD"}, {"\xE2\x82\xAC", "€"}, {"\xFFz", "\uFFFDz"},
        {"\xE2\x82<", "\uFFFD<"}, {"\xF0\x90\x41", "\uFFFDA"}, {"\xC3\xC3\xA9", "\uFFFDé"},
        {"\xF0\x90\x8D", "\uFFFD"}, {"\xFF\xFF", "\uFFFD\uFFFD"},
    };
    struct lf_reply_options options = {.tools = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_ids ids = {0};
        for (const char *b = cases[i].bytes; *b; b++)
            lf_ids_add(&ids, byte_id[(unsigned char)*b]);
        struct fold f = fold_ids(demo, &demo_controls, &options, &ids, false);
        assert_string_equal(f.content.data, cases[i].expected);
        assert_int_equal(f.token.len, ids.len);
        fold_free(&f);
        lf_ids_free(&ids);
    }
}

// One letter an id: which of them are said to be shown.
static void check_shown(const char *marked, struct lf_reply_options options, const char *shown) {
    struct lf_ids ids = {0};
    encode_marked(marked, 1, &ids);
    struct fold f = fold_ids(demo, &demo_controls, &options, &ids, false);
    assert_int_equal(f.token.len, strlen(shown));
    for (size_t i = 0; i < f.token.len; i++) {
        size_t len;
        const char *bytes = lf_tokenizer_bytes(demo, ids.id[f.token.id[i]], &len);
        if (bytes[0] != shown[i])
            fail_msg("%s: token %zu shown is '%.*s', not %c", marked, i, (int)len, bytes, shown[i]);
    }
    fold_free(&f);
    lf_ids_free(&ids);
}

// api.md 8: visible content and reasoning have entries; markup, end tokens and cut text have none.
static void events_name_the_tokens_whose_text_they_hold(void **state) {
    (void)state;
    static const char *const stop[] = {"END"};
    struct lf_reply_options plain = {0}, tools = {.tools = true, .parallel_calls = true};
    struct lf_reply_options cut = {.stop = stop, .n_stops = 1}, kept = cut, both = tools;
    kept.include_stop = true;
    both.stop = stop, both.n_stops = 1;
    check_shown("ab", plain, "ab");
    check_shown("a⟦</think>⟧b⟦<｜end▁of▁sentence｜>⟧", plain, "ab");
    check_shown("a⟦</think>⟧b", (struct lf_reply_options){.in_reasoning = true}, "ab");
    check_shown("xENDy", cut, "x");
    check_shown("xENDy", kept, "xEND");
    check_shown("xENy", cut, "xENy");
    check_shown("a" OPEN PARAMETER("x", "1") SHUT "b", tools, "a");
    check_shown("a\n\n</⟦D⟧ calls>b", tools, "a\n\nb");
    check_shown("E<⟦D⟧ calls></⟦D⟧ calls>Nd", both, "ENd");
    check_shown("E<⟦D⟧ calls></⟦D⟧ calls>ND", both, "");
    check_shown("a</b", tools, "a</b");
}

static void reasoning_tokens_count_through_the_border(void **state) {
    (void)state;
    struct lf_reply_options options = {.in_reasoning = true};
    struct fold f = {0};
    struct lf_reply *reply;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_ids ids = {0};
    assert_int_equal(
        lf_reply_open(&reply, demo, &demo_controls, &options, fold_event, &f, &err), LF_OK);
    encode_marked("abc⟦</think>⟧de⟦<｜end▁of▁sentence｜>⟧", 1, &ids);
    for (size_t i = 0; i < ids.len; i++) {
        assert_int_equal(lf_reply_in_reasoning(reply), i < 4);
        lf_reply_push(reply, ids.id[i]);
    }
    assert_int_equal(lf_reply_reasoning_tokens(reply), 4);
    lf_reply_end(reply, false);
    lf_reply_close(reply);
    lf_ids_free(&ids);
    fold_free(&f);
}

static uint32_t random_next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void any_mixture_of_markup_gives_the_same_reply_in_any_pieces(void **state) {
    (void)state;
    static const char *const parts[] = {
        "<", "</", "\n", "\n\n", " calls>", "calls>", " invoke name=\"f\">", "tool_calls>",
        " invoke>", " parameter name=\"x\" string=\"true\">", " parameter name=\"y\" "
        "string=\"false\">", " parameter>", ">", "é", "{\"a\": 1}", "12", "stop it", " banana>",
        "⟦D⟧", "⟦D⟧", "⟦D⟧", "<⟦D⟧", "</⟦D⟧", "⟦</think>⟧", "⟦<think>⟧", "⟦<｜User｜>⟧",
        "<⟦D⟧ calls>", "<⟦D⟧ invoke name=\"a::b\">", "</⟦D⟧ parameter>", "</⟦D⟧ invoke>",
    };
    static const char *const some[] = {"stop", "\n\n", "it>", "é"};
    uint64_t seed = 20;
    for (int round = 0; round < 3000; round++) {
        char marked[4096] = "";
        size_t n = 1 + random_next(&seed) % 30, used = 0;
        for (size_t i = 0; i < n; i++) {
            const char *part = parts[random_next(&seed) % (sizeof parts / sizeof *parts)];
            used += (size_t)snprintf(marked + used, sizeof marked - used, "%s", part);
        }
        struct lf_reply_options options = {
            .tools = random_next(&seed) % 8 > 0, .in_reasoning = random_next(&seed) & 1,
            .parallel_calls = random_next(&seed) % 4 > 0, .stop = some,
            .n_stops = random_next(&seed) % 3 ? 0 : 4, .stop_in_reasoning = random_next(&seed) & 1,
        };
        struct fold whole = {0};
        for (size_t piece = 0; piece <= 3; piece++) {
            struct lf_ids ids = {0};
            encode_marked(marked, piece, &ids);
            struct fold f = fold_ids(demo, &demo_controls, &options, &ids, false);
            lf_ids_free(&ids);
            if (piece && !fold_same(&whole, &f))
                fail_msg("pieces of %zu give another reply: %s", piece, marked);
            if (piece)
                fold_free(&f);
            else
                whole = f;
        }
        fold_free(&whole);
    }
}

static void random_ids_never_break_the_parser(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        struct lf_ids ids = {0};
        struct lf_reply_options options = {.tools = round & 1, .in_reasoning = round & 2,
                                           .parallel_calls = round & 4, STOPS};
        for (int i = 0; i < 80; i++) {
            uint32_t r = random_next(&seed);
            uint32_t id = random_next(&seed) % (lf_tokenizer_size(demo) + 8);
            lf_ids_add(&ids, r % 4 ? id : (uint32_t)demo_controls.id[r / 4 % LF_CONTROLS]);
        }
        struct fold f = fold_ids(demo, &demo_controls, &options, &ids, round & 8);
        fold_free(&f);
        lf_ids_free(&ids);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_parse_with_the_demo_vocabulary_at_every_split),
        cmocka_unit_test(vectors_parse_from_the_releases_ids),
        cmocka_unit_test(damaged_calls_are_kept_or_shown_never_lost),
        cmocka_unit_test(reasoning_ends_at_its_border_or_at_a_block),
        cmocka_unit_test(one_call_is_let_through_when_calls_are_not_parallel),
        cmocka_unit_test(stop_strings_end_the_content_where_the_first_one_is_complete),
        cmocka_unit_test(push_tells_the_stop_once_with_the_id_that_completed_it),
        cmocka_unit_test(broken_characters_become_replacement_characters),
        cmocka_unit_test(events_name_the_tokens_whose_text_they_hold),
        cmocka_unit_test(reasoning_tokens_count_through_the_border),
        cmocka_unit_test(any_mixture_of_markup_gives_the_same_reply_in_any_pieces),
        cmocka_unit_test(random_ids_never_break_the_parser),
    };
    return cmocka_run_group_tests(tests, open_controls, close_demo);
}
