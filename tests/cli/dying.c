// The real program over a device that is lost when SIGUSR1 comes; only tests link this.
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include "lane/session.h"

static atomic_bool lost;
static const struct lf_target_ops *real;
static struct lf_target_ops ops;

static void on_signal(int number) {
    (void)number;
    atomic_store(&lost, true);
}

static enum lf_status check(struct lf_error *err) {
    return atomic_load(&lost) ? lf_fail(err, LF_E_DEVICE, "the test's device is lost") : LF_OK;
}

static enum lf_status prefill(struct lf_target *t, const struct lf_chunk *chunk, uint32_t n,
                              struct lf_error *err) {
    LF_TRY(check(err));
    return real->prefill(t, chunk, n, err);
}

static enum lf_status verify(struct lf_target *t, const struct lf_window *w, uint32_t n,
                             uint32_t *drawn, struct lf_error *err) {
    LF_TRY(check(err));
    return real->verify(t, w, n, drawn, err);
}

static enum lf_status reset(struct lf_target *t, uint32_t slot, struct lf_error *err) {
    LF_TRY(check(err));
    return real->reset(t, slot, err);
}

// The linker's --wrap puts these names between the engine's opening and the target it loads.
enum lf_status __real_lf_session_load(struct lf_session *session, const char *isa,
                                      struct lf_target **out, struct lf_error *err);
enum lf_status __wrap_lf_session_load(struct lf_session *session, const char *isa,
                                      struct lf_target **out, struct lf_error *err);

enum lf_status __wrap_lf_session_load(struct lf_session *session, const char *isa,
                                      struct lf_target **out, struct lf_error *err) {
    LF_TRY(__real_lf_session_load(session, isa, out, err));
    real = (*out)->ops;
    ops = *real;
    ops.prefill = prefill;
    ops.verify = verify;
    ops.reset = reset;
    (*out)->ops = &ops;
    signal(SIGUSR1, on_signal);
    return LF_OK;
}
