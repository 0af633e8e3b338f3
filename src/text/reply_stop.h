// Stop strings over a stream of text: finds the first one complete, holds back what may become one.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

struct lf_stop_string {
    char *text;
    size_t len, matched; // matched: characters of text that end the stream so far
    uint32_t *border;    // border[k]: the longest proper prefix that ends text[0 .. k]
};

struct lf_stops {
    struct lf_stop_string *string;
    size_t n;
    struct lf_buffer held;
    bool include; // the match itself is let through
};

// Copies the strings; empty ones never match. False when memory ran out.
bool lf_stops_open(struct lf_stops *stops, const char *const *text, size_t n, bool include);
void lf_stops_free(struct lf_stops *stops);
// Appends to out what no longer can be part of a match. Gives the string that was found, or -1.
int lf_stops_feed(struct lf_stops *stops, const char *text, size_t len, struct lf_buffer *out);
// Lets everything held through and begins anew.
void lf_stops_flush(struct lf_stops *stops, struct lf_buffer *out);
