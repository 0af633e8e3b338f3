#include "lane/room.h"

#include <inttypes.h>
#include "base/log.h"
#include "lane/budget.h"

// What a larger chunk must leave free, and for how long an answer with as much to spare holds.
#define SPARE_BYTES (INT64_C(1) << 29)
#define ANSWER_SECONDS 0.1

// What is free; wanted: how much would be enough.
static int64_t free_bytes(struct lf_engine *e, int64_t wanted) {
    struct lf_room *room = &e->room;
    double now = lf_engine_now(e);
    if (!e->machine.free_bytes)
        return INT64_MAX / 2;
    if (!room->asked || now - room->asked_at > ANSWER_SECONDS ||
        room->free_bytes < wanted + SPARE_BYTES) {
        room->free_bytes = e->machine.free_bytes(e->machine.free_ctx, wanted > 0 ? wanted : 0);
        room->asked_at = now;
        room->asked = true;
    }
    return room->free_bytes;
}

static uint32_t rows_of(const struct lf_engine *e, uint32_t halvings) {
    return e->info->chunk_rows_max >> halvings;
}

static int64_t bytes_of(const struct lf_engine *e, uint32_t halvings) {
    return (int64_t)e->target->ops->chunk_bytes(e->target, rows_of(e, halvings));
}

// How often the largest chunk can be halved: never below LF_CHUNK_ROWS_MIN.
static uint32_t halvings_max(const struct lf_engine *e) {
    uint32_t n = 0;
    while (rows_of(e, n + 1) >= LF_CHUNK_ROWS_MIN)
        n++;
    return n;
}

// Storage that live streams but one were promised and have not filled.
static int64_t owed(const struct lf_engine *e, const struct lf_stream *but) {
    const struct lf_target_ops *ops = e->target->ops;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        const struct lf_stream *s = e->slot[i];
        if (s && s != but && s->reserved > s->length)
            bytes += (int64_t)(ops->grow_bytes(e->target, s->reserved) -
                               ops->grow_bytes(e->target, s->length));
    }
    return bytes;
}

uint32_t lf_room_chunk_rows(struct lf_engine *e) {
    uint32_t now = e->room.halvings, most = halvings_max(e);
    if (!e->machine.free_bytes || !most)
        return e->info->chunk_rows_max;
    int64_t promised = owed(e, NULL), free = free_bytes(e, promised) - promised;
    // The workspace holds what chunks of the present size take: that much is there already.
    int64_t have = free + bytes_of(e, now);
    while (free < 0 && now < most && bytes_of(e, now) > have)
        now++;
    while (free > 0 && now > 0 && bytes_of(e, now - 1) + SPARE_BYTES <= have)
        now--;
    if (now > e->room.halvings)
        e->target->ops->chunk_trim(e->target, rows_of(e, now));
    if (now != e->room.halvings) {
        lf_log(LF_LOG_INFO, "memory: chunks of %u rows now, %" PRId64 " bytes are free",
               rows_of(e, now), free);
        e->room.halvings = now;
        e->room.asked = false;
    }
    return rows_of(e, now);
}

// What storage to positions of a stream, with all that is owed, lacks; own, promised: its parts.
static int64_t missing(struct lf_engine *e, const struct lf_stream *s, uint64_t positions,
                       int64_t *own, int64_t *promised, int64_t *spare) {
    const struct lf_target_ops *ops = e->target->ops;
    *own = (int64_t)(ops->grow_bytes(e->target, positions) -
                     ops->grow_bytes(e->target, s->length));
    // Of the workspace all but the smallest chunk's can be given back.
    *spare = bytes_of(e, e->room.halvings) - bytes_of(e, halvings_max(e));
    *promised = owed(e, s);
    int64_t wanted = *own + *promised - *spare;
    return wanted - free_bytes(e, wanted);
}

bool lf_room_can_be_made(struct lf_engine *e, const struct lf_stream *s, uint64_t positions) {
    int64_t own, promised, spare;
    return !e->machine.free_bytes || missing(e, s, positions, &own, &promised, &spare) <=
                                         (int64_t)e->target->ops->saved_total(e->target);
}

enum lf_status lf_room_check(struct lf_engine *e, const struct lf_stream *s, uint64_t positions,
                             struct lf_error *err) {
    int64_t own, promised, spare;
    if (!e->machine.free_bytes)
        return LF_OK;
    int64_t lacks = missing(e, s, positions, &own, &promised, &spare);
    if (lacks <= 0)
        return LF_OK;
    return lf_fail(err, LF_E_MEM, "%" PRId64 " bytes for %llu positions and %" PRId64 " that other "
                                  "requests were promised, but %" PRId64 " are free", own,
                   (unsigned long long)positions, promised, own + promised - lacks);
}
