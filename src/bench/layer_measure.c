#include "bench/layer_measure.h"

#include <math.h>
#include <stdlib.h>
#include "bench/made_up_state.h"
#include "bench/probe.h"
#include "bench/stats.h"

enum { PROBE_BYTES = 128 << 20, PROBES = 9, TOKENS = 5 };

struct bench {
    const struct lf_layer_measure *measure;
    struct lf_probe probe;
    uint32_t reps;
    struct lf_layer_sample *sample; // [reps][n + 1]
    uint32_t *ids;                  // [chunk rows]
};

static double now(const struct bench *b) {
    return lf_probe_seconds(b->measure->o->wall, b->measure->m->device.pool);
}

// Medians: a thread that was not there for a moment makes single ones worthless.
static void probe(struct bench *b, double *read, double *peak) {
    struct lf_pool *pool = b->measure->m->device.pool;
    double reads[PROBES], peaks[PROBES];
    for (int i = 0; i < PROBES; i++) {
        double began = now(b), bytes = (double)lf_probe_read(pool, &b->probe), between = now(b);
        double operations = lf_probe_peak(pool, &b->probe);
        reads[i] = bytes / (between - began);
        peaks[i] = operations / (now(b) - between);
    }
    *read = lf_stats_median(reads, PROBES);
    *peak = lf_stats_median(peaks, PROBES);
}

static void copy_times(struct lf_layer_sample *sample, const struct lf_kernel_times *times) {
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++)
        sample->kernel[i] = times->kernel[i];
}

// Rows up to the context's end through the layers; the head only behind a single row.
static void pass(struct bench *b, uint32_t rows, uint32_t seed, struct lf_layer_sample *sample) {
    const struct lf_layer_measure *measure = b->measure;
    struct lf_v41 *m = measure->m;
    struct lf_kernel_times times = {.wall = measure->o->wall, .pool = m->device.pool}, ends = times;
    double read, peak, began;
    probe(b, &read, &peak);
    for (uint32_t i = 0; i < rows; i++)
        b->ids[i] = (seed + i) * 2654435761u % m->t->vocab;
    lf_batch_begin(m);
    lf_batch_add(m, 0, measure->o->engine.context - rows, b->ids, rows, NULL, 0);
    lf_batch_end(m);
    lf_kernel_times_begin(&ends, &m->k);
    began = now(b);
    lf_stream_start(m);
    double start_s = now(b) - began;
    lf_kernel_times_end(&ends);
    for (uint32_t i = 0; i < measure->n; i++) {
        lf_kernel_times_begin(&times, &m->k);
        began = now(b);
        lf_forward_layer(m, &m->weights.layer[measure->layer[i]]);
        sample[i] = (struct lf_layer_sample){now(b) - began, read, peak, {{0}}};
        lf_kernel_times_end(&times);
        copy_times(&sample[i], &times);
    }
    struct lf_layer_sample *last = &sample[measure->n];
    *last = (struct lf_layer_sample){start_s, read, peak, {{0}}};
    if (rows == 1) {
        lf_kernel_times_begin(&times, &m->k);
        began = now(b);
        lf_head(m);
        last->seconds += now(b) - began;
        lf_kernel_times_end(&times);
        copy_times(last, &times);
        last->kernel[LF_TIMED_embed] = ends.kernel[LF_TIMED_embed];
    }
}

// The pass of median time of each layer; of an even number one of the two in the middle.
static enum lf_status medians(struct bench *b, uint32_t rows, uint32_t reps, uint32_t parts,
                              struct lf_layer_sample *out, struct lf_error *err) {
    uint32_t stride = b->measure->n + 1;
    double *seconds = malloc(reps * sizeof *seconds);
    if (!seconds)
        return lf_fail(err, LF_E_MEM, "out of memory for the samples");
    for (uint32_t r = 0; r < reps; r++)
        pass(b, rows, r * rows, b->sample + (size_t)r * stride);
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t nearest = 0;
        for (uint32_t r = 0; r < reps; r++)
            seconds[r] = b->sample[(size_t)r * stride + i].seconds;
        double median = lf_stats_median(seconds, reps);
        for (uint32_t r = 1; r < reps; r++)
            if (fabs(seconds[r] - median) < fabs(seconds[nearest] - median))
                nearest = r;
        out[i] = b->sample[(size_t)nearest * stride + i];
    }
    free(seconds);
    return LF_OK;
}

enum lf_status lf_layer_measure_run(const struct lf_layer_measure *measure, struct lf_error *err) {
    const struct lf_bench_options *o = measure->o;
    struct bench b = {.measure = measure};
    uint32_t rows = (uint32_t)o->rows, reps = (uint32_t)o->reps, tokens = reps * TOKENS;
    uint8_t *data = aligned_alloc(4096, PROBE_BYTES);
    b.probe = (struct lf_probe){.data = data, .bytes = PROBE_BYTES};
    b.sample = calloc((size_t)tokens * (measure->n + 1), sizeof *b.sample);
    b.ids = calloc(rows, sizeof *b.ids);
    if (!data || !b.sample || !b.ids)
        lf_fail(err, LF_E_MEM, "out of memory for a measurement");
    // Pages that nobody wrote are one page of zeros, which caches hold.
    for (size_t i = 0; data && i < PROBE_BYTES; i++)
        data[i] = (uint8_t)i;
    if (err->status == LF_OK &&
        lf_state_make_up(measure->m, o->engine.context, 1, err) == LF_OK &&
        medians(&b, rows, reps, measure->n, measure->chunk, err) == LF_OK)
        (void)!medians(&b, 1, tokens, measure->n + 1, measure->decode, err);
    free(data);
    free(b.sample);
    free(b.ids);
    return err->status;
}
