#include "text/json_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lf_json_print_escaped(struct lf_buffer *out, const char *text, size_t len) {
    static const char hex[] = "0123456789abcdef";
    size_t done = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        lf_buffer_add(out, text + done, i - done);
        done = i + 1;
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        static const char codes[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
        const char *code = c ? strchr(codes, c) : NULL;
        if (code)
            escape[1] = names[code - codes];
        lf_buffer_add(out, escape, code ? 2 : 6);
    }
    lf_buffer_add(out, text + done, len - done);
}

void lf_json_print_string(struct lf_buffer *out, const char *text, size_t len) {
    lf_buffer_add(out, "\"", 1);
    lf_json_print_escaped(out, text, len);
    lf_buffer_add(out, "\"", 1);
}

struct decimal {
    char digit[20]; // NUL-terminated, first one not 0
    int exponent;   // of the first digit
};

static bool reads_back(const struct decimal *d, double value) {
    char text[40];
    snprintf(text, sizeof text, "%c.%se%d", d->digit[0], d->digit + 1, d->exponent);
    return strtod(text, NULL) == value;
}

static void round_up(struct decimal *d) {
    size_t i = strlen(d->digit);
    while (i && d->digit[i - 1] == '9')
        d->digit[--i] = '0';
    if (i) {
        d->digit[i - 1]++;
    } else {
        d->digit[0] = '1';
        d->exponent++;
    }
}

// The fewest digits that read back as value (finite, above 0).
static struct decimal shortest(double value) {
    struct decimal d = {.digit = ""};
    // Above the subnormals every decimal of up to 15 digits is found by rounding to 15.
    for (int n = value >= DBL_MIN ? 15 : 1; n <= 17; n++) {
        char text[40];
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        d.digit[0] = text[0];
        memcpy(d.digit + 1, text + 2, (size_t)(n - 1));
        d.digit[n] = 0;
        d.exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
        if (reads_back(&d, value))
            break;
        // At a power of two the gap above is wider, so the next decimal up can be right.
        struct decimal up = d;
        round_up(&up);
        if (reads_back(&up, value)) {
            d = up;
            break;
        }
    }
    for (size_t len = strlen(d.digit); len > 1 && d.digit[len - 1] == '0';)
        d.digit[--len] = 0;
    return d;
}

static void print_double(struct lf_buffer *out, double value) {
    if (signbit(value))
        lf_buffer_add(out, "-", 1);
    value = fabs(value);
    if (isinf(value)) {
        lf_buffer_add_text(out, "Infinity");
        return;
    }
    if (value == 0) {
        lf_buffer_add_text(out, "0.0");
        return;
    }
    struct decimal d = shortest(value);
    int len = (int)strlen(d.digit);
    if (d.exponent < -4 || d.exponent >= 16) {
        lf_buffer_add(out, d.digit, 1);
        if (len > 1)
            lf_buffer_printf(out, ".%s", d.digit + 1);
        lf_buffer_printf(out, "e%c%02d", d.exponent < 0 ? '-' : '+', abs(d.exponent));
    } else if (d.exponent < 0) {
        lf_buffer_printf(out, "0.%.*s%s", -d.exponent - 1, "000", d.digit);
    } else if (len <= d.exponent + 1) {
        lf_buffer_printf(out, "%s%.*s.0", d.digit, d.exponent + 1 - len, "0000000000000000");
    } else {
        lf_buffer_printf(out, "%.*s.%s", d.exponent + 1, d.digit, d.digit + d.exponent + 1);
    }
}

static void print_number(struct lf_buffer *out, const char *text, size_t len) {
    struct lf_buffer copy = {0};
    lf_buffer_add(&copy, text, len);
    if (copy.failed)
        out->failed = true;
    else if (strpbrk(copy.data, ".eE"))
        print_double(out, strtod(copy.data, NULL));
    else if (!strcmp(copy.data, "-0"))
        lf_buffer_add(out, "0", 1);
    else
        lf_buffer_add(out, text, len);
    lf_buffer_free(&copy);
}

// A member as it stands in the output so far.
struct member {
    size_t key, key_len, value, value_len;
    size_t order;
    bool dropped;
};

struct frame {
    size_t start, first_member;
    bool object, in_value, filled;
};

struct printer {
    struct lf_buffer *out, scratch;
    struct member *member;
    size_t n_members, cap_members;
    struct frame frame[LF_JSON_DEPTH_MAX];
    size_t depth;
};

static void print_string(struct printer *p, struct lf_json_span value) {
    lf_buffer_clear(&p->scratch);
    lf_json_string(&p->scratch, value);
    p->out->failed |= p->scratch.failed;
    lf_json_print_string(p->out, p->scratch.len ? p->scratch.data : "", p->scratch.len);
}

