#include "trial.h"

void lf_trial_column(struct lf_model_options *options) {
    (void)options;
}
