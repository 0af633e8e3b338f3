// Does a conversation become the expected string, segments and ids (prompts.md)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "chat_case.h"
#include "demo_tokenizer.h"
#include "reply_fold.h"

static struct lf_controls demo_controls;

static int open_controls(void **state) {
    if (open_demo(state))
        return -1;
    demo_controls = find_controls(demo);
    return 0;
}

static void name_of(char name[128], struct lf_json_span one) {
    struct lf_buffer text = {0};
    lf_json_string(&text, lf_json_member(one, "name"));
    snprintf(name, 128, "%s", text.data ? text.data : "chat");
    lf_buffer_free(&text);
}

static void check_rendered(struct lf_json_span one, const struct lf_prompt *prompt) {
    struct lf_buffer expected = {0}, printed = {0};
    char name[128];
    name_of(name, one);
    assert_true(lf_json_string(&expected, lf_json_member(one, "rendered")));
    lf_prompt_print(&printed, prompt);
    if (!same_text(&expected, &printed))
        fail_msg("%s renders\n%s\ninstead of\n%s", name, printed.data, expected.data);
    lf_buffer_free(&expected);
    lf_buffer_free(&printed);
}

static void check_segments(struct lf_json_span one, const struct lf_prompt *prompt) {
    struct lf_json_span segments = lf_json_member(one, "segments"), key, segment;
    if (!segments.text)
        return;
    struct lf_json_walk walk = lf_json_walk_open(segments);
    size_t i = 0;
    for (; lf_json_walk_next(&walk, &key, &segment); i++) {
        struct lf_buffer text = {0};
        assert_true(i < prompt->n_segments);
        const struct lf_segment *got = &prompt->segment[i];
        bool control = lf_json_string_is(lf_json_element(segment, 0), "special");
        lf_json_string(&text, lf_json_element(segment, 1));
        assert_int_equal(got->control, control);
        if (control)
            assert_string_equal(text.data, lf_control_text(got->id));
        else
            assert_true(text.len == got->len && !memcmp(text.data, got->text, text.len));
        lf_buffer_free(&text);
    }
    assert_int_equal(i, prompt->n_segments);
}

static void check_ids(struct lf_json_span one, const struct lf_prompt *prompt,
                      const struct lf_tokenizer *t, const struct lf_controls *controls) {
    struct lf_json_span wanted = lf_json_member(one, "ids"), key, id;
    struct lf_ids ids = encode_prompt(prompt, t, controls);
    struct lf_json_walk walk = lf_json_walk_open(wanted);
    char name[128];
    name_of(name, one);
    size_t i = 0;
    for (; lf_json_walk_next(&walk, &key, &id); i++) {
        bool negative;
        uint64_t value;
        assert_true(lf_json_whole(id, &negative, &value));
        if (i >= ids.len || ids.id[i] != value)
            fail_msg("%s: id %zu is %u, not %u", name, i, i < ids.len ? ids.id[i] : 0,
                     (unsigned)value);
    }
    assert_int_equal(i, ids.len);
    lf_ids_free(&ids);
}

static void vectors_render_to_the_same_string_and_segments(void **state) {
    (void)state;
    struct chat_file file = chat_file_open("tests/data/vectors/prompts.json");
    struct lf_json_span cases = lf_json_member(file.json, "render_cases"), key, one;
    struct lf_json_walk walk = lf_json_walk_open(cases);
    assert_true(lf_json_count(cases) >= 70);
    while (lf_json_walk_next(&walk, &key, &one)) {
        struct chat_case c = chat_case_open(one);
        struct lf_prompt prompt = render(&c.chat);
        check_rendered(one, &prompt);
        check_segments(one, &prompt);
        lf_prompt_free(&prompt);
        chat_case_free(&c);
    }
    lf_buffer_free(&file.text);
}

static void vectors_encode_to_the_releases_ids(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    struct lf_tokenizer *t =
        open_tokenizer("LF_SHARED", "data/v41-tokenizer/tokenizer.json", &err);
    if (!t) {
        print_message("skipped, the release's vocabulary is not at hand: %s\n", err.text);
        skip();
    }
    struct lf_controls controls;
    assert_int_equal(lf_controls_find(&controls, t, 1, 129264, &err), LF_OK);
    struct chat_file file = chat_file_open("tests/data/vectors/prompts.json");
    struct lf_json_span key, one;
    struct lf_json_walk walk = lf_json_walk_open(lf_json_member(file.json, "render_cases"));
    while (lf_json_walk_next(&walk, &key, &one)) {
        struct chat_case c = chat_case_open(one);
        struct lf_prompt prompt = render(&c.chat);
        check_ids(one, &prompt, t, &controls);
        lf_prompt_free(&prompt);
        chat_case_free(&c);
    }
    lf_buffer_free(&file.text);
    lf_tokenizer_close(t);
}

