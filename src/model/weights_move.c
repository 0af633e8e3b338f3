// Weights where kernels' memory is apart: one block, filled in the order of the files.
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "device/cuda_dummy.h"
#include "kernel/linear/linear.h"
#include "model/weights.h"

// Tensors start on lines of the device; a slice is read by one thread and sent as a whole.
enum { LINE = 128, SLICE_BYTES = 4 << 20, SLICES = 32, HALVES = 2 };

#define GB 1000000000

// A pointer to a tensor: where it is kept, where it points, how much is there.
struct piece {
    void *place;
    const uint8_t *from;
    uint64_t bytes;
    bool turns; // codes that a device has in another order (linear_turn.h)
};

// All of them, and the matrices whose codes may be odd; piece, matrix NULL: counts.
struct pieces {
    const struct lf_topology *t;
    struct piece *piece;
    struct lf_matrix **matrix;
    uint64_t n, n_matrices;
};

// Pointers of any type are kept alike, so they are read and written as bytes.
static void add_codes(struct pieces *p, void *place, uint64_t bytes, bool turns) {
    const uint8_t *from;
    memcpy(&from, place, sizeof from);
    if (!from || !bytes)
        return;
    if (p->piece)
        p->piece[p->n] = (struct piece){place, from, bytes, turns};
    p->n++;
}

static void add(struct pieces *p, void *place, uint64_t bytes) {
    add_codes(p, place, bytes, false);
}

static void add_bf16(struct pieces *p, const uint16_t **place, uint64_t count) {
    add(p, place, count * sizeof **place);
}

static void add_f32(struct pieces *p, const float **place, uint64_t count) {
    add(p, place, count * sizeof **place);
}

static void add_matrix(struct pieces *p, struct lf_matrix *m) {
    if (m->data && lf_matrix_quantizes_input(m)) {
        if (p->matrix)
            p->matrix[p->n_matrices] = m;
        p->n_matrices++;
    }
    add_codes(p, &m->data, m->out * lf_matrix_row_bytes(m), m->format == LF_WEIGHT_MXFP4);
    add(p, &m->scale, lf_matrix_scale_bytes(m));
}

static void add_expert(struct pieces *p, struct lf_expert *e) {
    add_matrix(p, &e->w1);
    add_matrix(p, &e->w3);
    add_matrix(p, &e->w2);
}

static void add_hc(struct pieces *p, struct lf_hc_weights *hc) {
    uint64_t s = p->t->streams, n = s * (2 + s);
    add_f32(p, &hc->fn, n * s * p->t->hidden);
    add_f32(p, &hc->base, n);
    add_f32(p, &hc->scale, 3);
}

static void add_attention(struct pieces *p, struct lf_layer *l) {
    const struct lf_topology *t = p->t;
    add_bf16(p, &l->attn_norm, t->hidden);
    add_matrix(p, &l->wq_a);
    add_bf16(p, &l->q_norm, t->q_lora);
    add_matrix(p, &l->wq_b);
    add_matrix(p, &l->wkv);
    add_bf16(p, &l->kv_norm, t->head_dim);
    add_f32(p, &l->attn_sink, t->heads);
    for (uint32_t g = 0; g < t->o_groups; g++)
        add_matrix(p, &l->wo_a[g]);
    add_matrix(p, &l->wo_b);
    add_matrix(p, &l->comp_wkv);
    add_matrix(p, &l->comp_wgate);
    add_bf16(p, &l->comp_norm, t->head_dim);
    add_matrix(p, &l->index_wk);
    add_bf16(p, &l->index_k_norm, t->index_dim);
    add_matrix(p, &l->index_wq_b);
    add_matrix(p, &l->index_proj);
}

static void add_layer(struct pieces *p, struct lf_layer *l) {
    uint64_t gated = (uint64_t)p->t->streams * p->t->hidden;
    add_attention(p, l);
    add_hc(p, &l->hc_attn);
    add_hc(p, &l->hc_ffn);
    add_bf16(p, &l->ffn_norm, p->t->hidden);
    add_matrix(p, &l->gate);
    add_f32(p, &l->gate_bias, l->experts);
    for (uint32_t e = 0; e < l->experts; e++)
        add_expert(p, &l->expert[e]);
    add_expert(p, &l->shared);
    if (!l->engram)
        return;
    // Its rows stay with the host, which knows which of them a call reads (tables.c).
    add_matrix(p, &l->engram->wkv);
    add_bf16(p, &l->engram->q_weight, gated);
    add_bf16(p, &l->engram->k_weight, gated);
}

