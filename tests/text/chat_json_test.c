// Does a chat body give the conversation it means, and is a wrong one refused at its field?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "chat_case.h"

static enum lf_status read_with(struct chat_case *c, const char *body,
                                const struct lf_chat_defaults *defaults, struct lf_error *err) {
    *c = (struct chat_case){0};
    lf_buffer_add_text(&c->body, body);
    return chat_case_read(c, defaults, err);
}

struct refusal {
    const char *fields; // ' stands for a double quote
    enum lf_status status;
    const char *param;
};

static char *quoted(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return copy;
}

static void check_refusals(const char *before, const struct refusal *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
        struct lf_error err = LF_ERROR_INIT;
        struct chat_case c;
        char body[1024];
        char *fields = quoted(cases[i].fields), *start = quoted(before);
        snprintf(body, sizeof body, "{%s%s}", start, fields);
        enum lf_status status = read_with(&c, body, &defaults, &err);
        if (status != cases[i].status || strcmp(err.param, cases[i].param))
            fail_msg("%s\n: %s, param '%s', '%s'; expected %s, '%s'", body,
                     lf_status_name(status), err.param, err.text, lf_status_name(cases[i].status),
                     cases[i].param);
        if (status != LF_OK)
            assert_true(err.text[0] && !strchr(err.text, '\n'));
        free(fields);
        free(start);
        chat_case_free(&c);
    }
}
#define CHECK_REFUSALS(before, cases) check_refusals(before, cases, sizeof(cases) / sizeof *(cases))

static void messages_of_a_wrong_shape_are_refused(void **state) {
    (void)state;
    static const struct refusal cases[] = {
        {"'x':1", LF_E_MISSING, "messages"},
        {"'messages':null", LF_E_MISSING, "messages"},
        {"'messages':{}", LF_E_TYPE, "messages"},
        {"'messages':'hi'", LF_E_TYPE, "messages"},
        {"'messages':[]", LF_E_VALUE, "messages"},
        {"'messages':[1]", LF_E_TYPE, "messages[0]"},
        {"'messages':[null]", LF_E_TYPE, "messages[0]"},
        {"'messages':[{}]", LF_E_MISSING, "messages[0].role"},
        {"'messages':[{'role':null}]", LF_E_MISSING, "messages[0].role"},
        {"'messages':[{'role':7}]", LF_E_TYPE, "messages[0].role"},
        {"'messages':[{'role':'user'},{'role':'User'}]", LF_E_VALUE, "messages[1].role"},
        {"'messages':[{'role':'user','content':1}]", LF_E_TYPE, "messages[0].content"},
        {"'messages':[{'role':'user','content':{}}]", LF_E_TYPE, "messages[0].content"},
        {"'messages':[{'role':'user','content':true}]", LF_E_TYPE, "messages[0].content"},
        {"'messages':[{'role':'user','content':['x']}]", LF_E_TYPE, "messages[0].content[0]"},
        {"'messages':[{'role':'user','content':[{}]}]", LF_E_MISSING,
         "messages[0].content[0].type"},
        {"'messages':[{'role':'user','content':[{'type':1}]}]", LF_E_TYPE,
         "messages[0].content[0].type"},
        {"'messages':[{'role':'user','content':[{'type':'text','text':'a'},{'type':'audio'}]}]",
         LF_E_VALUE, "messages[0].content[1].type"},
        {"'messages':[{'role':'user','content':[{'type':'text'}]}]", LF_E_MISSING,
         "messages[0].content[0].text"},
        {"'messages':[{'role':'user','content':[{'type':'text','text':[]}]}]", LF_E_TYPE,
         "messages[0].content[0].text"},
        {"'messages':[{'role':'user','content':[{'type':'refusal','refusal':0}]}]", LF_E_TYPE,
         "messages[0].content[0].refusal"},
        {"'messages':[{'role':'tool','tool_call_id':1}]", LF_E_TYPE, "messages[0].tool_call_id"},
        {"'messages':[{'role':'assistant','prefix':'yes'}]", LF_E_TYPE, "messages[0].prefix"},
        {"'messages':[{'role':'assistant','prefix':1}]", LF_E_TYPE, "messages[0].prefix"},
        {"'messages':[{'role':'user','content':[]}]", LF_OK, ""},
        {"'messages':[{'role':'user'}]", LF_OK, ""},
    };
    CHECK_REFUSALS("", cases);
}

