#include "cli/engine_flags.h"

#include <stdlib.h>
#include <string.h>

enum lf_status lf_engine_flags_dummy(struct lf_engine_options *options,
                                     struct lf_engine_flags *flags, struct lf_error *err) {
    bool layers = flags->layers != LF_FLAG_WORD, rows = flags->table_rows != LF_FLAG_WORD;
    options->dummy_weights = flags->dummy_seed != LF_FLAG_WORD;
    if (!options->dummy_weights && (layers || rows))
        return lf_fail(err, LF_E_USAGE, "--%s needs --dummy-weights",
                       layers ? "layers" : "engram-rows");
    if (!options->dummy_weights)
        return LF_OK;
    options->dummy_seed = flags->dummy_seed;
    options->dummy_table_rows = rows ? flags->table_rows : 0;
    options->n_dummy_layers = layers ? (uint32_t)flags->layers : 0;
    options->dummy_layer = flags->layer;
    for (uint32_t i = 0; i < options->n_dummy_layers; i++)
        flags->layer[i] = i;
    return LF_OK;
}

enum lf_pin lf_engine_flags_pin(const struct lf_engine_flags *flags) {
    if (!strcmp(flags->pin, "auto"))
        return LF_PIN_AUTO;
    return strcmp(flags->pin, "on") ? LF_PIN_OFF : LF_PIN_ON;
}

struct lf_engine_options lf_engine_flags_single(const struct lf_engine_flags *flags) {
    return (struct lf_engine_options){.device = flags->device, .isa = flags->isa,
                                      .threads = (uint32_t)flags->threads,
                                      .pin = lf_engine_flags_pin(flags), .parallel = 1,
                                      .context = flags->context};
}

enum lf_status lf_engine_flags_layers(struct lf_engine_flags *flags, const char *text, uint32_t *n,
                                      struct lf_error *err) {
    const char *at = text;
    *n = 0;
    while (at) {
        char *end;
        unsigned long id = strtoul(at, &end, 10);
        bool ascends = !*n || id > flags->layer[*n - 1];
        if (end == at || *at < '0' || *at > '9' || (*end && *end != ',') || !ascends ||
            id >= LF_LAYERS_MAX)
            return lf_fail(err, LF_E_USAGE, "--layers %s: expected ascending layer ids such as "
                                            "2,21", text);
        flags->layer[(*n)++] = (uint32_t)id;
        at = *end ? end + 1 : NULL;
    }
    return LF_OK;
}
