#include "text/prompt_parts.h"

#include <stdlib.h>
#include <string.h>

// The calls of the newest assistant turn that had any, by id (prompts.md 4.7).
struct call_place {
    const char *id;
    size_t position;
};
struct call_map {
    struct call_place *place;
    size_t n;
};

static int compare_places(const void *left, const void *right) {
    const struct call_place *a = left, *b = right;
    int order = strcmp(a->id, b->id);
    return order ? order : a->position < b->position ? -1 : a->position > b->position;
}

static int compare_ids(const void *left, const void *right) {
    const struct call_place *a = left, *b = right;
    return strcmp(a->id, b->id);
}

static bool map_calls(struct call_map *map, struct lf_arena *arena,
                      const struct lf_message *message) {
    struct call_place *place = lf_arena_alloc(arena, message->n_calls, sizeof *place);
    size_t n = 0, kept = 0;
    if (!place)
        return false;
    for (size_t i = 0; i < message->n_calls; i++)
        if (lf_text_or_empty(message->call[i].id)[0])
            place[n++] = (struct call_place){message->call[i].id, i};
    qsort(place, n, sizeof *place, compare_places);
    // Of equal ids the last call counts.
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || strcmp(place[i].id, place[i + 1].id))
            place[kept++] = place[i];
    *map = (struct call_map){place, kept};
    return true;
}

struct result_place {
    size_t position, order;
    const struct lf_message *result;
};