static void images_without_a_usable_source_are_refused(void **state) {
    (void)state;
    static const struct refusal cases[] = {
        {"{'type':'image_url'}]}]", LF_E_MISSING, "messages[0].content[0].image_url"},
        {"{'type':'image_url','image_url':1}]}]", LF_E_TYPE, "messages[0].content[0].image_url"},
        {"{'type':'image_url','image_url':{}}]}]", LF_E_MISSING,
         "messages[0].content[0].image_url.url"},
        {"{'type':'image_url','image_url':{'url':[]}}]}]", LF_E_TYPE,
         "messages[0].content[0].image_url.url"},
        {"{'type':'input_image','file_id':'f'}]}]", LF_E_UNSUPPORTED,
         "messages[0].content[0].file_id"},
        {"{'type':'image','source':'x'}]}]", LF_E_TYPE, "messages[0].content[0].source"},
        {"{'type':'image','source':{}}]}]", LF_E_MISSING, "messages[0].content[0].source.type"},
        {"{'type':'image','source':{'type':'file'}}]}]", LF_E_VALUE,
         "messages[0].content[0].source.type"},
        {"{'type':'image','source':{'type':'base64'}}]}]", LF_E_MISSING,
         "messages[0].content[0].source.data"},
        {"{'type':'image','source':{'type':'base64','data':1}}]}]", LF_E_TYPE,
         "messages[0].content[0].source.data"},
        {"{'type':'image','source':{'type':'url'}}]}]", LF_E_MISSING,
         "messages[0].content[0].source.url"},
        {"{'type':'image','source':{'type':'url','url':'u'}}]}]", LF_OK, ""},
    };
    CHECK_REFUSALS("'messages':[{'role':'user','content':[", cases);
}

static void calls_of_a_wrong_shape_are_refused(void **state) {
    (void)state;
    static const struct refusal cases[] = {
        {"'tool_calls':{}}]", LF_E_TYPE, "messages[0].tool_calls"},
        {"'tool_calls':['f']}]", LF_E_TYPE, "messages[0].tool_calls[0]"},
        {"'tool_calls':[{}]}]", LF_E_MISSING, "messages[0].tool_calls[0].function"},
        {"'tool_calls':[{'function':'f'}]}]", LF_E_TYPE, "messages[0].tool_calls[0].function"},
        {"'tool_calls':[{'function':{}}]}]", LF_E_MISSING,
         "messages[0].tool_calls[0].function.name"},
        {"'tool_calls':[{'function':{'name':1}}]}]", LF_E_TYPE,
         "messages[0].tool_calls[0].function.name"},
        {"'tool_calls':[{'function':{'name':'a\\u0000'}}]}]", LF_E_VALUE,
         "messages[0].tool_calls[0].function.name"},
        {"'tool_calls':[{'id':1,'function':{'name':'f'}}]}]", LF_E_TYPE,
         "messages[0].tool_calls[0].id"},
        {"'tool_calls':[{'type':'mcp','function':{'name':'f'}}]}]", LF_E_VALUE,
         "messages[0].tool_calls[0].type"},
        {"'tool_calls':[{'type':1,'function':{'name':'f'}}]}]", LF_E_TYPE,
         "messages[0].tool_calls[0].type"},
        {"'tool_calls':[{'type':'custom'}]}]", LF_E_MISSING, "messages[0].tool_calls[0].custom"},
        {"'tool_calls':[{'type':'custom','custom':{'name':'c','input':1}}]}]", LF_E_TYPE,
         "messages[0].tool_calls[0].custom.input"},
        {"'tool_calls':[{'namespace':1,'function':{'name':'f'}}]}]", LF_E_TYPE,
         "messages[0].tool_calls[0].function.namespace"},
        {"'function_call':'f'}]", LF_E_TYPE, "messages[0].function_call"},
        {"'function_call':{}}]", LF_E_MISSING, "messages[0].function_call.name"},
        {"'tool_calls':[],'function_call':null}]", LF_OK, ""},
        {"'tool_calls':null,'function_call':{'name':'f','arguments':'{}'}}]", LF_OK, ""},
        {"'tool_calls':[{'type':'custom','custom':{'name':'c','input':'x'}}]}]", LF_OK, ""},
    };
    CHECK_REFUSALS("'messages':[{'role':'assistant',", cases);
}

static const char user[] = "'messages':[{'role':'user','content':'q'}],";

