// One function a command; main turns LF_E_USAGE into exit code 2 and any other failure into 1.
#pragma once
#include "base/error.h"

typedef enum lf_status lf_command_fn(int argc, char **argv, struct lf_error *err);
lf_command_fn lf_command_serve, lf_command_run, lf_command_info, lf_command_tokenize,
    lf_command_score, lf_command_plan, lf_command_bench, lf_command_contract, lf_command_verify;
