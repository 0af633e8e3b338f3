#include "text/prompt_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lf_prompt_piece *piece_open(struct lf_prompt_builder *builder) {
    if (builder->n_pieces == builder->cap_pieces) {
        size_t cap = builder->cap_pieces ? builder->cap_pieces * 2 : 64;
        struct lf_prompt_piece *grown = realloc(builder->piece, cap * sizeof *grown);
        if (!grown) {
            builder->failed = true;
            return NULL;
        }
        builder->piece = grown;
        builder->cap_pieces = cap;
    }
    return &builder->piece[builder->n_pieces++];
}

void lf_prompt_add_control(struct lf_prompt_builder *builder, enum lf_control control) {
    struct lf_prompt_piece *piece = piece_open(builder);
    if (piece)
        *piece = (struct lf_prompt_piece){.control = true, .id = control};
}

void lf_prompt_add_text(struct lf_prompt_builder *builder, const char *text, size_t len) {
    if (!len)
        return;
    struct lf_prompt_piece *piece =
        builder->n_pieces ? &builder->piece[builder->n_pieces - 1] : NULL;
    if (!piece || piece->control) {
        piece = piece_open(builder);
        if (!piece)
            return;
        *piece = (struct lf_prompt_piece){.start = builder->text.len};
    }
    lf_buffer_add(&builder->text, text, len);
    piece->len = builder->text.len - piece->start;
}

void lf_prompt_add_fixed(struct lf_prompt_builder *builder, const char *marked) {
    static const char marks[] = LF_MARK_DSML LF_MARK_THINK LF_MARK_THINK_END;
    static const enum lf_control controls[] = {LF_CONTROL_DSML, LF_CONTROL_THINK,
                                               LF_CONTROL_THINK_END};
    while (*marked) {
        size_t len = strcspn(marked, marks);
        lf_prompt_add_text(builder, marked, len);
        marked += len;
        if (*marked)
            lf_prompt_add_control(builder, controls[strchr(marks, *marked++) - marks]);
    }
}

// What the renderer carries from turn to turn.
struct render {
    struct lf_prompt_builder builder;
    struct lf_turns turns;
    const struct lf_chat *chat;
    const struct lf_part **image;
    size_t n_images, cap_images;
    bool open; // the last turn ends inside reasoning
};

static void add_image(struct render *r, const struct lf_part *part) {
    lf_prompt_add_control(&r->builder, LF_CONTROL_IMAGE);
    if (r->n_images == r->cap_images) {
        size_t cap = r->cap_images ? r->cap_images * 2 : 16;
        const struct lf_part **grown = realloc(r->image, cap * sizeof *grown);
        if (!grown) {
            r->builder.failed = true;
            return;
        }
        r->image = grown;
        r->cap_images = cap;
    }
    r->image[r->n_images++] = part;
}

static void add_part(struct render *r, const struct lf_part *part) {
    if (part->kind == LF_PART_IMAGE)
        add_image(r, part);
    else
        lf_prompt_add_text(&r->builder, part->text, part->len);
}

static void add_content(struct render *r, const struct lf_message *message) {
    for (size_t i = 0; i < message->n_parts; i++) {
        lf_prompt_add_text(&r->builder, "\n\n", i ? 2 : 0);
        add_part(r, &message->part[i]);
    }
}

static bool content_empty(const struct lf_message *message) {
    return !message->n_parts || (message->n_parts == 1 && !message->part[0].len);
}

static enum lf_status add_system(struct render *r, const struct lf_turn *turn, bool first,
                                 struct lf_error *err) {
    if (!first)
        lf_prompt_add_control(&r->builder, LF_CONTROL_SYSTEM);
    if (turn->message)
        add_content(r, turn->message);
    if (turn->n_tools) {
        lf_prompt_add_fixed(&r->builder, "\n\n");
        LF_TRY(lf_prompt_add_tools(&r->builder, turn, err));
    }
    if (turn->schema.text) {
        struct lf_buffer schema = {0};
        lf_json_print(&schema, turn->schema);
        lf_prompt_add_fixed(&r->builder,
                            "\n\n## Response Format:\n\nYou MUST strictly adhere to the following "
                            "schema to reply:\n");
        lf_prompt_add_text(&r->builder, schema.data, schema.len);
        r->builder.failed |= schema.failed;
        lf_buffer_free(&schema);
    }
    return LF_OK;
}

