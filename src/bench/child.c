#include "bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "bench/client.h"

enum { STOP_S_MAX = 60, POLL_MS = 5 };

static void pause_ms(long ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

// Takes the first address that the server prints.
static void find_url(struct lf_child *child, char *line) {
    char *url = strstr(line, "http://");
    if (!url)
        return;
    url[strcspn(url, " \t\r\"'<>")] = 0;
    pthread_mutex_lock(&child->lock);
    if (!*child->url)
        snprintf(child->url, sizeof child->url, "%s", url);
    pthread_mutex_unlock(&child->lock);
}

static void *read_output(void *of) {
    struct lf_child *child = of;
    char line[1024], bytes[4096];
    size_t len = 0;
    ssize_t got;
    while ((got = read(child->out, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n' && len + 1 < sizeof line) {
                line[len++] = bytes[i];
                continue;
            }
            line[len] = 0;
            find_url(child, line);
            len = 0;
        }
    return NULL;
}

static enum lf_status launch(struct lf_child *child, const char *line, struct lf_error *err) {
    int out[2];
    if (pipe2(out, O_CLOEXEC))
        return lf_fail_errno(err, LF_E_IO, "open a pipe to the server");
    pid_t pid = fork();
    if (pid < 0) {
        close(out[0]);
        close(out[1]);
        return lf_fail_errno(err, LF_E_IO, "start the server");
    }
    if (!pid) {
        // A group of its own, which ends with this program whatever happens.
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        abort();
    }
    setpgid(pid, pid);
    close(out[1]);
    child->pid = pid;
    child->out = out[0];
    if (pthread_create(&child->reader, NULL, read_output, child)) {
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(out[0]);
        child->pid = 0;
        return lf_fail(err, LF_E_MEM, "a thread for the server's output did not start");
    }
    return LF_OK;
}

static bool is_up(struct lf_child *child) {
    struct lf_buffer body = {0};
    long status = 0;
    struct lf_error err = LF_ERROR_INIT;
    pthread_mutex_lock(&child->lock);
    bool known = *child->url && lf_client_base(&child->server, child->url, &err) == LF_OK;
    pthread_mutex_unlock(&child->lock);
    if (known)
        lf_client_get(&child->server, "/health", &body, &status);
    lf_buffer_free(&body);
    return status == 200;
}

static enum lf_status find_model(struct lf_child *child, struct lf_error *err) {
    struct lf_buffer body = {0};
    long status;
    lf_client_get(&child->server, "/v1/models", &body, &status);
    json_t *list = json_loadb(body.data ? body.data : "", body.len, 0, NULL);
    const json_t *first = json_array_get(json_object_get(list, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    if (status != 200 || !id || strlen(id) >= sizeof child->model)
        lf_fail(err, LF_E_FORMAT, "the server's /v1/models names no model");
    else
        snprintf(child->model, sizeof child->model, "%s", id);
    child->server.model = child->model;
    json_decref(list);
    lf_buffer_free(&body);
    return err->status;
}

static void reap(struct lf_child *child) {
    // Whatever it left behind would hold the pipe open.
    kill(-child->pid, SIGKILL);
    pthread_join(child->reader, NULL);
    close(child->out);
    pthread_mutex_destroy(&child->lock);
    child->pid = 0;
}

enum lf_status lf_child_start(struct lf_child *child, const char *command, const char *more,
                              const char *key, double start_s, struct lf_error *err) {
    struct lf_buffer line = {0};
    *child = (struct lf_child){.lock = PTHREAD_MUTEX_INITIALIZER, .server = {.key = key}};
    lf_buffer_printf(&line, "exec %s %s", command, more);
    if (line.failed)
        lf_fail(err, LF_E_MEM, "out of memory for the server's command");
    else
        (void)!launch(child, line.data, err);
    lf_buffer_free(&line);
    LF_TRY(err->status);
    double end = lf_clock_s() + start_s;
    while (!is_up(child)) {
        int status;
        if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
            reap(child);
            return lf_fail(err, LF_E_IO, "the server ended before it was ready (%s %d)",
                           WIFEXITED(status) ? "exit" : "signal",
                           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
        if (lf_clock_s() > end) {
            struct lf_error ignored = LF_ERROR_INIT;
            (void)!lf_child_stop(child, &ignored);
            return lf_fail(err, LF_E_IO, "the server was not ready after %g s", start_s);
        }
        pause_ms(POLL_MS);
    }
    if (find_model(child, err) != LF_OK) {
        struct lf_error ignored = LF_ERROR_INIT;
        (void)!lf_child_stop(child, &ignored);
    }
    return err->status;
}

enum lf_status lf_child_stop(struct lf_child *child, struct lf_error *err) {
    double end = lf_clock_s() + STOP_S_MAX;
    if (!child->pid)
        return LF_OK;
    kill(-child->pid, SIGTERM);
    while (waitpid(child->pid, NULL, WNOHANG) == 0) {
        if (lf_clock_s() > end) {
            kill(-child->pid, SIGKILL);
            waitpid(child->pid, NULL, 0);
            reap(child);
            return lf_fail(err, LF_E_IO, "the server did not stop within %d s", STOP_S_MAX);
        }
        pause_ms(POLL_MS);
    }
    reap(child);
    return LF_OK;
}