static void tools_of_a_wrong_shape_are_refused(void **state) {
    (void)state;
    static const struct refusal cases[] = {
        {"'tools':{}", LF_E_TYPE, "tools"},
        {"'tools':'f'", LF_E_TYPE, "tools"},
        {"'tools':['f']", LF_E_TYPE, "tools[0]"},
        {"'tools':[{}]", LF_E_MISSING, "tools[0].name"},
        {"'tools':[{'type':1}]", LF_E_TYPE, "tools[0].type"},
        {"'tools':[{'type':'robot'}]", LF_E_VALUE, "tools[0].type"},
        {"'tools':[{'function':1}]", LF_E_TYPE, "tools[0].function"},
        {"'tools':[{'function':{}}]", LF_E_MISSING, "tools[0].function.name"},
        {"'tools':[{'function':{'name':2}}]", LF_E_TYPE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':''}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a<b'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a>b'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a\\'b'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a\\u0000b'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a\\nb'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a\\u0085b'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'a::b::c'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'function':{'name':'::c'}}]", LF_E_VALUE, "tools[0].function.name"},
        {"'tools':[{'namespace':'n','function':{'name':'m::c'}}]", LF_E_VALUE,
         "tools[0].function.name"},
        {"'tools':[{'namespace':1,'function':{'name':'c'}}]", LF_E_TYPE, "tools[0].namespace"},
        {"'tools':[{'namespace':{},'function':{'name':'c'}}]", LF_E_MISSING,
         "tools[0].namespace.name"},
        {"'tools':[{'name':'f','description':1}]", LF_E_TYPE, "tools[0].description"},
        {"'tools':[{'function':{'name':'f','parameters':'x'}}]", LF_E_TYPE,
         "tools[0].function.parameters"},
        {"'tools':[{'name':'f'},{'function':{'name':'f'}}]", LF_E_VALUE, "tools"},
        {"'tools':[{'name':'n::f'},{'namespace':'n','function':{'name':'f'}}]", LF_E_VALUE,
         "tools"},
        {"'tools':[{'type':'custom'}]", LF_E_MISSING, "tools[0].name"},
        {"'tools':[{'type':'custom','custom':{'name':1}}]", LF_E_TYPE, "tools[0].custom.name"},
        {"'tools':[{'type':'namespace','name':'n'}]", LF_E_TYPE, "tools[0].tools"},
        {"'tools':[{'type':'namespace','name':'n','tools':[1]}]", LF_E_TYPE, "tools[0].tools[0]"},
        {"'functions':[{'description':'d'}]", LF_E_MISSING, "functions[0].name"},
        {"'tools':[],'functions':{}", LF_E_TYPE, "functions"},
        {"'tools':[{'name':'f','parameters':null,'description':null}]", LF_OK, ""},
        {"'tools':[{'name':'f'},{'namespace':'n','function':{'name':'f'}}]", LF_OK, ""},
        {"'parallel_tool_calls':1", LF_E_TYPE, "parallel_tool_calls"},
    };
    CHECK_REFUSALS(user, cases);
}