static void demo_goldens_render_and_encode_to_the_same_ids(void **state) {
    (void)state;
    struct chat_file file = chat_file_open("tests/data/demo-golden/tokenizer.json");
    struct lf_json_span chats = lf_json_member(file.json, "chats"), key, one;
    struct lf_json_walk walk = lf_json_walk_open(chats);
    assert_true(lf_json_count(chats) > 0);
    while (lf_json_walk_next(&walk, &key, &one)) {
        struct chat_case c = chat_case_open(one);
        struct lf_prompt prompt = render(&c.chat);
        check_rendered(one, &prompt);
        check_ids(one, &prompt, demo, &demo_controls);
        lf_prompt_free(&prompt);
        chat_case_free(&c);
    }
    lf_buffer_free(&file.text);
}

static struct chat_case read_body(const char *body) {
    struct chat_case c = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    lf_buffer_add_text(&c.body, body);
    if (chat_case_read(&c, &defaults, &err) != LF_OK)
        fail_msg("%s: %s", body, err.text);
    return c;
}

static void body_renders(const char *body, const char *expected) {
    struct chat_case c = read_body(body);
    struct lf_prompt prompt = render(&c.chat);
    struct lf_buffer printed = {0};
    lf_prompt_print(&printed, &prompt);
    if (!strstr(printed.data, expected))
        fail_msg("%s\nrenders\n%s\nwithout\n%s", body, printed.data, expected);
    lf_buffer_free(&printed);
    lf_prompt_free(&prompt);
    chat_case_free(&c);
}

#define CALL(arguments)                                                                            \
    "{\"thinking\":false,\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"           \
    "\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":" arguments         \
    "}}]}]}"
#define RENDERED(parameters)                                                                       \
    "<｜DSML｜ invoke name=\"f\">\n" parameters "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"
#define RAW(key, value)                                                                            \
    "<｜DSML｜ parameter name=\"" key "\" string=\"true\">" value "</｜DSML｜ parameter>"
#define TYPED(key, value)                                                                          \
    "<｜DSML｜ parameter name=\"" key "\" string=\"false\">" value "</｜DSML｜ parameter>"

static void arguments_of_any_kind_render_as_section_8_says(void **state) {
    (void)state;
    body_renders(CALL("\"\""), RENDERED(""));
    body_renders(CALL("\" \\n\""), RENDERED(""));
    body_renders(CALL("null"), RENDERED(""));
    body_renders(CALL("{}"), RENDERED(""));
    body_renders(CALL("[1,2]"), RENDERED(TYPED("arguments", "[1, 2]")));
    body_renders(CALL("\"7\""), RENDERED(RAW("arguments", "7")));
    body_renders(CALL("\"{\\\"a\\\":NaN}\""), RENDERED(RAW("arguments", "{\"a\":NaN}")));
    body_renders(CALL("\" {\\\"a\\\":1e2} \""), RENDERED(TYPED("a", "100.0")));
    body_renders(CALL("{\"a\":1,\"b\":\"x\",\"a\":\"<&\"}"),
                 RENDERED(RAW("a", "<&") "\n" RAW("b", "x")));
    body_renders(CALL("{\"k\\n\\\"\":\"v\\n\\u0000\"}"), "name=\"k\n\"\" string=\"true\">v\n");
}

#define TOOL(tool)                                                                                 \
    "{\"thinking\":false,\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],"                    \
    "\"tools\":[" tool "]}"

