// A small blocking HTTP client for the server's tests: one connection, bytes in, bytes out.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"

struct reply {
    int status;
    struct lf_buffer head; // status line and headers
    struct lf_buffer body; // unchunked
};

// Connects to http://host:port.
int http_connect(const char *url);
void http_send(int fd, const char *bytes, size_t len);
// Sends a request with Connection: close and the length of its body; extra: more header lines.
void http_request(int fd, const char *method, const char *path, const char *extra,
                  const char *body);
// Reads to the end of the connection.
struct reply http_read(int fd);
// connect, request, read, close.
struct reply http_call(const char *url, const char *method, const char *path, const char *extra,
                       const char *body);
// A header's value into out; false when it is not there.
bool http_header(const struct reply *reply, const char *name, char *out, size_t room);
void http_free(struct reply *reply);
// Waits until bytes are there; false after milliseconds.
bool http_wait(int fd, int milliseconds);
