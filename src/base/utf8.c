#include "base/utf8.h"

#include <string.h>

struct lf_utf8 lf_utf8_next(const char *text, size_t len) {
    const unsigned char *s = (const unsigned char *)text;
    struct lf_utf8 r = {0, len ? 1 : 0, false, false};
    if (!len)
        return r;
    if (s[0] < 0x80)
        return (struct lf_utf8){s[0], 1, true, false};
    int more = s[0] >= 0xC2 && s[0] <= 0xDF ? 1 : (s[0] & 0xF0) == 0xE0 ? 2 : 3;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return r;
    // The second byte's range rules out surrogates, overlong forms and codes past U+10FFFF.
    unsigned low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    r.code = s[0] & (0x3Fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((size_t)i >= len) {
            r.cut = true;
            return r;
        }
        if (s[i] < low || s[i] > high)
            return r;
        r.code = r.code << 6 | (s[i] & 0x3F);
        r.len++;
        low = 0x80;
        high = 0xBF;
    }
    r.valid = true;
    return r;
}

size_t lf_utf8_valid(const char *text, size_t len) {
    size_t i = 0;
    while (i < len) {
        uint64_t eight = UINT64_MAX;
        if (len - i >= sizeof eight)
            memcpy(&eight, text + i, sizeof eight);
        if (!(eight & 0x8080808080808080u)) {
            i += sizeof eight;
            continue;
        }
        struct lf_utf8 c = lf_utf8_next(text + i, len - i);
        if (!c.valid)
            return i;
        i += c.len;
    }
    return len;
}

void lf_utf8_repair(struct lf_buffer *out, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        struct lf_utf8 c = lf_utf8_next(text + i, len - i);
        if (c.valid)
            lf_buffer_add(out, text + i, c.len);
        else
            lf_buffer_add(out, "\xEF\xBF\xBD", 3);
        i += c.len;
    }
}

void lf_utf8_add(struct lf_buffer *out, uint32_t code) {
    LF_ASSERT(code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF));
    char s[4];
    if (code < 0x80) {
        s[0] = (char)code;
        lf_buffer_add(out, s, 1);
    } else if (code < 0x800) {
        s[0] = (char)(0xC0 | code >> 6);
        s[1] = (char)(0x80 | (code & 0x3F));
        lf_buffer_add(out, s, 2);
    } else if (code < 0x10000) {
        s[0] = (char)(0xE0 | code >> 12);
        s[1] = (char)(0x80 | (code >> 6 & 0x3F));
        s[2] = (char)(0x80 | (code & 0x3F));
        lf_buffer_add(out, s, 3);
    } else {
        s[0] = (char)(0xF0 | code >> 18);
        s[1] = (char)(0x80 | (code >> 12 & 0x3F));
        s[2] = (char)(0x80 | (code >> 6 & 0x3F));
        s[3] = (char)(0x80 | (code & 0x3F));
        lf_buffer_add(out, s, 4);
    }
}
