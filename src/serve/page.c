// GET /: the chat page for browsers, a name and version for programs (api.md 1).
#include "serve/page.h"

#include "serve/router.h"

enum lf_status lf_page_handle(struct lf_exchange *x, struct lf_error *err) {
    (void)err;
    lf_exchange_header(x, "Vary", "Accept");
    if (!x->wants_html) {
        lf_buffer_add_text(&x->out, "{\"name\":\"lanefold\",\"version\":\"" LF_VERSION "\"}");
        lf_exchange_answer(x, 200, "application/json");
        return LF_OK;
    }
    lf_exchange_header(x, "Cache-Control", "no-cache");
    lf_exchange_header(x, "X-Content-Type-Options", "nosniff");
    lf_exchange_header(x, "Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                       "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'");
    lf_buffer_add(&x->out, lf_page_html, lf_page_html_bytes);
    lf_exchange_answer(x, 200, "text/html; charset=utf-8");
    return LF_OK;
}