static void add_user(struct render *r, const struct lf_turn *turn) {
    lf_prompt_add_control(&r->builder, LF_CONTROL_USER);
    for (size_t i = 0; i < turn->n_blocks; i++) {
        const struct lf_turn_block *block = &turn->block[i];
        lf_prompt_add_text(&r->builder, "\n\n", i ? 2 : 0);
        if (block->part) {
            add_part(r, block->part);
            continue;
        }
        lf_prompt_add_fixed(&r->builder, "<tool_result>");
        add_content(r, block->result);
        lf_prompt_add_fixed(&r->builder, "</tool_result>");
    }
}

static void add_assistant(struct render *r, size_t i) {
    const struct lf_turns *turns = &r->turns;
    const struct lf_message *message = turns->turn[i].message;
    bool continued = turns->continued && i + 1 == turns->n;
    bool after_task = i && turns->turn[i - 1].task[0];
    if (r->chat->thinking && !after_task && (!turns->drop || (ptrdiff_t)i > turns->last_user)) {
        lf_prompt_add_text(&r->builder, message->reasoning, message->reasoning_len);
        r->open = continued && content_empty(message) && message->reasoning_len;
        if (!r->open)
            lf_prompt_add_control(&r->builder, LF_CONTROL_THINK_END);
    }
    add_content(r, message);
    if (message->n_calls)
        lf_prompt_add_calls(&r->builder, message);
    if (!continued)
        lf_prompt_add_control(&r->builder, LF_CONTROL_EOS);
}

static const struct {
    const char *name;
    enum lf_control control;
} tasks[] = {
    {"action", LF_CONTROL_ACTION}, {"query", LF_CONTROL_QUERY}, {"title", LF_CONTROL_TITLE},
    {"authority", LF_CONTROL_AUTHORITY}, {"domain", LF_CONTROL_DOMAIN},
    {"read_url", LF_CONTROL_READ_URL},
};

static enum lf_status add_task(struct render *r, const char *task, struct lf_error *err) {
    size_t i = 0, n = sizeof tasks / sizeof *tasks;
    while (i < n && strcmp(task, tasks[i].name))
        i++;
    if (i == n)
        return lf_fail_param(err, LF_E_VALUE, "messages",
                             "task '%.40s' is not known: expected action, query, authority, "
                             "domain, title or read_url",
                             task);
    if (tasks[i].control == LF_CONTROL_ACTION) {
        lf_prompt_add_control(&r->builder, LF_CONTROL_ASSISTANT);
        lf_prompt_add_control(&r->builder,
                              r->chat->thinking ? LF_CONTROL_THINK : LF_CONTROL_THINK_END);
    }
    lf_prompt_add_control(&r->builder, tasks[i].control);
    return LF_OK;
}

// What follows a turn: a task token or the header of the reply (prompts.md 5).
static enum lf_status add_header(struct render *r, size_t i, struct lf_error *err) {
    const struct lf_turns *turns = &r->turns;
    const struct lf_turn *turn = &turns->turn[i];
    bool last = i + 1 == turns->n;
    if (!last && turn[1].role != LF_ROLE_ASSISTANT && turn[1].role != LF_ROLE_REMINDER)
        return LF_OK;
    if (last && (turns->continued || !r->chat->add_generation_prompt))
        return LF_OK;
    if (turn->task[0])
        return add_task(r, turn->task, err);
    if (turn->role != LF_ROLE_USER && !(turn->role == LF_ROLE_SYSTEM && i > 0) && !last)
        return LF_OK;
    bool think = r->chat->thinking && (!turns->drop || (ptrdiff_t)i >= turns->last_user);
    lf_prompt_add_control(&r->builder, LF_CONTROL_ASSISTANT);
    lf_prompt_add_control(&r->builder, think ? LF_CONTROL_THINK : LF_CONTROL_THINK_END);
    return LF_OK;
}