static void namespaces_change_the_name_and_the_description_only(void **state) {
    (void)state;
    body_renders(TOOL("{\"name\":\"f\",\"namespace\":\"s\",\"x\":[1,2]}"),
                 "\n{\"name\": \"s::f\", \"x\": [1, 2]}\n");
    body_renders(TOOL("{\"function\":{\"namespace\":{\"name\":\"s\",\"description\":\"D\"},"
                      "\"description\":\"d\",\"name\":\"f\"}}"),
                 "\n{\"description\": \"D\\nd\", \"name\": \"s::f\"}\n");
    body_renders(TOOL("{\"namespace\":{\"name\":\"s\",\"description\":\"D\"},\"function\":"
                      "{\"name\":\"s::f\",\"strict\":true}}"),
                 "\n{\"name\": \"s::f\", \"strict\": true, \"description\": \"D\\n\"}\n");
    body_renders(TOOL("{\"type\":\"namespace\",\"name\":\"s\",\"tools\":[{\"name\":\"f\"},"
                      "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}"),
                 "\n{\"name\": \"s::f\"}\n{\"name\": \"s::g\"}\n");
    body_renders(TOOL("{\"type\":\"custom\",\"custom\":{\"name\":\"c\",\"description\":\"d\","
                      "\"format\":{\"type\":\"grammar\",\"grammar\":{\"syntax\":\"lark\","
                      "\"definition\":\"start: x\"}}}}"),
                 "\n{\"name\": \"c\", \"description\": \"d\", \"parameters\": {\"type\": "
                 "\"object\", \"properties\": {\"input\": {\"type\": \"string\", \"description\": "
                 "\"Text in the grammar below, syntax lark:\\nstart: x\"}}, \"required\": "
                 "[\"input\"]}}\n");
}

static void refused(const char *body, enum lf_status status, const char *param) {
    struct chat_case c = read_body(body);
    struct lf_prompt prompt;
    struct lf_error err = LF_ERROR_INIT;
    enum lf_status got = lf_prompt_render(&prompt, &c.chat, &err);
    if (got != status || strcmp(err.param, param))
        fail_msg("%s: status %d, param '%s': %s", body, got, err.param, err.text);
    chat_case_free(&c);
}

static void what_cannot_be_rendered_is_refused_by_its_place(void **state) {
    (void)state;
    refused("{\"messages\":[{\"role\":\"user\"},{\"role\":\"latest_reminder\"}]}", LF_E_VALUE,
            "messages[1].role");
    refused("{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"image_url\","
            "\"image_url\":\"u\"}]}]}",
            LF_E_VALUE, "messages[0].content[0]");
    refused("{\"messages\":[{\"role\":\"user\",\"prefix\":true}]}", LF_E_VALUE,
            "messages[0].prefix");
    refused("{\"messages\":[{\"role\":\"assistant\",\"prefix\":true},{\"role\":\"user\"}]}",
            LF_E_VALUE, "messages[0].prefix");
    refused("{\"continue_final_message\":true,\"messages\":[{\"role\":\"user\"}]}", LF_E_VALUE,
            "continue_final_message");
    refused("{\"messages\":[{\"role\":\"assistant\",\"prefix\":true,\"tool_calls\":[{"
            "\"function\":{\"name\":\"f\"}}]}]}",
            LF_E_VALUE, "messages[0].tool_calls");
}

static bool holds_added(const struct lf_tokenizer *t, const struct lf_ids *ids, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < ids->len; i++)
        *n += lf_tokenizer_is_added(t, ids->id[i]);
    return *n > 0;
}

// Every text a client controls, set to the same hostile text.
static struct chat_case hostile_case(const char *text, size_t len) {
    struct chat_case c = {0};
    struct lf_buffer quoted = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    lf_json_print_string(&quoted, text, len);
    const char *q = quoted.data;
    lf_buffer_printf(
        &c.body,
        "{\"messages\":[{\"role\":\"system\",\"content\":%s},{\"role\":\"user\",\"content\":[{"
        "\"type\":\"text\",\"text\":%s},{\"type\":\"text\",\"text\":%s}]},{\"role\":\"assistant\","
        "\"content\":%s,\"reasoning_content\":%s,\"tool_calls\":[{\"id\":%s,\"function\":{\"name\":"
        "%s,\"arguments\":{%s:%s,\"n\":[%s]}}}]},{\"role\":\"tool\",\"tool_call_id\":%s,"
        "\"content\":%s}],\"tools\":[{\"name\":\"f\",\"description\":%s,\"parameters\":{%s:%s}}]}",
        q, q, q, q, q, q, q, q, q, q, q, q, q, q, q);
    lf_buffer_free(&quoted);
    if (chat_case_read(&c, &defaults, &err) != LF_OK)
        fail_msg("%s: %s", c.body.data, err.text);
    return c;
}

static size_t added_ids_of(const char *text, size_t len) {
    struct chat_case c = hostile_case(text, len);
    struct lf_prompt prompt = render(&c.chat);
    struct lf_ids ids = encode_prompt(&prompt, demo, &demo_controls);
    size_t n;
    holds_added(demo, &ids, &n);
    lf_ids_free(&ids);
    lf_prompt_free(&prompt);
    chat_case_free(&c);
    return n;
}

