#include "contract/contract.h"

#include <string.h>
#include "cli/command.h"
#include "cli/flags.h"

struct contract_flags {
    const char *backend, *gates, *faults, *isa, *json;
    struct lf_flag_list only;
    uint64_t seed, jobs;
    bool no_controls, no_limits, limits_only, list, verbose, help;
};

// "1,2,4" to bits; each of 1 to 4 once.
static enum lf_status read_gates(uint32_t *gates, const char *text, struct lf_error *err) {
    *gates = 0;
    for (const char *at = text;; at++) {
        uint32_t bit = *at >= '1' && *at <= '4' ? 1u << (*at - '1') : 0;
        if (!bit || *gates & bit)
            break;
        *gates |= bit;
        at++;
        if (!*at)
            return LF_OK;
        if (*at != ',')
            break;
    }
    return lf_fail(err, LF_E_USAGE, "--gates %s: expected a list of 1 to 4, such as 1,2,3,4", text);
}

static enum lf_status read_isa(uint32_t *sets, const char *name, struct lf_error *err) {
    enum lf_isa isa;
    LF_TRY(lf_isa_parse(&isa, name, err));
    if (isa == LF_ISA_AUTO)
        return LF_OK;
    if (!(*sets >> isa & 1))
        return lf_fail(err, LF_E_UNSUPPORTED, "--isa %s: this processor has no %s", name, name);
    *sets = 1u << isa;
    return LF_OK;
}

static enum lf_status set_options(struct lf_contract_options *options,
                                  const struct contract_flags *f, struct lf_error *err) {
    *options = lf_contract_defaults();
    LF_TRY(read_gates(&options->gates, f->gates, err));
    LF_TRY(read_isa(&options->sets, f->isa, err));
    if (!strcmp(f->backend, "cuda"))
        options->sets = 1u << LF_SET_CUDA;
    if (!strcmp(f->backend, "cuda") && strcmp(f->isa, "auto") != 0)
        return lf_fail(err, LF_E_USAGE, "--isa %s: not with --backend cuda", f->isa);
    if (f->limits_only && (f->no_limits || f->faults))
        return lf_fail(err, LF_E_USAGE, "--limits-only: not with --no-limits or --faults");
    if (f->no_controls && f->faults)
        return lf_fail(err, LF_E_USAGE, "--no-controls: not with --faults");
    options->only = f->only.value, options->n_only = f->only.n;
    options->limits = !f->no_limits;
    options->gates = f->limits_only ? 0 : options->gates;
    options->faults = f->faults;
    options->verbose = f->verbose;
    options->seed = f->seed;
    options->jobs = f->jobs ? (uint32_t)f->jobs : options->jobs;
    return LF_OK;
}

static enum lf_status run(const struct contract_flags *f, struct lf_error *err) {
    struct lf_contract_options options;
    struct lf_contract_table table;
    struct lf_contract_result result = {0};
    static struct lf_entry entry[LF_ENTRIES_MAX];
    LF_TRY(set_options(&options, f, err));
    lf_contract_table_fill(&table, entry);
    if (f->list)
        return lf_contract_list(&table, &options, err);
    if (lf_contract_run(&table, &options, &result, err) == LF_OK && f->json)
        (void)!lf_contract_write_json(&result, &options, f->json, err);
    // The SUMMARY has said what is wrong.
    if (err->status == LF_OK && !lf_contract_passed(&result))
        lf_fail(err, LF_E_VALUE, "%s", "");
    lf_contract_free(&result);
    return err->status;
}

enum lf_status lf_command_contract(int argc, char **argv, struct lf_error *err) {
    struct contract_flags f = {.backend = "cpu", .gates = "1,2,3,4", .isa = "auto",
                               .seed = LF_CONTRACT_SEED};
    struct lf_flag flag[] = {
        {.name = "backend", .kind = LF_FLAG_TEXT, .out = &f.backend, .choices = "cpu|cuda",
         .help = "whose kernels"},
        {.name = "only", .kind = LF_FLAG_LIST, .out = &f.only,
         .help = "a kernel's name, a prefix or a glob"},
        {.name = "gates", .kind = LF_FLAG_TEXT, .out = &f.gates,
         .help = "1 float64 bound, 2 rows, 3 memory, 4 edges; default all"},
        {.name = "isa", .kind = LF_FLAG_TEXT, .out = &f.isa,
         .help = "one instruction set; auto: all of this processor"},
        {.name = "no-controls", .kind = LF_FLAG_ON, .out = &f.no_controls,
         .help = "planted faults are not run"},
        {.name = "no-limits", .kind = LF_FLAG_ON, .out = &f.no_limits,
         .help = "without the limits pass"},
        {.name = "limits-only", .kind = LF_FLAG_ON, .out = &f.limits_only,
         .help = "the limits pass alone"},
        {.name = "faults", .kind = LF_FLAG_TEXT, .out = &f.faults,
         .help = "folder of the planted faults' modules (make contract)"},
        {.name = "list", .kind = LF_FLAG_ON, .out = &f.list,
         .help = "names, contracts and controls; runs nothing"},
        {.name = "seed", .kind = LF_FLAG_COUNT, .out = &f.seed, .max = 0x1p53,
         .help = "of all operands; the default is fixed"},
        {.name = "jobs", .kind = LF_FLAG_COUNT, .out = &f.jobs, .min = 1, .max = 64,
         .help = "processes at once; default: all cores"},
        {.name = "json", .kind = LF_FLAG_TEXT, .out = &f.json, .help = "a report to this file"},
        {.name = "verbose", .kind = LF_FLAG_ON, .out = &f.verbose,
         .help = "controls that are red, worst places, stack"},
        {.name = "help", .kind = LF_FLAG_ON, .out = &f.help, .help = "this text"},
    };
    size_t n = sizeof flag / sizeof *flag;
    struct lf_positionals none;
    LF_TRY(lf_flags_parse(flag, n, argc, argv, &none, 0, err));
    if (f.help) {
        lf_flags_print("contract [options]",
                       "Every kernel against float64, alone and beside others, in its memory and "
                       "at its edges;\nplanted faults must show.", flag, n);
        return LF_OK;
    }
    if (run(&f, err) == LF_E_ABSENT)
        puts("SKIP cuda: no device");
    return err->status;
}
