#include "cli/flags.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *lf_environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

bool lf_flag_given(const struct lf_flag *flags, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(flags[i].name, name))
            return flags[i].given;
    return false;
}

static bool takes_value(const struct lf_flag *flag) {
    return flag->kind != LF_FLAG_ON && flag->kind != LF_FLAG_OFF;
}

static struct lf_flag *find(struct lf_flag *flags, size_t n, const char *name, size_t len) {
    for (size_t i = 0; i < n; i++)
        if (strlen(flags[i].name) == len && !strncmp(flags[i].name, name, len))
            return &flags[i];
    return NULL;
}

static enum lf_status set_number(struct lf_flag *flag, const char *value, struct lf_error *err) {
    char *end;
    bool whole = flag->kind == LF_FLAG_COUNT;
    if (whole && flag->choices && !strcmp(value, flag->choices)) {
        *(uint64_t *)flag->out = LF_FLAG_WORD;
        return LF_OK;
    }
    errno = 0;
    double x = strtod(value, &end);
    // Hexadecimal, signs on counts and trailing text are refused, not guessed at.
    bool digits = *value && strspn(value, whole ? "0123456789" : "0123456789.+-eE") ==
                                strlen(value);
    if (!digits || *end || errno || !isfinite(x) || x < flag->min || x > flag->max)
        return lf_fail(err, LF_E_USAGE, "--%s %s: expected %s%sa %snumber from %.17g to %.17g",
                       flag->name, value, flag->choices ? flag->choices : "",
                       flag->choices ? " or " : "", whole ? "whole " : "", flag->min, flag->max);
    if (whole)
        *(uint64_t *)flag->out = strtoull(value, NULL, 10);
    else
        *(double *)flag->out = x;
    return errno ? lf_fail(err, LF_E_USAGE, "--%s %s: too large", flag->name, value) : LF_OK;
}

static bool is_choice(const char *choices, const char *value) {
    size_t len = strlen(value);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, value, len) && (at[len] == '|' || !at[len]))
            return true;
    }
    return false;
}

static enum lf_status set_value(struct lf_flag *flag, const char *value, struct lf_error *err) {
    struct lf_flag_list *list = flag->out;
    flag->given = true;
    switch (flag->kind) {
    case LF_FLAG_COUNT:
    case LF_FLAG_REAL:
        return set_number(flag, value, err);
    case LF_FLAG_TEXT:
        if (flag->choices && !is_choice(flag->choices, value))
            return lf_fail(err, LF_E_USAGE, "--%s %s: expected one of %s", flag->name, value,
                           flag->choices);
        *(const char **)flag->out = value;
        return LF_OK;
    case LF_FLAG_LIST:
        if (list->n == LF_FLAG_LIST_MAX)
            return lf_fail(err, LF_E_USAGE, "--%s: at most %d of them", flag->name,
                           LF_FLAG_LIST_MAX);
        list->value[list->n++] = value;
        return LF_OK;
    case LF_FLAG_ON:
    case LF_FLAG_OFF:
        *(bool *)flag->out = flag->kind == LF_FLAG_ON;
        return LF_OK;
    }
    return LF_OK;
}

// Reads the option at argv[*at] and moves *at past its value.
static enum lf_status read_option(struct lf_flag *flags, size_t n, int argc, char **argv, int *at,
                                  struct lf_error *err) {
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    struct lf_flag *flag = find(flags, n, name, len);
    if (!flag)
        return lf_fail(err, LF_E_USAGE, "--%.*s: unknown option (--help lists them)", (int)len,
                       name);
    if (!takes_value(flag) && equals)
        return lf_fail(err, LF_E_USAGE, "--%s takes no value", flag->name);
    if (!takes_value(flag))
        return set_value(flag, "", err);
    if (!equals && *at + 1 >= argc)
        return lf_fail(err, LF_E_USAGE, "--%s: a value is missing", flag->name);
    return set_value(flag, equals ? equals + 1 : argv[++*at], err);
}

enum lf_status lf_flags_parse(struct lf_flag *flags, size_t n, int argc, char **argv,
                              struct lf_positionals *positionals, size_t positionals_max,
                              struct lf_error *err) {
    *positionals = (struct lf_positionals){0};
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--", 2)) {
            LF_TRY(read_option(flags, n, argc, argv, &i, err));
        } else if (!strcmp(argv[i], "-p") && find(flags, n, "prompt", 6)) {
            if (i + 1 >= argc)
                return lf_fail(err, LF_E_USAGE, "-p: a text is missing");
            LF_TRY(set_value(find(flags, n, "prompt", 6), argv[++i], err));
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return lf_fail(err, LF_E_USAGE, "%s: unknown option (--help lists them)", argv[i]);
        } else if (positionals->n == positionals_max) {
            return lf_fail(err, LF_E_USAGE, "%s: one argument too many", argv[i]);
        } else {
            positionals->value[positionals->n++] = argv[i];
        }
    }
    return LF_OK;
}

void lf_flags_print(const char *usage, const char *what, const struct lf_flag *flags, size_t n) {
    printf("usage: lanefold %s\n\n%s\n", usage, what);
    if (n)
        puts("\noptions:");
    for (size_t i = 0; i < n; i++) {
        const struct lf_flag *f = &flags[i];
        char left[64], range[64] = "";
        const char *value = f->kind == LF_FLAG_COUNT ? "N" : f->choices ? f->choices : "X";
        if (f->kind == LF_FLAG_TEXT && !f->choices)
            value = "TEXT";
        if (f->kind == LF_FLAG_LIST)
            value = "TEXT (repeatable)";
        snprintf(left, sizeof left, "--%s %s", f->name, takes_value(f) ? value : "");
        if (f->kind == LF_FLAG_COUNT || f->kind == LF_FLAG_REAL)
            snprintf(range, sizeof range, " (%.15g to %.15g)", f->min, f->max);
        printf("  %-34s %s%s\n", left, f->help, range);
    }
}
