#include "serve/thinking.h"

// Whether the newest ids repeat with some period over the guard's whole length.
static bool loops(struct lf_thinking *t, uint32_t id) {
    bool found = false;
    for (uint32_t period = 1; period <= LF_LOOP_PERIOD; period++) {
        uint32_t *run = &t->run[period - 1];
        bool same = t->n >= period && t->last[(t->n - period) % LF_LOOP_PERIOD] == id;
        *run = same ? *run + 1 : 0;
        found |= *run + period >= LF_LOOP_TOKENS;
    }
    t->last[t->n % LF_LOOP_PERIOD] = id;
    return found;
}

void lf_thinking_hear(struct lf_thinking *t, uint32_t id, bool open) {
    if (t->closed)
        return;
    bool found = loops(t, id);
    t->n++;
    if (!open) {
        t->closed = true;
        t->closed_at = t->n;
    } else if (t->guard && found && !t->looped) {
        t->looped = true;
        t->looped_at = t->n;
    }
}

uint32_t lf_thinking_path(void *ctx, const uint32_t *reply, uint32_t n, const uint32_t *draft,
                          uint32_t n_drafts) {
    const struct lf_thinking *t = ctx;
    uint32_t at = n + n_drafts;
    (void)reply;
    bool due = (t->budget && at == t->budget) || (t->looped && at == t->looped_at);
    if (!due || (t->closed && at >= t->closed_at))
        return LF_PATH_FREE;
    // Only the parser knows every end of reasoning; that drafts hold none is a good guess.
    for (uint32_t i = 0; i < n_drafts; i++)
        if (draft[i] == t->close)
            return LF_PATH_FREE;
    return t->close;
}
