#include "text/pretokenize.h"

#include <stdint.h>
#include <utf8proc.h>

// What the three patterns ask of a character. DIGIT and HAN characters form stretches of their own.
enum {
    WORD = 1,   // \p{L} or \p{M}
    SIGN = 2,   // \p{P} or \p{S}
    SPACE = 4,  // \s
    BREAK = 8,  // CR, LF
    ALPHA = 16, // ASCII letter
    DIGIT = 64, // \p{N}
    HAN = 128,  // the ranges of the second pattern
    STRETCH = DIGIT | HAN,
};

static const uint8_t ascii_class[128] = {
    ['\t'] = SPACE,         ['\n'] = SPACE | BREAK,
    ['\v'] = SPACE,         ['\f'] = SPACE,
    ['\r'] = SPACE | BREAK, [' '] = SPACE,
    ['!' ... '/'] = SIGN,   ['0' ... '9'] = DIGIT,
    [':' ... '@'] = SIGN,   ['A' ... 'Z'] = WORD | ALPHA,
    ['[' ... '`'] = SIGN,   ['a' ... 'z'] = WORD | ALPHA,
    ['{' ... '~'] = SIGN,
};

bool lf_code_is_space(uint32_t code) {
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

static unsigned wide_class(uint32_t code) {
    static const uint8_t category_class[32] = {
        [UTF8PROC_CATEGORY_LU] = WORD,  [UTF8PROC_CATEGORY_LL] = WORD,
        [UTF8PROC_CATEGORY_LT] = WORD,  [UTF8PROC_CATEGORY_LM] = WORD,
        [UTF8PROC_CATEGORY_LO] = WORD,  [UTF8PROC_CATEGORY_MN] = WORD,
        [UTF8PROC_CATEGORY_MC] = WORD,  [UTF8PROC_CATEGORY_ME] = WORD,
        [UTF8PROC_CATEGORY_ND] = DIGIT, [UTF8PROC_CATEGORY_NL] = DIGIT,
        [UTF8PROC_CATEGORY_NO] = DIGIT, [UTF8PROC_CATEGORY_PC] = SIGN,
        [UTF8PROC_CATEGORY_PD] = SIGN,  [UTF8PROC_CATEGORY_PS] = SIGN,
        [UTF8PROC_CATEGORY_PE] = SIGN,  [UTF8PROC_CATEGORY_PI] = SIGN,
        [UTF8PROC_CATEGORY_PF] = SIGN,  [UTF8PROC_CATEGORY_PO] = SIGN,
        [UTF8PROC_CATEGORY_SM] = SIGN,  [UTF8PROC_CATEGORY_SC] = SIGN,
        [UTF8PROC_CATEGORY_SK] = SIGN,  [UTF8PROC_CATEGORY_SO] = SIGN,
    };
    if (code >= 0x4E00 && code <= 0x9FA5)
        return HAN | WORD;
    unsigned class = category_class[utf8proc_category((utf8proc_int32_t)code) & 31];
    if (code >= 0x3040 && code <= 0x30FF)
        class |= HAN;
    return lf_code_is_space(code) ? class | SPACE : class;
}

struct character {
    unsigned class; // 0 past the end
    unsigned len;   // 0 past the end
};

static struct character wide_at(const unsigned char *s) {
    if (s[0] < 0xE0)
        return (struct character){wide_class((s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu)), 2};
    uint32_t low = (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    if (s[0] < 0xF0)
        return (struct character){wide_class((s[0] & 0xFu) << 12 | low), 3};
    return (struct character){wide_class((s[0] & 7u) << 18 | low << 6 | (s[3] & 0x3Fu)), 4};
}

static inline struct character character_at(const char *text, size_t at, size_t len) {
    if (at >= len)
        return (struct character){0, 0};
    const unsigned char *s = (const unsigned char *)text + at;
    if (s[0] < 0x80)
        return (struct character){ascii_class[s[0]], 1};
    return wide_at(s);
}

// A character of another stretch is the end of the text for every rule of the third pattern.
static inline struct character stretch_at(const char *text, size_t at, size_t len,
                                          unsigned stretch) {
    struct character c = character_at(text, at, len);
    return c.len && (c.class & STRETCH) == stretch ? c : (struct character){0, 0};
}

static inline size_t run_end(const char *text, size_t at, size_t len, unsigned wanted,
                             unsigned stretch) {
    for (;;) {
        struct character c = stretch_at(text, at, len, stretch);
        if (!(c.class & wanted))
            return at;
        at += c.len;
    }
}

static size_t digits_end(const char *text, size_t at, size_t len) {
    for (int i = 0; i < 3; i++) {
        struct character c = character_at(text, at, len);
        if (!(c.class & DIGIT))
            break;
        at += c.len;
    }
    return at;
}

// Alternatives D, E and F: a run of white space starts at `at`.
static size_t space_end(const char *text, size_t at, size_t len, unsigned stretch) {
    size_t end = at, last = at, after_break = 0;
    for (;;) {
        struct character c = stretch_at(text, end, len, stretch);
        if (!(c.class & SPACE)) {
            if (after_break)
                return after_break;
            return c.len == 0 || last == at ? end : last;
        }
        last = end;
        end += c.len;
        if (c.class & BREAK)
            after_break = end;
    }
}

// The end of the third pattern's match at `at`, or `at` when no alternative matches.
static size_t match_end(const char *text, size_t at, size_t len, struct character c) {
    unsigned stretch = c.class & STRETCH;
    size_t next = at + c.len;
    struct character d = stretch_at(text, next, len, stretch);
    if ((c.class & SIGN) && c.len == 1 && (d.class & ALPHA)) {
        size_t end = next + 1;
        while (end < len && (unsigned char)text[end] < 0x80 &&
               (ascii_class[(unsigned char)text[end]] & ALPHA))
            end++;
        return end;
    }
    if ((c.class & WORD) || (!(c.class & (BREAK | SIGN)) && (d.class & WORD)))
        return run_end(text, next, len, WORD, stretch);
    if ((c.class & SIGN) || (text[at] == ' ' && (d.class & SIGN))) {
        size_t end = run_end(text, next, len, SIGN, stretch);
        return run_end(text, end, len, BREAK, stretch);
    }
    return c.class & SPACE ? space_end(text, at, len, stretch) : at;
}

size_t lf_pretokenize_next(const char *text, size_t at, size_t len) {
    struct character c = character_at(text, at, len);
    if (c.class & DIGIT)
        return digits_end(text, at, len);
    unsigned stretch = c.class & STRETCH;
    size_t end = match_end(text, at, len, c);
    if (end > at)
        return end;
    // Characters that no alternative takes stay together until one matches.
    end = at;
    do {
        end += c.len;
        c = stretch_at(text, end, len, stretch);
    } while (c.len && match_end(text, end, len, c) == end);
    return end;
}