static enum lf_status render_turns(struct render *r, struct lf_error *err) {
    lf_prompt_add_control(&r->builder, LF_CONTROL_BOS);
    for (size_t i = 0; i < r->turns.n; i++) {
        const struct lf_turn *turn = &r->turns.turn[i];
        if (i == 0 && (r->chat->thinking || turn->role == LF_ROLE_SYSTEM))
            lf_prompt_add_control(&r->builder, LF_CONTROL_SYSTEM);
        if (i == 0 && r->chat->thinking) {
            char line[128];
            snprintf(line, sizeof line,
                     "Reasoning Effort: %d (range 1-100, the higher the value, the more thorough "
                     "the reasoning)\n\n",
                     r->chat->effort);
            lf_prompt_add_fixed(&r->builder, line);
        }
        if (turn->role == LF_ROLE_SYSTEM) {
            LF_TRY(add_system(r, turn, i == 0, err));
        } else if (turn->role == LF_ROLE_USER) {
            add_user(r, turn);
        } else if (turn->role == LF_ROLE_REMINDER) {
            lf_prompt_add_control(&r->builder, LF_CONTROL_REMINDER);
            add_content(r, turn->message);
        } else {
            add_assistant(r, i);
        }
        LF_TRY(add_header(r, i, err));
    }
    return LF_OK;
}

static enum lf_status finish(struct lf_prompt *out, const struct render *r, struct lf_error *err) {
    const struct lf_prompt_builder *builder = &r->builder;
    const struct lf_prompt_piece *piece = builder->piece;
    char *text = lf_arena_copy(&out->arena, builder->text.data, builder->text.len);
    out->segment = lf_arena_alloc(&out->arena, builder->n_pieces, sizeof *out->segment);
    out->image = lf_arena_alloc(&out->arena, r->n_images, sizeof *out->image);
    if (builder->failed || builder->text.failed || !text || !out->segment || !out->image)
        return lf_fail(err, LF_E_MEM, "no memory for a prompt of %zu bytes", builder->text.len);
    for (size_t i = 0; i < builder->n_pieces; i++) {
        const char *start = piece[i].control ? NULL : text + piece[i].start;
        out->segment[i] =
            (struct lf_segment){piece[i].control, piece[i].id, start, piece[i].len};
    }
    out->n_segments = builder->n_pieces;
    if (r->n_images)
        memcpy(out->image, r->image, r->n_images * sizeof *r->image);
    out->n_images = r->n_images;
    out->tools = r->turns.tools;
    const struct lf_prompt_piece *last = builder->n_pieces ? &piece[builder->n_pieces - 1] : NULL;
    out->in_reasoning = r->open || (last && last->control && last->id == LF_CONTROL_THINK);
    return LF_OK;
}

enum lf_status lf_prompt_render(struct lf_prompt *out, const struct lf_chat *chat,
                                struct lf_error *err) {
    struct lf_arena scratch = {0};
    struct render r = {.chat = chat};
    *out = (struct lf_prompt){0};
    enum lf_status status = lf_turns_build(&r.turns, &scratch, chat, err);
    if (status == LF_OK)
        status = render_turns(&r, err);
    if (status == LF_OK)
        status = finish(out, &r, err);
    if (status != LF_OK)
        lf_prompt_free(out);
    lf_buffer_free(&r.builder.text);
    free(r.builder.piece);
    free(r.image);
    lf_arena_free(&scratch);
    return status;
}

void lf_prompt_free(struct lf_prompt *prompt) {
    lf_arena_free(&prompt->arena);
    *prompt = (struct lf_prompt){0};
}
