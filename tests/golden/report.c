#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/number.h"

void lf_report_check(struct lf_report *report, bool ok, const char *format, ...) {
    va_list args;
    printf("%s ", ok ? "ok " : "RED");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    report->checks++;
    report->red += !ok;
    if (ok || !report->expect_red)
        return;
    printf("turned red as expected, after %u checks\n", report->checks);
    fflush(stdout);
    exit(0);
}

int lf_report_end(const struct lf_report *report) {
    printf("%u checks, %u red\n", report->checks, report->red);
    return report->expect_red || report->red || !report->checks;
}

double lf_spacing_bf16(double magnitude) {
    int exponent = magnitude > 0x1p-126 ? ilogb(magnitude) : -126;
    return ldexp(1.0, exponent - 7);
}

static void add(struct lf_tally *t, bool equal, double difference, double limit) {
    double ratio = difference > 0.0 ? difference / limit : 0.0; // by zero: infinite
    if (isnan(difference))
        ratio = HUGE_VAL;
    t->n++;
    t->equal += equal;
    t->worst = fmax(t->worst, ratio);
}

void lf_tally_bf16(struct lf_tally *t, const uint16_t *got, const uint16_t *want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double a = (double)lf_bf16_to_f32(got[i]), b = (double)lf_bf16_to_f32(want[i]);
        add(t, a == b, fabs(a - b), lf_spacing_bf16(fmax(fabs(a), fabs(b))));
    }
}

void lf_tally_f32(struct lf_tally *t, const float *got, const float *want, size_t n) {
    double most = 0.0, reach = t->reach > 0.0 ? t->reach : 1.0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)want[i]));
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - (double)want[i]);
        add(t, difference <= t->slack * most, difference, reach * t->slack * most);
    }
}

void lf_tally_step(struct lf_tally *t, float got, float want, double step) {
    add(t, got == want, fabs((double)got - (double)want), step);
}

void lf_tally_ids(struct lf_tally *t, const uint32_t *got, const int32_t *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        add(t, (int64_t)got[i] == want[i], (int64_t)got[i] == want[i] ? 0.0 : 1.0, 0.0);
}

void lf_report_tally(struct lf_report *report, const char *prompt, const struct lf_tally *t) {
    if (!t->n)
        return;
    double share = (double)t->equal / (double)t->n;
    lf_report_check(report, share >= t->share && t->worst <= 1.0,
                    "%s %s: %zu of %zu equal, at least %.4f; the worst is %.3f of its bound",
                    prompt, t->stage, t->equal, t->n, t->share, t->worst);
}

double lf_distance_bf16(const uint16_t *got, const uint16_t *want, size_t n) {
    double difference = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)lf_bf16_to_f32(got[i]), b = (double)lf_bf16_to_f32(want[i]);
        difference += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(difference / size);
}
