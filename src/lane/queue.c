#include "lane/stream.h"

// The last foreground stream in line, NULL: none.
static struct lf_stream *last_foreground(const struct lf_engine *e) {
    struct lf_stream *last = NULL;
    for (struct lf_stream *w = e->waiting; w && !w->request.background; w = w->next)
        last = w;
    return last;
}

void lf_queue_add(struct lf_engine *e, struct lf_stream *s, bool first) {
    struct lf_stream *before = e->waiting_last;
    bool background = s->request.background;
    if (first && !background)
        before = NULL;
    else if (before && before->request.background && (first || !background))
        before = last_foreground(e);
    s->next = before ? before->next : e->waiting;
    if (before)
        before->next = s;
    else
        e->waiting = s;
    if (!s->next)
        e->waiting_last = s;
    e->status.waiting++;
}

void lf_queue_remove(struct lf_engine *e, struct lf_stream *s) {
    struct lf_stream *before = NULL;
    for (struct lf_stream *w = e->waiting; w != s; w = w->next)
        before = w;
    if (before)
        before->next = s->next;
    else
        e->waiting = s->next;
    if (e->waiting_last == s)
        e->waiting_last = before;
    s->next = NULL;
    e->status.waiting--;
}

static bool is_over(struct lf_engine *e, struct lf_stream *s, double now) {
    double timeout = e->options.queue_timeout_s;
    if (s->cancelled)
        lf_stream_end(s, LF_DONE_CANCELLED, "");
    else if (e->status.dead)
        lf_stream_end(s, LF_DONE_FAILED, e->status.message);
    else if (timeout > 0 && !s->told_admitted && now - s->submitted > timeout)
        lf_stream_end(s, LF_DONE_TIMEOUT, "");
    else if (e->closing && (!s->told_admitted || now >= e->close_at))
        lf_stream_end(s, LF_DONE_CLOSED, "");
    return s->done;
}

struct lf_stream *lf_queue_take_ended(struct lf_engine *e, double now) {
    struct lf_stream *ended = NULL, *next;
    for (struct lf_stream *s = e->waiting; s; s = next) {
        next = s->next;
        if (!is_over(e, s, now))
            continue;
        lf_queue_remove(e, s);
        lf_stream_count(e, s);
        s->next = ended;
        ended = s;
    }
    return ended;
}