static void choices_that_force_a_call_are_refused(void **state) {
    (void)state;
    static const struct refusal without[] = {
        {"'tool_choice':'required'", LF_E_VALUE, "tool_choice"},
        {"'tool_choice':{'type':'function','function':{'name':'f'}}", LF_E_VALUE, "tool_choice"},
        {"'function_call':{'name':'f'}", LF_E_VALUE, "function_call"},
        {"'tool_choice':'auto'", LF_OK, ""},
        {"'tool_choice':'none'", LF_OK, ""},
        {"'tool_choice':null", LF_OK, ""},
    };
    static const struct refusal with[] = {
        {"'tool_choice':'required'", LF_E_UNSUPPORTED, "tool_choice"},
        {"'tool_choice':'any'", LF_E_VALUE, "tool_choice"},
        {"'tool_choice':1", LF_E_TYPE, "tool_choice"},
        {"'tool_choice':{}", LF_E_MISSING, "tool_choice.type"},
        {"'tool_choice':{'type':1}", LF_E_TYPE, "tool_choice.type"},
        {"'tool_choice':{'type':'x'}", LF_E_VALUE, "tool_choice.type"},
        {"'tool_choice':{'type':'web_search'}", LF_E_UNSUPPORTED, "tool_choice.type"},
        {"'tool_choice':{'type':'function','function':{'name':'f'}}", LF_E_UNSUPPORTED,
         "tool_choice"},
        {"'tool_choice':{'type':'function','function':{'name':'n::g'}}", LF_E_UNSUPPORTED,
         "tool_choice"},
        {"'tool_choice':{'type':'function','function':{'name':'g'}}", LF_E_UNSUPPORTED,
         "tool_choice"},
        {"'tool_choice':{'type':'function','function':{'name':'h'}}", LF_E_VALUE,
         "tool_choice.function.name"},
        {"'tool_choice':{'type':'function','function':{}}", LF_E_MISSING,
         "tool_choice.function.name"},
        {"'tool_choice':{'type':'function','function':1}", LF_E_TYPE, "tool_choice.function"},
        {"'tool_choice':{'type':'function','name':'h'}", LF_E_VALUE, "tool_choice.name"},
        {"'function_call':{'name':'h'}", LF_E_VALUE, "function_call.name"},
        {"'function_call':{'name':'f'}", LF_E_UNSUPPORTED, "function_call"},
        {"'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'required','tools':[]}}",
         LF_E_UNSUPPORTED, "tool_choice"},
        {"'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[{'type':"
         "'function','function':{'name':'h'}}]}}",
         LF_E_VALUE, "tool_choice.allowed_tools.tools[0].function.name"},
        {"'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'x','tools':[]}}",
         LF_E_VALUE, "tool_choice.allowed_tools.mode"},
        {"'tool_choice':{'type':'allowed_tools','allowed_tools':{'tools':[]}}", LF_E_MISSING,
         "tool_choice.allowed_tools.mode"},
        {"'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'auto'}}", LF_E_TYPE,
         "tool_choice.allowed_tools.tools"},
        {"'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[{'type':"
         "'function','function':{'name':'f'}}]}}",
         LF_OK, ""},
    };
    CHECK_REFUSALS(user, without);
    CHECK_REFUSALS("'messages':[{'role':'user'}],'tools':[{'name':'f'},{'namespace':'n','function':"
                   "{'name':'g'}}],",
                   with);
}

static void options_of_a_wrong_type_or_range_are_refused(void **state) {
    (void)state;
    static const struct refusal cases[] = {
        {"'thinking':1", LF_E_TYPE, "thinking"},
        {"'thinking':'on'", LF_E_TYPE, "thinking"},
        {"'thinking':{}", LF_E_MISSING, "thinking.type"},
        {"'thinking':{'type':true}", LF_E_TYPE, "thinking.type"},
        {"'thinking':{'type':'maybe'}", LF_E_VALUE, "thinking.type"},
        {"'chat_template_kwargs':[]", LF_E_TYPE, "chat_template_kwargs"},
        {"'chat_template_kwargs':{'enable_thinking':1}", LF_E_TYPE,
         "chat_template_kwargs.enable_thinking"},
        {"'chat_template_kwargs':{'thinking':1}", LF_E_TYPE, "chat_template_kwargs.thinking"},
        {"'chat_template_kwargs':{'drop_thinking':'x'}", LF_E_TYPE,
         "chat_template_kwargs.drop_thinking"},
        {"'chat_template_kwargs':{'reasoning_effort':0}", LF_E_VALUE,
         "chat_template_kwargs.reasoning_effort"},
        {"'reasoning_effort':true", LF_E_TYPE, "reasoning_effort"},
        {"'reasoning_effort':75.0", LF_E_TYPE, "reasoning_effort"},
        {"'reasoning_effort':1e1", LF_E_TYPE, "reasoning_effort"},
        {"'reasoning_effort':0", LF_E_VALUE, "reasoning_effort"},
        {"'reasoning_effort':101", LF_E_VALUE, "reasoning_effort"},
        {"'reasoning_effort':-5", LF_E_VALUE, "reasoning_effort"},
        {"'reasoning_effort':'75'", LF_E_VALUE, "reasoning_effort"},
        {"'reasoning_effort':'High'", LF_E_VALUE, "reasoning_effort"},
        {"'reasoning_effort':''", LF_E_VALUE, "reasoning_effort"},
        {"'reasoning_effort':{}", LF_E_TYPE, "reasoning_effort"},
        {"'thinking':false,'reasoning_effort':'odd'", LF_E_VALUE, "reasoning_effort"},
        {"'add_generation_prompt':1", LF_E_TYPE, "add_generation_prompt"},
        {"'continue_final_message':'x'", LF_E_TYPE, "continue_final_message"},
        {"'continue_final_message':true,'add_generation_prompt':true", LF_E_VALUE,
         "continue_final_message"},
        {"'response_format':'json'", LF_E_TYPE, "response_format"},
        {"'response_format':{}", LF_E_MISSING, "response_format.type"},
        {"'response_format':{'type':1}", LF_E_TYPE, "response_format.type"},
        {"'response_format':{'type':'yaml'}", LF_E_VALUE, "response_format.type"},
        {"'response_format':{'type':'json_object'}", LF_E_UNSUPPORTED, "response_format"},
        {"'response_format':{'type':'json_schema'}", LF_E_MISSING, "response_format.json_schema"},
        {"'response_format':{'type':'json_schema','json_schema':{}}", LF_E_MISSING,
         "response_format.json_schema.schema"},
        {"'response_format':{'type':'json_schema','json_schema':{'schema':1}}", LF_E_TYPE,
         "response_format.json_schema.schema"},
        {"'response_format':{'type':'json_schema','json_schema':{'schema':{}}}", LF_E_UNSUPPORTED,
         "response_format"},
        {"'response_format':{'type':'text'}", LF_OK, ""},
        {"'thinking':null,'reasoning_effort':null,'chat_template_kwargs':null,'tools':null,"
         "'response_format':null,'add_generation_prompt':null,'continue_final_message':null,"
         "'parallel_tool_calls':null,'functions':null,'function_call':null",
         LF_OK, ""},
        {"'chat_template_kwargs':{'unknown':[1]},'temperature':'hot'", LF_OK, ""},
    };
    CHECK_REFUSALS(user, cases);
}

