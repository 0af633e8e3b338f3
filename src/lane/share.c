#include "lane/share.h"

#include <math.h>

// The first chunk beside replies on a server that has not timed any; the fewest ever.
enum { FIRST_ROWS = 256, FEWEST_ROWS = 8 };

bool lf_share_allows(const struct lf_share *s, uint64_t rows_left, bool replies) {
    if (!replies || s->share <= 0)
        return true;
    return s->rounds_since && (s->debt <= 0 || rows_left <= LF_PROMPT_SHORT);
}

uint32_t lf_share_rows(const struct lf_share *s, uint32_t most, bool replies) {
    uint32_t rows = s->rows ? s->rows : FIRST_ROWS;
    return replies && s->gap > 0 && rows < most ? rows : most;
}

// Short chunks tell of fixed costs: they count by their rows.
static void learn_row(struct lf_share *s, uint32_t rows, double seconds) {
    double weight = rows >= FIRST_ROWS ? 0.5 : 0.5 * rows / FIRST_ROWS;
    if (rows)
        s->row_s = s->row_s > 0 ? s->row_s + weight * (seconds / rows - s->row_s) : seconds / rows;
}

void lf_share_chunk(struct lf_share *s, uint32_t rows, double seconds, bool replies) {
    learn_row(s, rows, seconds);
    s->rounds_since = false;
    s->debt = replies ? s->debt + seconds * s->share / (1 - s->share) : 0;
    if (s->gap <= 0 || rows == 0)
        return;
    uint32_t now = s->rows ? s->rows : FIRST_ROWS;
    double fits = seconds > 0 ? rows * s->gap / seconds : HUGE_VAL;
    // A short chunk's rate holds its fixed costs, so alone it never lowers the limit.
    if (seconds > s->gap || fits > now || rows >= now) {
        double most = 2.0 * (rows > now ? rows : now);
        s->rows = (uint32_t)fmax(fmin(fmin(fits, most), UINT32_MAX / 4), FEWEST_ROWS);
    }
}

void lf_share_round(struct lf_share *s, double seconds) {
    s->rounds_since = true;
    s->debt = fmax(0, s->debt - seconds);
}
