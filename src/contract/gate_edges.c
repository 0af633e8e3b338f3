// Gate 4: hostile values as declared, no rows at all, and what the record tests on purpose (5).
#include "base/error.h"
#include "contract/gates.h"
#include "contract/launch.h"

// A hostile row between two plain ones, and each hostile operand beside plain ones.
static void run_hostile(struct lf_trial *trial, const struct lf_shape *shape, uint32_t kind) {
    uint32_t operands = trial->record->operands;
    for (uint32_t only = 0; only <= operands && !lf_trial_failed(trial); only++) {
        struct lf_call *call = lf_call_open(trial, shape, shape->rows < 3 ? 1 : 3, LF_STYLE_NORMAL);
        const struct lf_problem *problem = ((struct lf_launch *)call)->problem;
        bool changed = false;
        for (uint32_t i = 0; i < operands; i++) {
            const struct lf_operand *o = &problem->operand[i];
            if ((o->role != LF_IN && o->role != LF_INOUT) || !o->n ||
                (o->type != LF_BF16 && o->type != LF_F32) || (only < operands && only != i))
                continue;
            void *row = lf_call_at(call, i, call->rows / 2, 0);
            if (o->type == LF_BF16)
                lf_check_fill_hostile(kind, row, o->n);
            else
                lf_check_fill_hostile_f32(kind, row, o->n);
            changed = true;
        }
        if (changed)
            lf_call_judge(call);
        lf_call_close(call);
    }
}

// A launch of no rows writes nothing.
static void run_empty(struct lf_trial *trial, const struct lf_shape *shape) {
    struct lf_call *call = lf_call_open(trial, shape, 0, LF_STYLE_NORMAL);
    lf_call_run(call);
    lf_launch_check_memory((struct lf_launch *)call);
    lf_call_close(call);
}

void lf_gate_edges(struct lf_trial *trial, const struct lf_shape *shape) {
    for (uint32_t set = LF_ISA_PORTABLE; set < LF_SETS; set++) {
        if (!(trial->sets >> set & 1) || lf_trial_failed(trial))
            continue;
        trial->set = set;
        trial->threads = 1;
        run_empty(trial, shape);
        for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS && !lf_trial_failed(trial); kind++)
            if (trial->record->hostile >> kind & 1)
                run_hostile(trial, shape, kind);
        if (trial->record->edges && !lf_trial_failed(trial))
            trial->record->edges(trial, shape);
    }
}