static void add_draft(struct pieces *p, struct lf_draft_weights *d) {
    for (uint32_t b = 0; b < p->t->draft_layers; b++)
        add_layer(p, &d->block[b]);
    add_matrix(p, &d->main_proj);
    add_bf16(p, &d->main_norm, p->t->hidden);
    add_bf16(p, &d->norm, p->t->hidden);
    add_matrix(p, &d->markov_embed);
    add_matrix(p, &d->markov_head);
    add_matrix(p, &d->confidence);
}

static void add_all(struct pieces *p, struct lf_weights *w) {
    p->n = p->n_matrices = 0;
    add_matrix(p, &w->embed);
    add_matrix(p, &w->head);
    add_bf16(p, &w->norm, p->t->hidden);
    for (uint32_t l = 0; l < p->t->layers; l++)
        add_layer(p, &w->layer[l]);
    if (w->draft)
        add_draft(p, w->draft);
}

static int order(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static uint64_t taken(const struct piece *piece) {
    return (piece->bytes + LINE - 1) / LINE * LINE;
}

// Several pointers may name a tensor; they stand side by side.
static bool is_again(const struct pieces *p, uint64_t i) {
    const struct piece *piece = &p->piece[i];
    return i && piece->from == piece[-1].from && piece->bytes == piece[-1].bytes;
}

// What goes over together: all threads read it into one half, while the other half is on its way.
struct batch {
    struct lf_weights_move *move;
    uint8_t *half[HALVES];
    const uint8_t *from[SLICES];
    uint64_t at[SLICES], bytes[SLICES];
    uint32_t n, batches;
    uint64_t sent, told;
    double start;
};

static uint8_t *room_of(const struct batch *b, uint32_t slice) {
    return b->half[b->batches % HALVES] + (size_t)slice * SLICE_BYTES;
}

static void read_slice(void *ctx, uint32_t i, uint32_t worker) {
    const struct batch *b = ctx;
    (void)worker;
    lf_memory_bring(b->from[i], b->bytes[i]);
    memcpy(room_of(b, i), b->from[i], b->bytes[i]);
    lf_checkpoint_forget(b->move->checkpoint, b->from[i], b->bytes[i]);
}

// A line at each tenth of what takes a while, and at the end.
static void tell(struct batch *b) {
    const struct lf_weights_move *m = b->move;
    double seconds = lf_clock_s() - b->start, sent = (double)b->sent;
    if (b->sent < m->bytes && (b->sent - b->told < m->bytes / 10 || b->sent - b->told < GB))
        return;
    b->told = b->sent;
    lf_log(LF_LOG_INFO, "weights: %.2f of %.2f GB on the device, %.2f GB/s", sent / GB,
           (double)m->bytes / GB, seconds > 0 ? sent / GB / seconds : 0);
}

static enum lf_status send(struct batch *b, struct lf_error *err) {
    const struct lf_weights_move *m = b->move;
    lf_pool_run(m->pool, b->n, read_slice, b);
    // The half that was sent before this one is free from here on.
    LF_TRY(lf_mem_wait(m->memory, err));
    for (uint32_t i = 0; i < b->n; i++) {
        uint8_t *there = (uint8_t *)m->block + b->at[i];
        if (m->cuda)
            lf_cuda_send(m->cuda, there, room_of(b, i), b->bytes[i]);
        else
            lf_mem_upload(m->memory, there, room_of(b, i), b->bytes[i]);
    }
    b->batches++;
    b->n = 0;
    return LF_OK;
}

// Linear maps of made-up weights were not written here: the device does it in their place.
static bool make_up(const struct lf_weights_move *m, const struct piece *piece, void *there) {
    struct lf_dummy_rule rule;
    uint64_t offset;
    if (!lf_dummy_left(m->checkpoint, piece->from, &rule, &offset))
        return false;
    lf_cuda_dummy(m->cuda, there, &rule, offset, piece->bytes);
    return true;
}

// A tensor that several pointers name goes over once.
static enum lf_status send_all(struct batch *b, const struct pieces *p, struct lf_error *err) {
    uint64_t end = 0, start = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        const struct piece *piece = &p->piece[i];
        bool again = is_again(p, i);
        start = again ? start : end;
        end = start + taken(piece);
        uint8_t *there = (uint8_t *)b->move->block + start;
        memcpy(piece->place, &there, sizeof there);
        bool done = again || make_up(b->move, piece, there);
        for (uint64_t at = 0, n; !done && at < piece->bytes; at += n) {
            n = piece->bytes - at < SLICE_BYTES ? piece->bytes - at : SLICE_BYTES;
            b->from[b->n] = piece->from + at;
            b->at[b->n] = start + at;
            b->bytes[b->n++] = n;
            if (b->n == SLICES)
                LF_TRY(send(b, err));
        }
        b->sent = end;
        tell(b);
    }
    LF_TRY(send(b, err));
    return lf_mem_wait(b->move->memory, err);
}

