// The demo model and its golden activations, opened for tests.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "format/checkpoint.h"
#include "model/model.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

// A failure of the test's own ground (a missing file, a refused call): says why and exits with 2.
_Noreturn void lf_golden_die(const char *format, ...) LF_PRINTF(1, 2);

// One prompt: NAME.json and NAME.safetensors.
struct lf_golden {
    const char *name;
    json_t *json, *header;
    uint8_t *file;
    size_t file_bytes, data_at;
    struct lf_arena arena;
    uint32_t rows;            // all rows of the prompt
    const int32_t *ids;       // [rows]
    uint32_t points;          // the rows that most tensors show
    const int32_t *positions; // [points]
};

struct lf_golden_tensor {
    const void *data; // aligned copy; NULL: there is none of that name
    char dtype[8];
    uint32_t rank;
    uint64_t shape[4];
    size_t count;
};

void lf_golden_open(struct lf_golden *golden, const char *name);
void lf_golden_close(struct lf_golden *golden);
// A tensor by its printed name; data is NULL when the prompt has none.
struct lf_golden_tensor lf_golden_find(struct lf_golden *golden, const char *format, ...)
    LF_PRINTF(2, 3);
// The same where it must exist with this dtype and number of elements (0: any).
const void *lf_golden_get(struct lf_golden *golden, const char *dtype, size_t count,
                          const char *format, ...) LF_PRINTF(4, 5);
// An array of integers of NAME.json, in the golden's memory.
const uint32_t *lf_golden_ints(struct lf_golden *golden, const char *key, size_t *n);
double lf_golden_number(struct lf_golden *golden, const char *key);

// models/demo opened once; any number of targets over it.
struct lf_demo {
    struct lf_checkpoint *checkpoint;
    struct lf_tokenizer *tokenizer;
    struct lf_token_map map;
};
void lf_demo_open(struct lf_demo *demo);
void lf_demo_close(struct lf_demo *demo);
struct lf_target *lf_demo_target(struct lf_demo *demo, const struct lf_model_options *options);
