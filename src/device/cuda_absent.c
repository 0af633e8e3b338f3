// Stands for cuda.cu in a program built without CUDA: no device opens, so nothing else is called.
#include "device/cuda.h"
#include "device/cuda_graph.h"
#include "device/cuda_dummy.h"

enum lf_status lf_cuda_open(struct lf_cuda **out, int index, struct lf_error *err) {
    *out = NULL;
    return lf_fail(err, LF_E_ABSENT, "CUDA device %d: this program was built without CUDA", index);
}

void lf_cuda_close(struct lf_cuda *cuda) {
    LF_ASSERT(!cuda);
}

const struct lf_cuda_info *lf_cuda_info(const struct lf_cuda *cuda) {
    (void)cuda;
    LF_ASSERT(!"a device");
    return NULL;
}

void lf_cuda_set_wait(struct lf_cuda *cuda, double wait_s) {
    (void)wait_s;
    LF_ASSERT(!cuda);
}

uint64_t lf_cuda_held_bytes(const struct lf_cuda *cuda, uint64_t *most) {
    LF_ASSERT(!cuda);
    return *most = 0;
}

enum lf_status lf_cuda_alloc(struct lf_cuda *cuda, void **out, size_t bytes, const char *what,
                             struct lf_error *err) {
    (void)cuda, (void)out, (void)bytes, (void)what, (void)err;
    LF_ASSERT(!"a device");
    return LF_E_ABSENT;
}

enum lf_status lf_cuda_alloc_shared(struct lf_cuda *cuda, void **out, size_t bytes,
                                    const char *what, struct lf_error *err) {
    return lf_cuda_alloc(cuda, out, bytes, what, err);
}

enum lf_status lf_cuda_alloc_pinned(struct lf_cuda *cuda, void **out, size_t bytes,
                                    const char *what, struct lf_error *err) {
    return lf_cuda_alloc(cuda, out, bytes, what, err);
}

void lf_cuda_free(struct lf_cuda *cuda, void *memory) {
    LF_ASSERT(!cuda && !memory);
}

void lf_cuda_upload(struct lf_cuda *cuda, void *to, const void *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
    LF_ASSERT(!cuda);
}

void lf_cuda_send(struct lf_cuda *cuda, void *to, const void *pinned, size_t bytes) {
    lf_cuda_upload(cuda, to, pinned, bytes);
}

void lf_cuda_fill(struct lf_cuda *cuda, void *to, uint8_t byte, size_t bytes) {
    (void)to, (void)byte, (void)bytes;
    LF_ASSERT(!cuda);
}

void lf_cuda_copy(struct lf_cuda *cuda, void *to, const void *from, size_t bytes) {
    lf_cuda_upload(cuda, to, from, bytes);
}

void lf_cuda_read(struct lf_cuda *cuda, void *to, const void *from, size_t bytes) {
    lf_cuda_upload(cuda, to, from, bytes);
}

enum lf_status lf_cuda_download(struct lf_cuda *cuda, void *to, const void *from, size_t bytes,
                                struct lf_error *err) {
    (void)cuda, (void)to, (void)from, (void)bytes, (void)err;
    LF_ASSERT(!"a device");
    return LF_E_ABSENT;
}

enum lf_status lf_cuda_wait(struct lf_cuda *cuda, struct lf_error *err) {
    return lf_cuda_download(cuda, NULL, NULL, 0, err);
}

bool lf_cuda_is_lost(const struct lf_cuda *cuda) {
    LF_ASSERT(!cuda);
    return true;
}

void lf_cuda_mark(struct lf_cuda *cuda, int mark) {
    (void)mark;
    LF_ASSERT(!cuda);
}

float lf_cuda_between_ms(struct lf_cuda *cuda, int from, int to) {
    (void)from, (void)to;
    LF_ASSERT(!cuda);
    return 0;
}

uint64_t lf_cuda_launches(const struct lf_cuda *cuda) {
    LF_ASSERT(!cuda);
    return 0;
}

void lf_cuda_dummy(struct lf_cuda *cuda, void *to, const struct lf_dummy_rule *rule,
                   uint64_t offset, uint64_t bytes) {
    (void)to, (void)rule, (void)offset, (void)bytes;
    LF_ASSERT(!cuda);
}

bool lf_cuda_has_failed(const struct lf_cuda *cuda) {
    return lf_cuda_is_lost(cuda);
}

void lf_cuda_graph_begin(struct lf_cuda *cuda, size_t table_bytes) {
    (void)table_bytes;
    LF_ASSERT(!cuda);
}

struct lf_cuda_graph *lf_cuda_graph_end(struct lf_cuda *cuda) {
    LF_ASSERT(!cuda);
    return NULL;
}

void lf_cuda_graph_aside(struct lf_cuda *cuda, uint32_t branch) {
    LF_ASSERT(!cuda && branch < LF_CUDA_BRANCHES);
}

void lf_cuda_graph_back(struct lf_cuda *cuda) {
    LF_ASSERT(!cuda);
}

void lf_cuda_graph_join(struct lf_cuda *cuda, uint32_t branch) {
    LF_ASSERT(!cuda && branch < LF_CUDA_BRANCHES);
}

void lf_cuda_graph_launch(struct lf_cuda *cuda, struct lf_cuda_graph *graph) {
    LF_ASSERT(!cuda && !graph);
}

void lf_cuda_graph_free(struct lf_cuda *cuda, struct lf_cuda_graph *graph) {
    LF_ASSERT(!cuda && !graph);
}

uint64_t lf_cuda_table_bytes(const struct lf_cuda *cuda) {
    return lf_cuda_launches(cuda);
}

void lf_cuda_watch(struct lf_cuda *cuda, lf_cuda_watcher *watcher, void *ctx) {
    (void)watcher, (void)ctx;
    LF_ASSERT(!cuda);
}