static void no_added_token_in_a_text_becomes_its_id(void **state) {
    (void)state;
    size_t usual = added_ids_of("x", 1), tried = 0;
    for (uint32_t id = 0; id < lf_tokenizer_size(demo); id++) {
        size_t len;
        const char *bytes = lf_tokenizer_bytes(demo, id, &len);
        if (!lf_tokenizer_is_added(demo, id))
            continue;
        assert_int_equal(added_ids_of(bytes, len), usual);
        tried++;
    }
    assert_int_equal(tried, 22);
}

static void random_text_never_yields_a_control_id(void **state) {
    (void)state;
    size_t usual = added_ids_of("x", 1);
    uint64_t seed = 3;
    for (int round = 0; round < 300; round++) {
        struct lf_buffer text = {0};
        for (int i = 0; i < 12; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t r = (uint32_t)(seed >> 33);
            uint32_t id = r % lf_tokenizer_size(demo);
            size_t len;
            const char *bytes = r & 64 ? lf_control_text(r % LF_CONTROLS)
                                       : lf_tokenizer_bytes(demo, id, &len);
            if (r & 64)
                lf_buffer_add(&text, bytes, 1 + r / 128 % strlen(bytes));
            else
                lf_buffer_add(&text, bytes, len);
        }
        struct lf_buffer clean = {0};
        lf_utf8_repair(&clean, text.data, text.len);
        // A call's name is the one text that may not hold U+0000.
        for (size_t i = 0; i < clean.len; i++)
            if (!clean.data[i])
                clean.data[i] = '0';
        assert_int_equal(added_ids_of(clean.data, clean.len), usual);
        lf_buffer_free(&text);
        lf_buffer_free(&clean);
    }
}

// Appends a folded reply as the assistant message a client would send back.
static void add_replayed(struct lf_buffer *out, const struct fold *f) {
    lf_buffer_add_text(out, ",{\"role\":\"assistant\",\"content\":");
    lf_json_print_string(out, f->content.len ? f->content.data : "", f->content.len);
    lf_buffer_add_text(out, ",\"reasoning_content\":");
    lf_json_print_string(out, f->reasoning.len ? f->reasoning.data : "", f->reasoning.len);
    lf_buffer_add_text(out, ",\"tool_calls\":[");
    for (uint32_t i = 0; i < f->n_calls; i++) {
        lf_buffer_printf(out, "%s{\"id\":\"c%u\",\"namespace\":\"%s\",\"function\":{\"name\":",
                         i ? "," : "", i, f->call[i].space.data);
        lf_json_print_string(out, f->call[i].name.data, f->call[i].name.len);
        lf_buffer_add_text(out, ",\"arguments\":");
        lf_json_print_string(out, f->call[i].arguments.data, f->call[i].arguments.len);
        lf_buffer_add_text(out, "}}");
    }
    lf_buffer_add_text(out, "]}");
}

static const char first_turn[] =
    "{\"tools\":[{\"name\":\"f\"}],\"messages\":[{\"role\":\"user\",\"content\":\"q\"}";

static void check_round_trip(const char *reply) {
    struct lf_buffer body = {0};
    lf_buffer_printf(&body, "%s]}", first_turn);
    struct chat_case before = read_body(body.data);
    struct lf_prompt prompt = render(&before.chat);
    assert_true(prompt.tools && prompt.in_reasoning);
    struct lf_ids expected = encode_prompt(&prompt, demo, &demo_controls), generated = {0};
    for (const char *mark = reply; *mark;) {
        char text[512];
        size_t len = strcspn(mark, "\x01\x02\x03");
        snprintf(text, sizeof text, "%.*s", (int)len, mark);
        encode_pieces(demo, text, 0, &generated);
        mark += len;
        if (*mark) {
            static const enum lf_control controls[] = {LF_CONTROL_DSML, LF_CONTROL_THINK_END,
                                                       LF_CONTROL_EOS};
            lf_ids_add(&generated, (uint32_t)demo_controls.id[controls[*mark++ - 1]]);
        }
    }
    struct lf_reply_options options = {.tools = true, .in_reasoning = true, .parallel_calls = true};
    struct fold f = fold_ids(demo, &demo_controls, &options, &generated, false);
    lf_ids_add_all(&expected, generated.id, generated.len);
    lf_buffer_clear(&body);
    lf_buffer_add_text(&body, first_turn);
    add_replayed(&body, &f);
    lf_buffer_add_text(&body, ",{\"role\":\"tool\",\"tool_call_id\":\"c0\",\"content\":\"ok\"}]}");
    struct chat_case after = read_body(body.data);
    struct lf_prompt again = render(&after.chat);
    struct lf_ids ids = encode_prompt(&again, demo, &demo_controls);
    assert_true(ids.len > expected.len);
    if (memcmp(ids.id, expected.id, expected.len * sizeof *ids.id))
        fail_msg("the replayed turn has other ids: %s", body.data);
    fold_free(&f);
    lf_ids_free(&ids);
    lf_ids_free(&expected);
    lf_ids_free(&generated);
    lf_prompt_free(&prompt);
    lf_prompt_free(&again);
    chat_case_free(&before);
    chat_case_free(&after);
    lf_buffer_free(&body);
}