static void thinking_and_effort_come_from_the_first_place_that_says_so(void **state) {
    (void)state;
    static const struct {
        const char *fields;
        int alias, effort;
        bool server, thinking;
    } cases[] = {
        {"'x':1", -1, 33, true, true}, {"'x':1", -1, 33, false, false},
        {"'x':1", 0, 33, true, false}, {"'x':1", 1, 33, false, true},
        {"'reasoning_effort':'none'", 1, 33, true, false},
        {"'reasoning_effort':'low'", 0, 50, false, true},
        {"'reasoning_effort':7", 0, 7, false, true},
        {"'thinking':true,'reasoning_effort':'none'", -1, 33, true, true},
        {"'thinking':{'type':'adaptive'},'reasoning_effort':'max'", -1, 100, false, true},
        {"'thinking':{'type':'enabled','budget_tokens':5}", 0, 33, false, true},
        {"'thinking':{'type':'disabled'},'chat_template_kwargs':{'enable_thinking':true}", -1, 33,
         true, false},
        {"'chat_template_kwargs':{'enable_thinking':false,'thinking':true}", -1, 33, true, false},
        {"'chat_template_kwargs':{'thinking':{'type':'disabled'}},'reasoning_effort':'high'", -1,
         75, true, false},
        {"'chat_template_kwargs':{'reasoning_effort':'ultra'}", -1, 100, false, true},
        {"'reasoning_effort':'minimal','chat_template_kwargs':{'reasoning_effort':'max'}", -1, 50,
         true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_chat_defaults defaults = {.thinking = cases[i].server, .effort = 33,
                                            .alias_thinking = cases[i].alias};
        struct lf_error err = LF_ERROR_INIT;
        struct chat_case c;
        char body[512];
        char *fields = quoted(cases[i].fields);
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\"}],%s}", fields);
        assert_int_equal(read_with(&c, body, &defaults, &err), LF_OK);
        if (c.chat.thinking != cases[i].thinking || c.chat.effort != cases[i].effort)
            fail_msg("%s: thinking %d, effort %d", body, c.chat.thinking, c.chat.effort);
        free(fields);
        chat_case_free(&c);
    }
}

static struct chat_case read_quoted(const char *text, const struct lf_chat_defaults *defaults) {
    struct lf_error err = LF_ERROR_INIT;
    struct chat_case c;
    char *body = quoted(text);
    if (read_with(&c, body, defaults, &err) != LF_OK)
        fail_msg("%s: %s", body, err.text);
    free(body);
    return c;
}

static void hosted_tools_are_dropped_by_name_and_custom_ones_remembered(void **state) {
    (void)state;
    static const char body[] =
        "{'messages':[{'role':'user'}],'parallel_tool_calls':false,'tools':[{'type':'web_search_pre"
        "view'},{'type':'custom','name':'patch'},{'type':'mcp','server':'x'},{'name':'f'}]}";
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    struct chat_case c = read_quoted(body, &defaults);
    assert_int_equal(c.chat.n_tools, 2);
    assert_int_equal(c.extras.n_dropped, 2);
    assert_string_equal(c.extras.dropped[0], "web_search_preview");
    assert_string_equal(c.extras.dropped[1], "mcp");
    assert_int_equal(c.extras.n_customs, 1);
    assert_string_equal(c.extras.custom[0], "patch");
    assert_false(c.extras.parallel_calls);
    chat_case_free(&c);
    struct lf_error err = LF_ERROR_INIT;
    char *strict = quoted(body);
    defaults.strict_tools = true;
    assert_int_equal(read_with(&c, strict, &defaults, &err), LF_E_UNSUPPORTED);
    assert_string_equal(err.param, "tools[0].type");
    free(strict);
    chat_case_free(&c);
}

