#include "http_client.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

int http_connect(const char *url) {
    const char *port = strrchr(url, ':');
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void http_send(int fd, const char *bytes, size_t len) {
    while (len) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

void http_request(int fd, const char *method, const char *path, const char *extra,
                  const char *body) {
    struct lf_buffer text = {0};
    lf_buffer_printf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method,
                     path, extra);
    if (body)
        lf_buffer_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                         strlen(body));
    lf_buffer_add_text(&text, "\r\n");
    lf_buffer_add_text(&text, body ? body : "");
    http_send(fd, text.data, text.len);
    lf_buffer_free(&text);
}

static void unchunk(struct lf_buffer *out, const char *at, const char *end) {
    while (at < end) {
        char *data;
        size_t len = strtoul(at, &data, 16);
        data += 2;
        if (!len || data + len > end)
            return;
        lf_buffer_add(out, data, len);
        at = data + len + 2;
    }
}

struct reply http_read(int fd) {
    struct reply reply = {0};
    struct lf_buffer all = {0};
    char block[4096], value[64];
    ssize_t n;
    while ((n = recv(fd, block, sizeof block, 0)) > 0)
        lf_buffer_add(&all, block, (size_t)n);
    char *split = all.data ? strstr(all.data, "\r\n\r\n") : NULL;
    if (!split) {
        lf_buffer_free(&all);
        return reply;
    }
    lf_buffer_add(&reply.head, all.data, (size_t)(split + 2 - all.data));
    if (!strncmp(all.data, "HTTP/1.1 ", 9))
        reply.status = (int)strtol(all.data + 9, NULL, 10);
    const char *body = split + 4, *end = all.data + all.len;
    if (http_header(&reply, "Transfer-Encoding", value, sizeof value))
        unchunk(&reply.body, body, end);
    else
        lf_buffer_add(&reply.body, body, (size_t)(end - body));
    lf_buffer_add(&reply.body, "", 0);
    lf_buffer_free(&all);
    return reply;
}

struct reply http_call(const char *url, const char *method, const char *path, const char *extra,
                       const char *body) {
    int fd = http_connect(url);
    http_request(fd, method, path, extra, body);
    struct reply reply = http_read(fd);
    close(fd);
    return reply;
}

bool http_header(const struct reply *reply, const char *name, char *out, size_t room) {
    size_t len = strlen(name);
    for (const char *line = reply->head.data; line && *line;) {
        const char *end = strstr(line, "\r\n");
        if (!strncasecmp(line, name, len) && line[len] == ':') {
            line += len + 1;
            line += *line == ' ';
            snprintf(out, room, "%.*s", (int)(end - line), line);
            return true;
        }
        line = end ? end + 2 : NULL;
    }
    return false;
}

void http_free(struct reply *reply) {
    lf_buffer_free(&reply->head);
    lf_buffer_free(&reply->body);
    *reply = (struct reply){0};
}

bool http_wait(int fd, int milliseconds) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, milliseconds) > 0;
}