static int compare_results(const void *left, const void *right) {
    const struct result_place *a = left, *b = right;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool sort_results(struct lf_turn *turn, const struct call_map *map,
                         struct lf_arena *arena) {
    size_t n = 0;
    for (size_t i = 0; i < turn->n_blocks; i++)
        n += turn->block[i].result != NULL;
    if (n < 2 || !map->n)
        return true;
    struct result_place *place = lf_arena_alloc(arena, n, sizeof *place);
    if (!place)
        return false;
    n = 0;
    for (size_t i = 0; i < turn->n_blocks; i++) {
        const struct lf_message *result = turn->block[i].result;
        if (!result)
            continue;
        struct call_place wanted = {lf_text_or_empty(result->call_id), 0};
        const struct call_place *found =
            bsearch(&wanted, map->place, map->n, sizeof wanted, compare_ids);
        place[n] = (struct result_place){found ? found->position : 0, n, result};
        n++;
    }
    qsort(place, n, sizeof *place, compare_results);
    n = 0;
    for (size_t i = 0; i < turn->n_blocks; i++)
        if (turn->block[i].result)
            turn->block[i].result = place[n++].result;
    return true;
}

// opening: all earlier messages are system messages and reminders.
static enum lf_status check_message(const struct lf_chat *chat, size_t i, bool opening,
                                    struct lf_error *err) {
    const struct lf_message *message = &chat->message[i];
    bool images_allowed = message->role == LF_ROLE_USER || message->role == LF_ROLE_TOOL;
    char param[LF_PLACE_MAX];
    for (size_t j = 0; j < message->n_parts && !images_allowed; j++)
        if (message->part[j].kind == LF_PART_IMAGE) {
            lf_place_set(param, "messages[%zu].content[%zu]", i, j);
            return lf_fail_param(err, LF_E_VALUE, param,
                                 "%s is an image: only user and tool messages can hold images",
                                 param);
        }
    if (message->prefix && (i + 1 < chat->n_messages || message->role != LF_ROLE_ASSISTANT)) {
        lf_place_set(param, "messages[%zu].prefix", i);
        return lf_fail_param(err, LF_E_VALUE, param,
                             "%s is set, but only the last message can be a prefix and only when "
                             "its role is assistant",
                             param);
    }
    if (message->role == LF_ROLE_REMINDER && !opening) {
        lf_place_set(param, "messages[%zu].role", i);
        return lf_fail_param(err, LF_E_VALUE, param,
                             "%s is latest_reminder, which is accepted only after the opening "
                             "system messages",
                             param);
    }
    return LF_OK;
}

static enum lf_status check_continued(struct lf_turns *out, const struct lf_chat *chat,
                                      struct lf_error *err) {
    const struct lf_message *last =
        chat->n_messages ? &chat->message[chat->n_messages - 1] : NULL;
    if (chat->continue_final && (!last || last->role != LF_ROLE_ASSISTANT))
        return lf_fail_param(err, LF_E_VALUE, "continue_final_message",
                             "continue_final_message needs an assistant message at the end of "
                             "messages");
    out->continued = last && (chat->continue_final || last->prefix);
    if (out->continued && last->n_calls) {
        char param[LF_PLACE_MAX];
        lf_place_set(param, "messages[%zu].tool_calls", chat->n_messages - 1);
        return lf_fail_param(err, LF_E_VALUE, param,
                             "%s is set on a message to continue: a prefix cannot carry tool calls",
                             param);
    }
    return LF_OK;
}

static struct lf_turn *turn_open(struct lf_turns *turns, enum lf_role role) {
    struct lf_turn *turn = &turns->turn[turns->n++];
    *turn = (struct lf_turn){.role = role, .task = ""};
    return turn;
}

// Appends a user or tool message to the open user turn, or starts one (prompts.md 4.6).
static void merge_message(struct lf_turns *turns, const struct lf_message *message,
                          struct lf_turn_block **next) {
    struct lf_turn *turn = turns->n ? &turns->turn[turns->n - 1] : NULL;
    bool result = message->role == LF_ROLE_TOOL;
    if (!turn || turn->role != LF_ROLE_USER || (!result && turn->task[0])) {
        turn = turn_open(turns, LF_ROLE_USER);
        turn->block = *next;
    }
    if (result)
        *(*next)++ = (struct lf_turn_block){NULL, message};
    for (size_t i = 0; i < message->n_parts && !result; i++)
        *(*next)++ = (struct lf_turn_block){&message->part[i], NULL};
    turn->n_blocks = (size_t)(*next - turn->block);
    if (!result && lf_text_or_empty(message->task)[0])
        turn->task = message->task;
}

static void attach_own(struct lf_turn *turn, const struct lf_message *message, size_t i) {
    turn->message = message;
    turn->task = lf_text_or_empty(message->task);
    if (message->role != LF_ROLE_SYSTEM)
        return;
    turn->schema = message->response_format;
    turn->tool = message->tool;
    turn->n_tools = message->n_tools;
    lf_place_set(turn->tool_place, "messages[%zu].tools", i);
}

// The request's tools and schema go to an opening system turn (prompts.md 4.4 and 4.5).
static void attach_request(struct lf_turn *turn, const struct lf_chat *chat) {
    if (chat->n_tools) {
        turn->tool = chat->tool;
        turn->n_tools = chat->n_tools;
        lf_place_set(turn->tool_place, "tools");
    }
    if (chat->response_schema.text)
        turn->schema = chat->response_schema;
}

static bool build(struct lf_turns *out, struct lf_arena *arena, const struct lf_chat *chat,
                  struct lf_turn_block *next) {
    struct call_map map = {0};
    bool attach = chat->n_tools || chat->response_schema.text;
    bool system_first = chat->n_messages && chat->message[0].role == LF_ROLE_SYSTEM;
    if (attach && !system_first)
        turn_open(out, LF_ROLE_SYSTEM);
    for (size_t i = 0; i < chat->n_messages; i++) {
        const struct lf_message *message = &chat->message[i];
        if (message->role == LF_ROLE_USER || message->role == LF_ROLE_TOOL)
            merge_message(out, message, &next);
        else
            attach_own(turn_open(out, message->role), message, i);
    }
    if (attach)
        attach_request(&out->turn[0], chat);
    for (size_t i = 0; i < out->n; i++) {
        struct lf_turn *turn = &out->turn[i];
        if (turn->role == LF_ROLE_ASSISTANT && turn->message->n_calls &&
            !map_calls(&map, arena, turn->message))
            return false;
        if (turn->role == LF_ROLE_USER && !sort_results(turn, &map, arena))
            return false;
        out->tools |= turn->n_tools > 0;
        if (turn->role == LF_ROLE_USER || (turn->role == LF_ROLE_SYSTEM && i > 0))
            out->last_user = (ptrdiff_t)i;
    }
    out->drop = chat->drop_thinking && !out->tools;
    return true;
}

enum lf_status lf_turns_build(struct lf_turns *out, struct lf_arena *arena,
                              const struct lf_chat *chat, struct lf_error *err) {
    *out = (struct lf_turns){.last_user = -1};
    size_t n_blocks = 1;
    bool opening = true;
    for (size_t i = 0; i < chat->n_messages; i++) {
        enum lf_role role = chat->message[i].role;
        LF_TRY(check_message(chat, i, opening, err));
        opening = opening && (role == LF_ROLE_SYSTEM || role == LF_ROLE_REMINDER);
        n_blocks += chat->message[i].n_parts + 1;
    }
    LF_TRY(check_continued(out, chat, err));
    struct lf_turn_block *block = lf_arena_alloc(arena, n_blocks, sizeof *block);
    out->turn = lf_arena_alloc(arena, chat->n_messages + 1, sizeof *out->turn);
    if (!block || !out->turn || !build(out, arena, chat, block))
        return lf_fail(err, LF_E_MEM, "no memory for %zu messages", chat->n_messages);
    return LF_OK;
}
