// Times products of ggml one call at a time, as the lines of standard input ask (tools/peers).
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

enum { MATRICES_MAX = 64, TILE_ROWS = 64, TENSORS_MAX = 4 * MATRICES_MAX };

struct set {
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *w[MATRICES_MAX];
    uint32_t in, out, n; // as asked for last
};

static const struct {
    const char *name;
    enum ggml_type type;
    bool repacked; // in the buffer that llama.cpp takes for weights where it can
} formats[] = {
    {"bf16", GGML_TYPE_BF16, false},
    {"q8_0", GGML_TYPE_Q8_0, false},
    {"mxfp4", GGML_TYPE_MXFP4, false},
    {"mxfp4_repacked", GGML_TYPE_MXFP4, true},
};

static void fail(const char *what) {
    fprintf(stderr, "ggml_linear: %s\n", what);
    exit(2);
}

static float normal(void) {
    static uint64_t state = 1;
    double sum = -6.0;
    for (int k = 0; k < 12; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(state >> 11) * 0x1p-53;
    }
    return (float)sum;
}

static ggml_backend_buffer_type_t buffer_type(ggml_backend_t backend, bool repacked) {
    if (!repacked)
        return ggml_backend_get_default_buffer_type(backend);
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *types = extra ? extra(device) : NULL;
    for (; types && *types; types++)
        if (!strcmp(ggml_backend_buft_name(*types), "CPU_REPACK"))
            return *types;
    fail("this build has no repacked weights");
    return NULL;
}

static struct ggml_context *context(void) {
    struct ggml_init_params params = {
        .mem_size = TENSORS_MAX * ggml_tensor_overhead() + ggml_graph_overhead(),
        .no_alloc = true,
    };
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx)
        fail("no memory");
    return ctx;
}

static void set_close(struct set *set) {
    if (!set->ctx)
        return;
    ggml_backend_buffer_free(set->buffer);
    ggml_free(set->ctx);
}

// Each matrix repeats one tile of normal numbers in the format's own rounding.
static void set_open(struct set *set, ggml_backend_t backend, enum ggml_type type, bool repacked) {
    if (set->n > MATRICES_MAX || set->out < TILE_ROWS)
        fail("a set of too many or too small matrices");
    set_close(set);
    set->ctx = context();
    for (uint32_t i = 0; i < set->n; i++)
        set->w[i] = ggml_new_tensor_2d(set->ctx, type, set->in, set->out);
    ggml_backend_buffer_type_t memory = buffer_type(backend, repacked);
    set->buffer = ggml_backend_alloc_ctx_tensors_from_buft(set->ctx, memory);
    size_t row = ggml_row_size(type, set->in);
    float *plain = malloc((size_t)TILE_ROWS * set->in * sizeof *plain);
    uint8_t *packed = malloc(row * set->out);
    if (!set->buffer || !plain || !packed)
        fail("no memory");
    for (size_t i = 0; i < (size_t)TILE_ROWS * set->in; i++)
        plain[i] = normal();
    ggml_quantize_chunk(type, plain, packed, 0, TILE_ROWS, set->in, NULL);
    for (uint32_t r = TILE_ROWS; r < set->out; r++)
        memcpy(packed + r * row, packed + (r % TILE_ROWS) * row, row);
    for (uint32_t i = 0; i < set->n; i++)
        ggml_backend_tensor_set(set->w[i], packed, 0, row * set->out);
    free(plain);
    free(packed);
}

static double seconds_since(const struct timespec *from, clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)(t.tv_sec - from->tv_sec) + 1e-9 * (double)(t.tv_nsec - from->tv_nsec);
}

// One graph of count products from matrix first on; wall and processor seconds of it alone.
static void run(const struct set *set, ggml_backend_t backend, uint32_t rows, uint32_t first,
                uint32_t count, double seconds[2]) {
    struct ggml_context *ctx = context();
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, set->in, rows);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    for (uint32_t i = 0; i < count; i++)
        ggml_build_forward_expand(graph, ggml_mul_mat(ctx, set->w[(first + i) % set->n], x));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (!buffer)
        fail("no memory");
    ggml_backend_buffer_clear(buffer, 0);
    float *values = ggml_get_data_f32(x);
    for (size_t i = 0; i < (size_t)rows * set->in; i++)
        values[i] = normal();
    struct timespec wall, cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    clock_gettime(CLOCK_MONOTONIC, &wall);
    enum ggml_status status = ggml_backend_graph_compute(backend, graph);
    seconds[0] = seconds_since(&wall, CLOCK_MONOTONIC);
    seconds[1] = seconds_since(&cpu, CLOCK_PROCESS_CPUTIME_ID);
    if (status != GGML_STATUS_SUCCESS)
        fail("a graph failed");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

static void open_named(struct set *set, ggml_backend_t backend, const char *name) {
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (!strcmp(name, formats[f].name)) {
            set_open(set, backend, formats[f].type, formats[f].repacked);
            return;
        }
    fail("a format that is not known");
}

int main(void) {
    ggml_backend_t backend = ggml_backend_cpu_init();
    struct set set = {0};
    char line[200], name[40];
    uint32_t rows, threads, first, count;
    while (fgets(line, sizeof line, stdin)) {
        double seconds[2] = {0};
        if (sscanf(line, "set %39s %u %u %u", name, &set.in, &set.out, &set.n) == 4) {
            open_named(&set, backend, name);
        } else if (sscanf(line, "run %u %u %u %u", &rows, &threads, &first, &count) == 4) {
            ggml_backend_cpu_set_n_threads(backend, (int)threads);
            run(&set, backend, rows, first, count, seconds);
        } else {
            fail("expected set FORMAT IN OUT N or run ROWS THREADS FIRST COUNT");
        }
        printf("%.9f %.9f\n", seconds[0], seconds[1]);
        fflush(stdout);
    }
    set_close(&set);
    return 0;
}