// Pinned, so that the device reads it by itself.
static enum lf_status open_halves(struct batch *b, struct lf_error *err) {
    const size_t bytes = (size_t)SLICES * SLICE_BYTES;
    for (uint32_t i = 0; i < HALVES; i++) {
        void *half = b->move->cuda ? NULL : malloc(bytes);
        if (b->move->cuda)
            LF_TRY(lf_cuda_alloc_pinned(b->move->cuda, &half, bytes, "weights on their way", err));
        else if (!half)
            return lf_fail(err, LF_E_MEM, "out of memory for weights on their way");
        b->half[i] = half;
    }
    return LF_OK;
}

static void close_halves(struct batch *b) {
    for (uint32_t i = 0; i < HALVES; i++)
        if (b->move->cuda)
            lf_cuda_free(b->move->cuda, b->half[i]);
        else
            free(b->half[i]);
}

// A tensor that several pointers name is turned once.
static void turn_codes(const struct lf_weights_move *move, const struct pieces *p) {
    struct lf_device device = {.cuda = move->cuda};
    for (uint64_t i = 0; move->cuda && i < p->n; i++) {
        void *there;
        memcpy(&there, p->piece[i].place, sizeof there);
        if (p->piece[i].turns && !is_again(p, i))
            lf_linear_turn_cuda(&device, there, p->piece[i].bytes);
    }
}

// Most maps need not look for odd weights in each round: it is known from here on.
static enum lf_status find_regular(const struct lf_weights_move *move, const struct pieces *p,
                                   struct lf_error *err) {
    size_t bytes = p->n_matrices * sizeof(uint32_t);
    struct lf_device device = {.cuda = move->cuda};
    void *there = NULL;
    if (!move->cuda || !bytes)
        return LF_OK;
    uint32_t *is_odd = malloc(bytes);
    if (!is_odd)
        return lf_fail(err, LF_E_MEM, "out of memory for what is known of %llu matrices",
                       (unsigned long long)p->n_matrices);
    enum lf_status status = lf_cuda_alloc(move->cuda, &there, bytes, "odd weights", err);
    if (status == LF_OK) {
        lf_cuda_fill(move->cuda, there, 0, bytes);
        for (uint64_t i = 0; i < p->n_matrices; i++)
            lf_linear_look_cuda(&device, p->matrix[i], (uint32_t *)there + i);
        status = lf_cuda_download(move->cuda, is_odd, there, bytes, err);
    }
    for (uint64_t i = 0; status == LF_OK && i < p->n_matrices; i++)
        p->matrix[i]->is_regular = !is_odd[i];
    lf_cuda_free(move->cuda, there);
    free(is_odd);
    return status;
}

enum lf_status lf_weights_move(struct lf_weights_move *move, struct lf_weights *w,
                               struct lf_error *err) {
    struct pieces p = {.t = lf_checkpoint_topology(move->checkpoint)};
    struct batch batch = {.move = move, .start = lf_clock_s()};
    add_all(&p, w);
    p.piece = malloc(p.n * sizeof *p.piece);
    p.matrix = malloc((p.n_matrices + 1) * sizeof *p.matrix);
    if (!p.piece || !p.matrix) {
        free(p.piece);
        free(p.matrix);
        return lf_fail(err, LF_E_MEM, "out of memory for a list of %llu tensors",
                       (unsigned long long)p.n);
    }
    add_all(&p, w);
    qsort(p.piece, p.n, sizeof *p.piece, order);
    move->bytes = 0;
    for (uint64_t i = 0; i < p.n; i++)
        move->bytes += is_again(&p, i) ? 0 : taken(&p.piece[i]);
    move->block = lf_mem_alloc(move->memory, move->bytes);
    if (!move->block)
        lf_fail(err, LF_E_MEM, "no memory for weights of %.2f GB on the device",
                (double)move->bytes / GB);
    else if (open_halves(&batch, err) == LF_OK && send_all(&batch, &p, err) == LF_OK) {
        turn_codes(move, &p);
        (void)!find_regular(move, &p, err);
    }
    close_halves(&batch);
    free(p.piece);
    free(p.matrix);
    return err->status;
}
