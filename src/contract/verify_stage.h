// Inside of lf_verify_run: a kernel table whose entries judge each call in place.
#pragma once
#include "contract/launch.h"
#include "contract/table.h"
#include "model/v41.h"

enum { LF_STAGES_MAX = 1024, LF_STAGE_OUTPUTS = 4 };

// One kernel call of a layer, by kernel and the buffer it writes; a later one of the same: "2".
struct lf_stage {
    char name[64];
    const char *kernel;
    bool judged; // it has a record
    struct lf_outcome outcome;
};

struct lf_stages {
    struct lf_v41 *m;
    struct lf_contract_table table;
    struct lf_entry entry[LF_ENTRIES_MAX];
    struct lf_kernels plain; // the model's own
    struct lf_stage stage[LF_STAGES_MAX];
    uint32_t n;
};

// What a call writes, in the order of its record's results.
struct lf_written {
    uint32_t rows, n;
    void *data[LF_STAGE_OUTPUTS];
    size_t columns[LF_STAGE_OUTPUTS], pitch[LF_STAGE_OUTPUTS]; // 0: as the record describes
    const void *named; // the buffer that names the stage
    uint8_t *gathered; // freed by the caller; cache rows lie apart
};

// Called after the kernel ran.
void lf_written_fill(struct lf_written *out, const char *kernel, const void *args);
// From here on the model's kernels judge themselves into stages; until lf_stages_end.
void lf_stages_begin(struct lf_stages *stages, struct lf_v41 *m);
void lf_stages_end(struct lf_stages *stages);
// What a buffer of the workspace is called.
const char *lf_stage_buffer(const struct lf_v41 *m, const void *data);
// A layer whose weights are copies in arena.
LF_CHECKED enum lf_status lf_layer_copy(struct lf_layer *out, const struct lf_layer *layer,
                                        const struct lf_topology *t, struct lf_arena *arena,
                                        struct lf_error *err);
