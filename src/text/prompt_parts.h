// What the prompt renderer's files share: turns, the segment builder and tool definitions.
#pragma once
#include "text/chat.h"

static inline const char *lf_text_or_empty(const char *text) {
    return text ? text : "";
}

// Writes the name of a field for errors ("messages[2].role"), cut to its room.
enum { LF_PLACE_MAX = 96 };
void lf_place_set(char place[LF_PLACE_MAX], const char *format, ...) LF_PRINTF(2, 3);

// One piece of a user turn: a part of a user message or a whole tool result.
struct lf_turn_block {
    const struct lf_part *part;
    const struct lf_message *result; // set when part is NULL
};

struct lf_turn {
    enum lf_role role;                // never LF_ROLE_TOOL: results live in user turns
    const struct lf_message *message; // NULL for user turns and the inserted system turn
    struct lf_turn_block *block;
    size_t n_blocks;
    const struct lf_json_span *tool;
    size_t n_tools;
    char tool_place[LF_PLACE_MAX]; // names the tool list in errors
    struct lf_json_span schema;
    const char *task; // "" when none
};

struct lf_turns {
    struct lf_turn *turn;
    size_t n;
    ptrdiff_t last_user; // -1: none
    bool drop;           // reasoning of turns before last_user is not rendered
    bool tools;          // some turn carries tools
    bool continued;      // the last turn is a prefix
};
// Normalizes a chat's messages (prompts.md 4 and 9); everything lies in arena or in the chat.
LF_CHECKED enum lf_status lf_turns_build(struct lf_turns *out, struct lf_arena *arena,
                                         const struct lf_chat *chat, struct lf_error *err);

struct lf_prompt_piece {
    bool control;
    enum lf_control id;
    size_t start, len; // text
};

// Segments while they are written; adjacent text grows one piece.
struct lf_prompt_builder {
    struct lf_buffer text;
    struct lf_prompt_piece *piece;
    size_t n_pieces, cap_pieces;
    bool failed;
};
void lf_prompt_add_control(struct lf_prompt_builder *builder, enum lf_control control);
void lf_prompt_add_text(struct lf_prompt_builder *builder, const char *text, size_t len);
// A fixed text whose control tokens are written as the marks below.
void lf_prompt_add_fixed(struct lf_prompt_builder *builder, const char *marked);
#define LF_MARK_DSML "\x01"
#define LF_MARK_THINK "\x02"
#define LF_MARK_THINK_END "\x03"

// A tool definition, its namespace resolved (prompts.md 7).
struct lf_tool_view {
    struct lf_json_span function; // the wrapped object or the tool itself
    const char *name;             // rendered: namespace::name
    const char *declared;         // as the client wrote it
    const char *space;            // "" when none
    struct lf_json_span space_description;
};
// place names the tool in errors: "tools[0]".
LF_CHECKED enum lf_status lf_tool_read(struct lf_tool_view *out, struct lf_arena *arena,
                                       struct lf_json_span tool, const char *place,
                                       struct lf_error *err);
// A namespace as a string or an object with a name; *out is "" when it is absent.
LF_CHECKED enum lf_status lf_tool_space(const char **out, struct lf_json_span *description,
                                        struct lf_arena *arena, struct lf_json_span value,
                                        const char *place, struct lf_error *err);
// A NUL-terminated copy of a JSON string that may not hold U+0000 itself.
LF_CHECKED enum lf_status lf_json_name(const char **out, struct lf_arena *arena,
                                       struct lf_json_span value, const char *place,
                                       struct lf_error *err);
LF_CHECKED enum lf_status lf_prompt_add_tools(struct lf_prompt_builder *builder,
                                              const struct lf_turn *turn, struct lf_error *err);
void lf_prompt_add_calls(struct lf_prompt_builder *builder, const struct lf_message *message);