#define D "\x01"
#define THINK_END "\x02"
#define EOS "\x03"

static void a_replayed_reply_gives_the_ids_it_was_generated_with(void **state) {
    (void)state;
    check_round_trip("I look.\n" THINK_END "\n Fine. \n" EOS);
    check_round_trip("r" THINK_END "\n\n<" D " calls>\n<" D " invoke name=\"f\">\n<" D
                     " parameter name=\"x\" string=\"true\">a \"b\"\n\\n é</" D " parameter>\n<" D
                     " parameter name=\"n\" string=\"false\">[1, {\"k\": 2.5}]</" D
                     " parameter>\n</" D " invoke>\n<" D " invoke name=\"s::f\">\n\n</" D
                     " invoke>\n</" D " calls>" EOS);
    check_round_trip(THINK_END "Text.\n\n<" D " calls>\n<" D " invoke name=\"f\">\n<" D
                     " parameter name=\"\" string=\"false\">null</" D " parameter>\n</" D
                     " invoke>\n</" D " calls>" EOS);
}

static void images_come_out_in_prompt_order(void **state) {
    (void)state;
    struct chat_case c = read_body(
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
        "{\"url\":\"data:1\"}},{\"type\":\"input_image\",\"image_url\":\"data:2\"}]},"
        "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\"}},"
        "{\"id\":\"b\",\"function\":{\"name\":\"f\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"b\","
        "\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":"
        "\"image/png\",\"data\":\"AA==\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":"
        "[{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"data:3\"}}]}]}");
    struct lf_prompt prompt = render(&c.chat);
    static const char *const expected[] = {"data:1", "data:2", "data:3",
                                           "data:image/png;base64,AA=="};
    assert_int_equal(prompt.n_images, 4);
    size_t marks = 0;
    for (size_t i = 0; i < prompt.n_segments; i++)
        marks += prompt.segment[i].control && prompt.segment[i].id == LF_CONTROL_IMAGE;
    assert_int_equal(marks, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(prompt.image[i]->len, strlen(expected[i]));
        assert_memory_equal(prompt.image[i]->text, expected[i], strlen(expected[i]));
    }
    lf_prompt_free(&prompt);
    chat_case_free(&c);
}

static void controls_that_do_not_fit_the_configuration_are_refused(void **state) {
    (void)state;
    struct lf_controls controls;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_controls_find(&controls, demo, 1, 2292, &err), LF_OK);
    assert_int_equal(lf_controls_find(&controls, demo, 1, UINT32_MAX, &err), LF_OK);
    assert_int_equal(lf_controls_find(&controls, demo, 2, 2292, &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "eos_token_id"));
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_controls_find(&controls, demo, 1, 2293, &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "image_token_id"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_render_to_the_same_string_and_segments),
        cmocka_unit_test(vectors_encode_to_the_releases_ids),
        cmocka_unit_test(demo_goldens_render_and_encode_to_the_same_ids),
        cmocka_unit_test(arguments_of_any_kind_render_as_section_8_says),
        cmocka_unit_test(namespaces_change_the_name_and_the_description_only),
        cmocka_unit_test(what_cannot_be_rendered_is_refused_by_its_place),
        cmocka_unit_test(no_added_token_in_a_text_becomes_its_id),
        cmocka_unit_test(random_text_never_yields_a_control_id),
        cmocka_unit_test(a_replayed_reply_gives_the_ids_it_was_generated_with),
        cmocka_unit_test(images_come_out_in_prompt_order),
        cmocka_unit_test(controls_that_do_not_fit_the_configuration_are_refused),
    };
    return cmocka_run_group_tests(tests, open_controls, close_demo);
}