static void tool_choice_none_renders_no_tools(void **state) {
    (void)state;
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    struct chat_case c = read_quoted(
        "{'messages':[{'role':'user'}],'tools':[{'name':'f'}],'tool_choice':'none'}", &defaults);
    assert_int_equal(c.chat.n_tools, 0);
    chat_case_free(&c);
    c = read_quoted("{'messages':[{'role':'user'}],'functions':[{'name':'f'}],'function_call':"
                    "'none'}",
                    &defaults);
    assert_int_equal(c.chat.n_tools, 0);
    chat_case_free(&c);
    c = read_quoted("{'messages':[{'role':'user'}],'functions':[{'name':'f'}]}", &defaults);
    assert_int_equal(c.chat.n_tools, 1);
    chat_case_free(&c);
}

static void tolerated_shapes_give_what_they_mean(void **state) {
    (void)state;
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    struct chat_case c = read_quoted(
        "{'messages':[{'role':'developer','content':null,'name':7},{'role':'user','content':[{'type"
        "':'input_text','text':'a\\u00e9'},{'type':'refusal','text':'no'}],'task':'query','tools':"
        "[1]},{'role':'assistant','content':'','reasoning_content':5,'reasoning':'why','refusal':"
        "null,'audio':{},'annotations':[],'function_call':{'name':'f','arguments':'{}'}},{'role':"
        "'function','name':'f','tool_call_id':9,'content':'r'},{'role':'tool','tool_call_id':"
        "'t','content':'s'}]}",
        &defaults);
    const struct lf_message *m = c.chat.message;
    assert_int_equal(c.chat.n_messages, 5);
    assert_int_equal(m[0].role, LF_ROLE_SYSTEM);
    assert_true(m[0].n_parts == 1 && m[0].part[0].len == 0);
    assert_int_equal(m[1].n_parts, 2);
    assert_memory_equal(m[1].part[0].text, "aé", 3);
    assert_memory_equal(m[1].part[1].text, "no", 2);
    assert_string_equal(m[1].task, "");
    assert_int_equal(m[1].n_tools, 0);
    assert_int_equal(m[2].reasoning_len, 3);
    assert_memory_equal(m[2].reasoning, "why", 3);
    assert_int_equal(m[2].n_calls, 1);
    assert_string_equal(m[2].call[0].name, "f");
    assert_string_equal(m[2].call[0].id, "");
    assert_true(m[3].role == LF_ROLE_TOOL && !m[3].call_id[0]);
    assert_string_equal(m[4].call_id, "t");
    chat_case_free(&c);
}

static void tasks_count_only_where_they_are_enabled(void **state) {
    (void)state;
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    defaults.tasks = true;
    struct chat_case c = read_quoted("{'messages':[{'role':'user','task':'title'}]}", &defaults);
    assert_string_equal(c.chat.message[0].task, "title");
    chat_case_free(&c);
    struct lf_error err = LF_ERROR_INIT;
    char *body = quoted("{'messages':[{'role':'user','task':'x'}]}");
    assert_int_equal(read_with(&c, body, &defaults, &err), LF_E_VALUE);
    assert_string_equal(err.param, "messages[0].task");
    free(body);
    chat_case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_a_wrong_shape_are_refused),
        cmocka_unit_test(images_without_a_usable_source_are_refused),
        cmocka_unit_test(calls_of_a_wrong_shape_are_refused),
        cmocka_unit_test(tools_of_a_wrong_shape_are_refused),
        cmocka_unit_test(choices_that_force_a_call_are_refused),
        cmocka_unit_test(options_of_a_wrong_type_or_range_are_refused),
        cmocka_unit_test(thinking_and_effort_come_from_the_first_place_that_says_so),
        cmocka_unit_test(hosted_tools_are_dropped_by_name_and_custom_ones_remembered),
        cmocka_unit_test(tool_choice_none_renders_no_tools),
        cmocka_unit_test(tolerated_shapes_give_what_they_mean),
        cmocka_unit_test(tasks_count_only_where_they_are_enabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
