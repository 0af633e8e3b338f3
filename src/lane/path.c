#include <math.h>
#include "lane/stream.h"

static uint32_t next(const struct lf_stream *s, const uint32_t *draft, uint32_t n_drafts) {
    const struct lf_request *r = &s->request;
    return r->path ? r->path(r->path_ctx, s->reply.id, s->produced, draft, n_drafts)
                   : LF_PATH_FREE;
}

void lf_path_force(struct lf_stream *s, uint32_t *drawn, struct lf_logprob_row *row) {
    uint32_t id = next(s, NULL, 0);
    // Logits that are not finite fail the request, forced or not (F-5).
    if (id == LF_PATH_FREE || id == *drawn || *drawn == LF_SAMPLE_NONE)
        return;
    if (id >= s->vocab) {
        lf_stream_end(s, LF_DONE_FAILED, "the path of the request leaves the vocabulary");
        *drawn = LF_SAMPLE_NONE;
        return;
    }
    *drawn = id;
    if (!row)
        return;
    row->drawn = NAN;
    for (uint32_t i = 0; i < row->n; i++)
        if (row->id[i] == id)
            row->drawn = row->value[i];
}

bool lf_path_due(const struct lf_stream *s) {
    return next(s, NULL, 0) != LF_PATH_FREE;
}

void lf_path_chain(const struct lf_stream *s, uint32_t room, struct lf_chain *c) {
    for (uint32_t j = 0; j < room; j++) {
        uint32_t id = next(s, c->tok, j);
        if (id >= s->vocab)
            id = LF_PATH_FREE;
        c->forced[j] = id != LF_PATH_FREE;
        if (!c->forced[j] && j >= c->n)
            return;
        if (!c->forced[j] || (j < c->n && c->tok[j] == id))
            continue;
        // What was drafted after another token is worth nothing here.
        c->tok[j] = id;
        c->raw[j] = 1;
        c->n = j + 1;
    }
}
