#include "bench/round_report.h"

#include <stdio.h>

static json_t *counted(double value) {
    return value > 0 ? json_real(value) : json_null();
}

// What it would take if nothing but its bytes or its operations took time.
static double limit_s(const struct lf_device_limits *limits, double bytes, double operations) {
    double read_s = bytes / limits->read, products_s = operations / limits->peak;
    return read_s > products_s ? read_s : products_s;
}

static struct lf_kernel_time total(const struct lf_round *round) {
    struct lf_kernel_time sum = {0};
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++) {
        sum.calls += round->kernel[i].calls;
        sum.seconds += round->kernel[i].seconds;
        sum.operations += round->kernel[i].operations;
        sum.bytes += round->kernel[i].bytes;
    }
    return sum;
}

static json_t *kernels_of(const struct lf_round *round, const struct lf_device_limits *limits) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < LF_TIMED_KERNELS; i++) {
        const struct lf_kernel_time *k = &round->kernel[i];
        if (!k->calls)
            continue;
        double limit = limit_s(limits, k->bytes, k->operations);
        json_array_append_new(
            list, json_pack("{s:s,s:I,s:f,s:f,s:o,s:o,s:o,s:o}", "kernel", lf_timed_name(i),
                            "calls", (json_int_t)k->calls, "seconds", k->seconds, "share",
                            k->seconds / round->seconds, "operations", counted(k->operations),
                            "bytes", counted(k->bytes), "limit_s", counted(limit), "of_limit",
                            counted(k->seconds > 0 ? limit / k->seconds : 0)));
    }
    return list;
}

static const char *name_of(enum lf_round_phase phase) {
    static const char *const names[] = {"decode", "chunk", "middle-chunk"};
    return names[phase];
}

enum lf_status lf_round_report_open(struct lf_report *report, const struct lf_bench_options *o,
                                    const struct lf_round_bench *bench, struct lf_error *err) {
    const struct lf_device_limits *limits = &bench->limits;
    json_t *settings = json_pack(
        "{s:I,s:I,s:I,s:f,s:f,s:f,s:f}", "layers", (json_int_t)bench->m->t->layers, "reps",
        (json_int_t)o->reps, "context", (json_int_t)o->engine.context, "read_bytes_per_s",
        limits->read, "copy_bytes_per_s", limits->copy, "peak_operations_per_s", limits->peak,
        "mark_s", bench->marks.empty_s);
    return lf_report_open(report, "rounds", "rows", true, settings, o->output, err);
}

enum lf_status lf_round_report_row(struct lf_report *report, const struct lf_round_bench *bench,
                                   const struct lf_round *round, struct lf_error *err) {
    struct lf_kernel_time sum = total(round);
    double limit = limit_s(&bench->limits, sum.bytes, sum.operations);
    if (!round->fits)
        return lf_report_row(report, json_pack("{s:s,s:I,s:I,s:n}", "phase", name_of(round->phase),
                                               "tokens", (json_int_t)round->rows, "context",
                                               (json_int_t)round->context, "seconds"), err);
    return lf_report_row(
        report, json_pack("{s:s,s:I,s:I,s:f,s:f,s:f,s:I,s:I,s:f,s:f,s:f,s:f,s:o}", "phase",
                          name_of(round->phase), "tokens", (json_int_t)round->rows, "context",
                          (json_int_t)round->context, "seconds", round->seconds, "kernels_s",
                          sum.seconds, "gaps", 1 - sum.seconds / round->seconds, "launches",
                          (json_int_t)round->launches, "calls", (json_int_t)sum.calls, "bytes",
                          sum.bytes, "operations", sum.operations, "limit_s", limit, "of_limit",
                          limit / round->seconds, "kernels",
                          kernels_of(round, &bench->limits)), err);
}

enum lf_status lf_round_report_memory(struct lf_report *report,
                                      const struct lf_lanes_memory *memory,
                                      struct lf_error *err) {
    return lf_report_row(
        report, json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "phase", "memory", "lanes",
                          (json_int_t)memory->lanes, "context", (json_int_t)memory->positions,
                          "position_bytes", (json_int_t)memory->position_bytes, "plan_bytes",
                          (json_int_t)memory->planned, "held_bytes", (json_int_t)memory->held,
                          "fixed_bytes", (json_int_t)memory->fixed), err);
}

enum lf_status lf_round_report_end(struct lf_report *report, const struct lf_round_bench *bench,
                                   uint32_t rounds, struct lf_error *err) {
    const struct lf_device_limits *limits = &bench->limits;
    LF_TRY(lf_report_end(report, json_pack("{s:I,s:b}", "rounds", (json_int_t)rounds, "passed", 1),
                         err));
    printf("%u layers, %u kinds of rounds; the device reads %.0f GB/s, copies %.0f GB/s, "
           "multiplies %.0f Top/s\n", bench->m->t->layers, rounds, limits->read * 1e-9,
           limits->copy * 1e-9, limits->peak * 1e-12);
    return LF_OK;
}
