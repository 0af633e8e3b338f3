// Times linear maps one call at a time, as the lines of standard input ask (tools/peers).
#include <stdio.h>
#include <time.h>
#include "linear_set.h"

enum {
    MATRICES_MAX = 64,
    THREADS_MAX = 2,
    SET_BYTES = 512 << 20,
};

struct calls {
    struct lf_kernels k;
    struct lf_device device[THREADS_MAX];
    struct lf_matrix w[MATRICES_MAX];
    uint32_t n;
    struct linear_set set;
};

static bool set(struct calls *c, const char *name, uint32_t in, uint32_t out, uint32_t n) {
    struct lf_matrix m = {.in = in, .out = out};
    if (!linear_set_format(&m.format, name) || in % 32 || in > LINEAR_SET_IN ||
        out > LINEAR_SET_OUT || !n || n > MATRICES_MAX ||
        lf_matrix_row_bytes(&m) * out > SET_BYTES / n)
        return false;
    c->n = n;
    linear_set_maps(&c->set, m, c->w, n);
    return true;
}

static double seconds_since(const struct timespec *from, clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)(t.tv_sec - from->tv_sec) + 1e-9 * (double)(t.tv_nsec - from->tv_nsec);
}

// Wall and processor seconds of one launch.
static bool run(struct calls *c, const uint32_t ask[4], double seconds[2]) {
    static struct lf_linear_job job[MATRICES_MAX];
    uint32_t rows = ask[0], threads = ask[1], first = ask[2], count = ask[3];
    if (!c->n || rows > LINEAR_SET_ROWS || !threads || threads > THREADS_MAX || count > c->n)
        return false;
    for (uint32_t i = 0; i < count; i++)
        job[i] = linear_set_job(&c->set, &c->w[(first + i) % c->n], rows);
    struct lf_linear_args args = {.n_jobs = count, .job = job};
    struct timespec wall, cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    clock_gettime(CLOCK_MONOTONIC, &wall);
    c->k.linear(&c->device[threads - 1], &args);
    seconds[0] = seconds_since(&wall, CLOCK_MONOTONIC);
    seconds[1] = seconds_since(&cpu, CLOCK_PROCESS_CPUTIME_ID);
    return true;
}

static bool open_calls(struct calls *c) {
    struct lf_error err = LF_ERROR_INIT;
    enum lf_status status = lf_kernels_init(&c->k, LF_ISA_AUTO, &err);
    for (uint32_t t = 0; status == LF_OK && t < THREADS_MAX; t++)
        status = lf_pool_open(&c->device[t].pool, t + 1, LF_LINEAR_SCRATCH_BYTES, &err);
    if (status != LF_OK)
        fprintf(stderr, "linear_calls: %s\n", err.text);
    return status == LF_OK &&
           linear_set_open(&c->set, SET_BYTES, &c->k, &c->device[THREADS_MAX - 1]);
}

int main(void) {
    static struct calls c;
    char line[200], name[40];
    uint32_t in, out, n, ask[4];
    bool good = open_calls(&c);
    while (good && fgets(line, sizeof line, stdin)) {
        double seconds[2] = {0};
        if (sscanf(line, "set %39s %u %u %u", name, &in, &out, &n) == 4)
            good = set(&c, name, in, out, n);
        else
            good = sscanf(line, "run %u %u %u %u", &ask[0], &ask[1], &ask[2], &ask[3]) == 4 &&
                   run(&c, ask, seconds);
        if (good)
            printf("%.9f %.9f\n", seconds[0], seconds[1]);
        else
            fprintf(stderr, "linear_calls: expected set FORMAT IN OUT N or run ROWS THREADS FIRST "
                            "COUNT within the limits, not %s", line);
        fflush(stdout);
    }
    for (uint32_t t = 0; t < THREADS_MAX; t++)
        lf_pool_close(c.device[t].pool);
    return good ? 0 : 2;
}
