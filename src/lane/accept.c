#include "base/log.h"
#include "lane/stream.h"

uint32_t lf_accept_count(const uint32_t *draft, uint32_t n, const uint32_t *drawn) {
    uint32_t accepted = 0;
    while (accepted < n && draft[accepted] == drawn[accepted])
        accepted++;
    return accepted;
}

static bool is_end(const struct lf_request *r, uint32_t id) {
    for (uint32_t i = 0; i < r->n_eos; i++)
        if (r->eos[i] == id)
            return true;
    return false;
}

// A token that was delivered before the stream yielded: drawn again it must be the same (L-40).
static bool replay(struct lf_stream *s, uint32_t id) {
    uint32_t before = s->reply.id[s->produced];
    if (id == before)
        return true;
    lf_log(LF_LOG_ERROR, "request %llu: reply token %u was %u before its stream yielded, now %u",
           (unsigned long long)s->id, s->produced, before, id);
    lf_stream_end(s, LF_DONE_FAILED, "internal error: a restarted reply differs from its start");
    return false;
}

// The stop conditions in the order of L-5.
static void test_stops(struct lf_stream *s, uint32_t id) {
    int stopped = s->request.stop ? s->request.stop(s->request.stop_ctx, id) : 0;
    if (is_end(&s->request, id))
        lf_stream_end(s, LF_DONE_EOS, "");
    else if (stopped)
        lf_stream_end(s, LF_DONE_STOP_STRING, "");
    else if (s->reply.len >= s->limit)
        lf_stream_end(s, s->window_limit ? LF_DONE_WINDOW : LF_DONE_LENGTH, "");
}

static bool commit(struct lf_stream *s, uint32_t id, uint32_t *fresh) {
    if (s->done)
        return false;
    if (id == LF_SAMPLE_NONE) {
        s->nonfinite = true;
        lf_stream_end(s, LF_DONE_FAILED, "the model's logits are not finite");
        return false;
    }
    if (s->produced < s->reply.len) {
        if (!replay(s, id))
            return false;
    } else {
        lf_ids_add(&s->reply, id);
        if (s->reply.failed) {
            lf_stream_end(s, LF_DONE_FAILED, "out of memory for the reply");
            return false;
        }
        ++*fresh;
        test_stops(s, id);
    }
    s->produced++;
    s->pending = id;
    return true;
}

uint32_t lf_accept_window(struct lf_stream *s, const uint32_t *draft, uint32_t n, uint32_t *drawn,
                          struct lf_logprob_row *rows, uint32_t *fresh) {
    uint32_t i = 0;
    *fresh = 0;
    do {
        lf_path_force(s, &drawn[i], rows ? &rows[i] : NULL);
        if (!commit(s, drawn[i], fresh))
            return i;
        i++;
    } while (i <= n && !s->done && draft[i - 1] == drawn[i - 1]);
    return i;
}

void lf_accept_deliver(struct lf_engine *e, struct lf_stream *s, uint32_t fresh,
                       const struct lf_logprob_row *rows) {
    if (!fresh)
        return;
    s->last_token = lf_engine_now(e);
    if (s->reply.len == fresh)
        s->first_token = s->last_token;
    if (s->sink.tokens)
        s->sink.tokens(s->ctx, s->id, s->reply.id + s->reply.len - fresh, fresh, rows);
}
