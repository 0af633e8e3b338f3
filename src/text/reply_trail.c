#include "text/reply_trail.h"

#include <stdbool.h>
#include <string.h>

struct mark {
    uint64_t start, end;
    uint32_t index;
    bool shown;
};

struct due {
    uint64_t at; // in all shown text
    uint32_t index;
};

void lf_trail_free(struct lf_trail *trail) {
    lf_buffer_free(&trail->mark);
    lf_buffer_free(&trail->due);
    lf_buffer_free(&trail->out);
}

static void drop_front(struct lf_buffer *buffer, size_t len) {
    if (!len)
        return;
    memmove(buffer->data, buffer->data + len, buffer->len - len);
    buffer->len -= len;
}

static struct mark *marks_of(const struct lf_trail *trail, size_t *n) {
    *n = trail->mark.len / sizeof(struct mark);
    return (struct mark *)(void *)trail->mark.data;
}

void lf_trail_token(struct lf_trail *trail, uint32_t index, uint64_t start, uint64_t end) {
    struct mark mark = {.start = start, .end = end, .index = index};
    lf_buffer_add(&trail->mark, &mark, sizeof mark);
}

void lf_trail_cut(struct lf_trail *trail, size_t len) {
    size_t n;
    struct mark *mark = marks_of(trail, &n);
    uint64_t to = trail->source, from = to - len;
    for (size_t i = 0; i < n; i++) {
        uint64_t *const edge[] = {&mark[i].start, &mark[i].end};
        for (int e = 0; e < 2; e++)
            if (*edge[e] > from)
                *edge[e] = *edge[e] >= to ? *edge[e] - len : from;
    }
    trail->source = from;
}

void lf_trail_show(struct lf_trail *trail, size_t len, size_t after) {
    size_t n, passed = 0;
    struct mark *mark = marks_of(trail, &n);
    uint64_t to = trail->source - after, from = to - len;
    for (size_t i = 0; i < n && mark[i].start < to; i++) {
        uint64_t first = mark[i].start > from ? mark[i].start : from;
        struct due due = {.at = trail->shown + (first - from), .index = mark[i].index};
        if (mark[i].end > first && !mark[i].shown)
            lf_buffer_add(&trail->due, &due, sizeof due);
        mark[i].shown = mark[i].shown || mark[i].end > first;
    }
    while (passed < n && mark[passed].end <= to)
        passed++;
    drop_front(&trail->mark, passed * sizeof *mark);
    trail->shown += len;
}

void lf_trail_give(struct lf_trail *trail, struct lf_reply_event *event) {
    const struct due *due = (const struct due *)(const void *)trail->due.data;
    size_t n = trail->due.len / sizeof *due, taken = 0;
    trail->mark.failed = trail->mark.failed || trail->out.failed;
    lf_buffer_clear(&trail->out);
    for (; taken < n && due[taken].at < trail->given + event->len; taken++) {
        struct lf_reply_token token = {.index = due[taken].index,
                                       .at = (size_t)(due[taken].at - trail->given)};
        lf_buffer_add(&trail->out, &token, sizeof token);
    }
    drop_front(&trail->due, taken * sizeof *due);
    trail->given += event->len;
    event->token = (const struct lf_reply_token *)(const void *)trail->out.data;
    event->n_tokens = trail->out.len / sizeof *event->token;
}
