// A report: JSON whose fields are allow-listed, a line a row on standard output, and its file.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct lf_report {
    json_t *root, *rows;
    const char *path; // NULL: standard output only
    bool publishable; // text values may only be names and hashes
};

// Null stands for what is unknown: negative counts, NAN and empty texts.
json_t *lf_report_count(int64_t value);
json_t *lf_report_number(double value);
json_t *lf_report_limit(double value); // a negative limit is none
json_t *lf_report_text(const char *text);

// Takes the settings object; rows is the name of the list.
LF_CHECKED enum lf_status lf_report_open(struct lf_report *report, const char *tool,
                                         const char *rows, bool publishable, json_t *settings,
                                         const char *path, struct lf_error *err);
// Takes the row, checks it and prints it.
LF_CHECKED enum lf_status lf_report_row(struct lf_report *report, json_t *row,
                                        struct lf_error *err);
// Takes the verdict and writes the file; the report is closed also when that fails.
LF_CHECKED enum lf_status lf_report_end(struct lf_report *report, json_t *verdict,
                                        struct lf_error *err);
void lf_report_close(struct lf_report *report);
