#include "contract/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN_MAX = 64 };

_Noreturn static void run(int out, uint32_t limit_s, lf_child_fn *work, void *ctx) {
    struct lf_outcome outcome = {0};
    struct rlimit none = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    alarm(limit_s);
    work(ctx, &outcome);
    ssize_t sent = write(out, &outcome, sizeof outcome);
    _exit(sent == (ssize_t)sizeof outcome ? 0 : 1);
}

enum lf_status lf_child_fork(struct lf_child *child, uint32_t limit_s, lf_child_fn *work, void *ctx,
                             struct lf_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return lf_fail_errno(err, LF_E_IO, "open a pipe to a child");
    // What is buffered would be printed by both.
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return lf_fail_errno(err, LF_E_IO, "start a child");
    }
    if (!pid) {
        close(ends[0]);
        run(ends[1], limit_s, work, ctx);
    }
    close(ends[1]);
    *child = (struct lf_child){.pid = pid, .pipe = ends[0]};
    return LF_OK;
}

uint32_t lf_child_next(const struct lf_child *child, uint32_t n) {
    struct pollfd wait[CHILDREN_MAX];
    LF_ASSERT(n <= CHILDREN_MAX);
    for (uint32_t i = 0; i < n; i++)
        wait[i] = (struct pollfd){.fd = child[i].pid ? child[i].pipe : -1, .events = POLLIN};
    while (poll(wait, n, -1) < 0)
        LF_ASSERT(errno == EINTR);
    for (uint32_t i = 0; i < n; i++)
        if (child[i].pid && wait[i].revents)
            return i;
    LF_ASSERT(!"a child ended");
    return 0;
}

enum lf_child_end lf_child_take(struct lf_child *child, struct lf_outcome *outcome) {
    int status = 0;
    ssize_t got;
    do
        got = read(child->pipe, outcome, sizeof *outcome);
    while (got < 0 && errno == EINTR);
    close(child->pipe);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    child->pid = 0;
    if (got == (ssize_t)sizeof *outcome)
        return LF_CHILD_DONE;
    *outcome = (struct lf_outcome){0};
    int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    bool hung = signal_number == SIGALRM;
    snprintf(outcome->text, sizeof outcome->text, "%s (signal %d: %s)",
             hung ? "it did not end in time" : "it crashed", signal_number,
             signal_number ? strsignal(signal_number) : "none");
    return hung ? LF_CHILD_HUNG : LF_CHILD_CRASHED;
}
