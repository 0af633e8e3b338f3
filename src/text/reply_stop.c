#include "text/reply_stop.h"

#include <stdlib.h>
#include <string.h>

static size_t advance(const struct lf_stop_string *s, size_t matched, char c) {
    while (matched && s->text[matched] != c)
        matched = s->border[matched - 1];
    return s->text[matched] == c ? matched + 1 : 0;
}

static bool string_open(struct lf_stop_string *s, const char *text) {
    s->len = strlen(text);
    s->text = malloc(s->len + 1);
    s->border = calloc(s->len + 1, sizeof *s->border);
    if (!s->text || !s->border || s->len > UINT32_MAX)
        return false;
    memcpy(s->text, text, s->len + 1);
    for (size_t i = 1; i < s->len; i++)
        s->border[i] = (uint32_t)advance(s, s->border[i - 1], s->text[i]);
    return true;
}

bool lf_stops_open(struct lf_stops *stops, const char *const *text, size_t n, bool include) {
    *stops = (struct lf_stops){.include = include};
    stops->string = calloc(n + 1, sizeof *stops->string);
    if (!stops->string)
        return false;
    for (size_t i = 0; i < n; i++) {
        stops->n++;
        if (!string_open(&stops->string[i], text[i]))
            return false;
    }
    return true;
}

void lf_stops_free(struct lf_stops *stops) {
    for (size_t i = 0; i < stops->n; i++) {
        free(stops->string[i].text);
        free(stops->string[i].border);
    }
    free(stops->string);
    lf_buffer_free(&stops->held);
    *stops = (struct lf_stops){0};
}

// Of strings that end at the same character the longest one counts: it began first.
static int step(struct lf_stops *stops, char c) {
    int found = -1;
    for (size_t i = 0; i < stops->n; i++) {
        struct lf_stop_string *s = &stops->string[i];
        if (!s->len)
            continue;
        s->matched = advance(s, s->matched, c);
        if (s->matched == s->len && (found < 0 || s->len > stops->string[found].len))
            found = (int)i;
        // The text ends with a NUL, so a finished match must fall back before the next character.
        if (s->matched == s->len)
            s->matched = s->border[s->len - 1];
    }
    return found;
}

int lf_stops_feed(struct lf_stops *stops, const char *text, size_t len, struct lf_buffer *out) {
    struct lf_buffer *held = &stops->held;
    size_t longest = 0;
    for (size_t i = 0; i < len; i++) {
        lf_buffer_add(held, &text[i], 1);
        int found = step(stops, text[i]);
        if (found < 0)
            continue;
        size_t cut = stops->include ? 0 : stops->string[found].len;
        lf_buffer_add(out, held->data, held->len > cut ? held->len - cut : 0);
        out->failed |= held->failed;
        lf_buffer_clear(held);
        return found;
    }
    for (size_t i = 0; i < stops->n; i++)
        if (stops->string[i].matched > longest)
            longest = stops->string[i].matched;
    size_t free_len = held->len > longest ? held->len - longest : 0;
    if (!free_len)
        return -1;
    lf_buffer_add(out, held->data, free_len);
    memmove(held->data, held->data + free_len, held->len - free_len + 1);
    held->len -= free_len;
    return -1;
}

void lf_stops_flush(struct lf_stops *stops, struct lf_buffer *out) {
    lf_buffer_add(out, stops->held.data, stops->held.len);
    out->failed |= stops->held.failed;
    lf_buffer_clear(&stops->held);
    for (size_t i = 0; i < stops->n; i++)
        stops->string[i].matched = 0;
}
