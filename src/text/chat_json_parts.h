// What the files that read a chat body share.
#pragma once
#include "text/chat_json.h"

struct lf_chat_reader {
    struct lf_chat *chat;
    struct lf_chat_extras *extras;
    struct lf_arena *arena;
    const struct lf_chat_defaults *defaults;
    struct lf_error *err;
    const char **offered; // names of the tools, rendered and as declared, sorted
    size_t n_offered;
};
int lf_chat_compare_names(const void *left, const void *right);

LF_CHECKED enum lf_status lf_chat_read_messages(struct lf_chat_reader *reader,
                                                struct lf_json_span messages);
// tools or the legacy functions; place names the list in errors.
LF_CHECKED enum lf_status lf_chat_read_tools(struct lf_chat_reader *reader,
                                             struct lf_json_span tools, const char *place);
// Whether a tool's type is one that runs at a vendor's service (api.md 7).
bool lf_chat_tool_hosted(struct lf_json_span type);
// tool_choice or the legacy function_call. Needs the tools; without them none are rendered.
LF_CHECKED enum lf_status lf_chat_read_choice(struct lf_chat_reader *reader,
                                              struct lf_json_span choice, const char *place);

// LF_E_TYPE with "PLACE must be WANTED, not a number".
enum lf_status lf_chat_wrong_type(struct lf_error *err, const char *place, const char *wanted,
                                  struct lf_json_span value);
enum lf_status lf_chat_missing(struct lf_error *err, const char *place);
enum lf_status lf_chat_no_memory(struct lf_error *err);
// Leaves *out alone when the value is absent.
LF_CHECKED enum lf_status lf_chat_read_bool(bool *out, struct lf_json_span value,
                                            const char *place, struct lf_error *err);
