#include "bench/layer_report.h"

#include <stdio.h>
#include "bench/report.h"

// Sums over the measured layers in their true numbers.
struct totals {
    uint32_t layers;
    double chunk_s, attention_s;       // attention and indexer
    double linear_operations, linear_room; // what linear did, what the peak would have done
    double decode_s, decode_bytes, decode_room; // room: what the read would have moved
};

// Machines that a decode speed is estimated for, in bytes a second.
static const double bandwidths[] = {200e9, 460e9, 900e9};

static json_t *counted(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static json_t *kernels_of(const struct lf_layer_sample *sample) {
    json_t *list = json_array();
    double host = sample->seconds;
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++) {
        const struct lf_kernel_time *k = &sample->kernel[i];
        host -= k->seconds;
        if (!k->calls)
            continue;
        json_array_append_new(
            list, json_pack("{s:s,s:I,s:f,s:f,s:o,s:o}", "kernel", lf_timed_name(i), "calls",
                            (json_int_t)k->calls, "seconds", k->seconds, "share",
                            k->seconds / sample->seconds, "operations",
                            counted(k->operations), "bytes", counted(k->bytes)));
    }
    json_array_append_new(list, json_pack("{s:s,s:n,s:f,s:f,s:n,s:n}", "kernel", "host", "calls",
                                          "seconds", host, "share", host / sample->seconds,
                                          "operations", "bytes"));
    return list;
}

static double bytes_of(const struct lf_layer_sample *sample) {
    double bytes = 0;
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++)
        bytes += sample->kernel[i].bytes;
    return bytes;
}

static double attention_of(const struct lf_layer_sample *sample) {
    const struct lf_kernel_time *k = sample->kernel;
    return k[LF_TIMED_attention].seconds + k[LF_TIMED_index_score].seconds +
           k[LF_TIMED_index_select].seconds;
}

static json_t *row_of(const struct lf_layer_part *part, const char *phase, uint32_t rows,
                      const struct lf_layer_sample *sample) {
    const struct lf_kernel_time *linear = &sample->kernel[LF_TIMED_linear];
    double of_peak = linear->operations / linear->seconds / sample->peak;
    double of_read = bytes_of(sample) / sample->seconds / sample->read;
    return json_pack("{s:s,s:I,s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "kind", part->name,
                     "layers", (json_int_t)part->layers, "phase", phase, "tokens",
                     (json_int_t)rows, "seconds", sample->seconds, "linear_of_peak", of_peak,
                     "attention_share", attention_of(sample) / sample->seconds, "bytes",
                     bytes_of(sample), "of_read", of_read, "read_bytes_per_s", sample->read,
                     "peak_operations_per_s", sample->peak, "kernels", kernels_of(sample));
}

static void add(struct totals *t, const struct lf_layer_part *part, bool head) {
    const struct lf_layer_sample *chunk = &part->chunk, *decode = &part->decode;
    double n = part->layers;
    t->decode_s += n * decode->seconds;
    t->decode_bytes += n * bytes_of(decode);
    t->decode_room += n * decode->seconds * decode->read;
    if (head)
        return;
    t->layers += part->layers;
    t->chunk_s += n * chunk->seconds;
    t->attention_s += n * attention_of(chunk);
    t->linear_operations += n * chunk->kernel[LF_TIMED_linear].operations;
    t->linear_room += n * chunk->kernel[LF_TIMED_linear].seconds * chunk->peak;
}

static enum lf_status add_rows(struct lf_report *report, const struct lf_bench_options *o,
                               const struct lf_layer_part *part, uint32_t n, struct totals *t,
                               struct lf_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        bool head = i + 1 == n;
        if (!part[i].measured)
            continue;
        if (!head)
            LF_TRY(lf_report_row(report, row_of(&part[i], "chunk", (uint32_t)o->rows,
                                                &part[i].chunk), err));
        LF_TRY(lf_report_row(report, row_of(&part[i], "decode", 1, &part[i].decode), err));
        add(t, &part[i], head);
    }
    return LF_OK;
}

static enum lf_status end(struct lf_report *report, const struct lf_bench_options *o,
                          const struct totals *t, struct lf_error *err) {
    double of_peak = t->linear_operations / t->linear_room, share = t->attention_s / t->chunk_s;
    double of_read = t->decode_bytes / t->decode_room;
    bool passed = !(o->min_linear >= 0 && !(of_peak >= o->min_linear)) &&
                  !(o->max_attention >= 0 && !(share <= o->max_attention));
    json_t *estimates = json_array();
    for (size_t i = 0; i < sizeof bandwidths / sizeof *bandwidths; i++)
        json_array_append_new(
            estimates, json_pack("{s:f,s:f}", "bandwidth", bandwidths[i], "decode_tps",
                                 bandwidths[i] * of_read / t->decode_bytes));
    json_t *verdict = json_pack(
        "{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:b}", "layers", (json_int_t)t->layers,
        "linear_of_peak", of_peak, "attention_share", share, "prompt_tps",
        (double)o->rows / t->chunk_s, "decode_tps", 1 / t->decode_s, "bytes", t->decode_bytes,
        "of_read", of_read, "estimates", estimates, "passed", passed);
    LF_TRY(lf_report_end(report, verdict, err));
    printf("%u layers: linear maps %.2f of the peak, attention and indexer %.3f of a chunk, %.1f "
           "prompt tokens/s; a token reads %.0f MB in %.1f ms, %.2f of the read: %.2f tokens/s\n",
           t->layers, of_peak, share, (double)o->rows / t->chunk_s, t->decode_bytes * 1e-6,
           t->decode_s * 1e3, of_read, 1 / t->decode_s);
    return passed ? LF_OK : lf_fail(err, LF_E_VALUE, "the run did not pass");
}

enum lf_status lf_layer_report(const struct lf_bench_options *o, const struct lf_layer_part *part,
                               uint32_t n, struct lf_error *err) {
    struct lf_report report;
    struct totals totals = {0};
    json_t *settings = json_pack(
        "{s:I,s:I,s:I,s:I,s:s,s:s,s:o,s:o}", "context", (json_int_t)o->engine.context,
        "chunk_rows", (json_int_t)o->rows, "threads", (json_int_t)o->engine.threads, "reps",
        (json_int_t)o->reps, "isa", o->engine.isa, "clock", o->wall ? "wall" : "processor",
        "min_linear", lf_report_limit(o->min_linear), "max_attention",
        lf_report_limit(o->max_attention));
    enum lf_status status = lf_report_open(&report, "layers", "rows", true, settings, o->output,
                                           err);
    if (status == LF_OK)
        status = add_rows(&report, o, part, n, &totals, err);
    if (status == LF_OK)
        return end(&report, o, &totals, err);
    lf_report_close(&report);
    return status;
}