static void member_open(struct printer *p, struct lf_json_span key) {
    if (p->n_members == p->cap_members) {
        size_t cap = p->cap_members ? p->cap_members * 2 : 64;
        struct member *grown = realloc(p->member, cap * sizeof *grown);
        if (!grown) {
            p->out->failed = true;
            return;
        }
        p->member = grown;
        p->cap_members = cap;
    }
    size_t start = p->out->len;
    print_string(p, key);
    p->member[p->n_members] = (struct member){start, p->out->len - start, 0, 0, p->n_members,
                                              false};
    lf_buffer_add(p->out, ": ", 2);
    p->member[p->n_members++].value = p->out->len;
}

static int compare_members(const void *left, const void *right, void *data) {
    const struct member *a = left, *b = right;
    size_t len = a->key_len < b->key_len ? a->key_len : b->key_len;
    int order = memcmp((const char *)data + a->key, (const char *)data + b->key, len);
    if (order || a->key_len != b->key_len)
        return order ? order : a->key_len < b->key_len ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static int compare_order(const void *left, const void *right) {
    const struct member *a = left, *b = right;
    return a->order < b->order ? -1 : 1;
}

// A repeated key keeps its first place and takes its last value.
static bool drop_repeats(struct printer *p, struct member *member, size_t n) {
    const char *data = p->out->data;
    bool repeats = false;
    qsort_r(member, n, sizeof *member, compare_members, p->out->data);
    for (size_t first = 0, i = 1; i < n; i++) {
        struct member *a = &member[first], *b = &member[i];
        if (a->key_len == b->key_len && !memcmp(data + a->key, data + b->key, a->key_len)) {
            a->value = b->value;
            a->value_len = b->value_len;
            b->dropped = repeats = true;
        } else {
            first = i;
        }
    }
    return repeats;
}

static void rebuild(struct printer *p, struct member *member, size_t n, size_t start) {
    qsort(member, n, sizeof *member, compare_order);
    lf_buffer_clear(&p->scratch);
    for (size_t i = 0; i < n; i++) {
        if (member[i].dropped)
            continue;
        lf_buffer_add(&p->scratch, ", ", p->scratch.len ? 2 : 0);
        lf_buffer_add(&p->scratch, p->out->data + member[i].key, member[i].key_len);
        lf_buffer_add(&p->scratch, ": ", 2);
        lf_buffer_add(&p->scratch, p->out->data + member[i].value, member[i].value_len);
    }
    p->out->failed |= p->scratch.failed;
    p->out->len = start;
    lf_buffer_add(p->out, p->scratch.data, p->scratch.len);
}

static void value_done(struct printer *p) {
    struct frame *top = p->depth ? &p->frame[p->depth - 1] : NULL;
    if (!top || !top->object)
        return;
    struct member *member = &p->member[p->n_members - 1];
    member->value_len = p->out->len - member->value;
    top->in_value = false;
}

static void container_close(struct printer *p) {
    struct frame *top = &p->frame[--p->depth];
    size_t n = p->n_members - top->first_member;
    if (top->object && n > 1 && drop_repeats(p, p->member + top->first_member, n))
        rebuild(p, p->member + top->first_member, n, top->start + 1);
    p->n_members = top->first_member;
    lf_buffer_add(p->out, top->object ? "}" : "]", 1);
    value_done(p);
}

// Prints the key or value that starts at at, or opens the container there.
static const char *print_item(struct printer *p, const char *at, const char *end) {
    struct frame *top = p->depth ? &p->frame[p->depth - 1] : NULL;
    bool key = top && top->object && !top->in_value;
    if (top && (key || !top->object)) {
        lf_buffer_add(p->out, ", ", top->filled ? 2 : 0);
        top->filled = true;
    }
    if (*at == '{' || *at == '[') {
        LF_ASSERT(p->depth < LF_JSON_DEPTH_MAX);
        p->frame[p->depth++] = (struct frame){p->out->len, p->n_members, *at == '{', false, false};
        lf_buffer_add(p->out, at, 1);
        return at + 1;
    }
    const char *stop = at + 1;
    if (*at == '"') {
        while (stop < end && *stop != '"')
            stop += *stop == '\\' ? 2 : 1;
        stop = stop < end ? stop + 1 : end;
    } else {
        while (stop < end && !strchr(" \t\r\n,:]}", *stop))
            stop++;
    }
    struct lf_json_span span = {at, (size_t)(stop - at)};
    if (key) {
        member_open(p, span);
        top->in_value = true;
        return stop;
    }
    if (*at == '"')
        print_string(p, span);
    else if (lf_json_type(span) == LF_JSON_NUMBER)
        print_number(p->out, at, span.len);
    else
        lf_buffer_add(p->out, at, span.len);
    value_done(p);
    return stop;
}

void lf_json_print(struct lf_buffer *out, struct lf_json_span value) {
    struct printer *p = value.text ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        out->failed |= value.text != NULL;
        return;
    }
    p->out = out;
    const char *at = value.text, *end = value.text + value.len;
    // One pass, so that deep nesting costs no more than flat text.
    while (at < end && !out->failed) {
        if (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r' || *at == ',' || *at == ':')
            at++;
        else if (*at == '}' || *at == ']') {
            container_close(p);
            at++;
        } else
            at = print_item(p, at, end);
    }
    lf_buffer_free(&p->scratch);
    free(p->member);
    free(p);
}
