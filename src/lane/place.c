#include "lane/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "kernel/cuda_table.h"

enum { INDEX_MAX = 63 };

// The index after cuda, 0 where there is none.
static enum lf_status parse_index(int *index, const char *device, struct lf_error *err) {
    const char *at = device + strlen("cuda");
    char *end = (char *)at;
    *index = 0;
    if (!*at)
        return LF_OK;
    unsigned long n = *at == ':' && at[1] >= '0' && at[1] <= '9' ? strtoul(at + 1, &end, 10) : 0;
    if (*end == ',')
        return lf_fail(err, LF_E_USAGE, "--device %s: several devices are not supported, expected "
                                        "one such as cuda:0", device);
    if (end == at || *end || n > INDEX_MAX)
        return lf_fail(err, LF_E_USAGE, "--device %s: expected auto, cpu, cuda or cuda:0 to "
                                        "cuda:%d", device, INDEX_MAX);
    *index = (int)n;
    return LF_OK;
}

static void describe(struct lf_place *place, int index) {
    const struct lf_cuda_info *info = lf_cuda_info(place->cuda);
    snprintf(place->name, sizeof place->name, "cuda:%d", index);
    snprintf(place->words, sizeof place->words, "CUDA device %d (%s)", index, info->name);
    snprintf(place->times, sizeof place->times, "cuda %u %.50s", info->processors, info->name);
    place->model = (struct lf_model_device){
        .cuda = place->cuda, .kernels = &lf_cuda_kernels, .memory = &place->memory.mem,
        .aside = &place->memory_aside.mem, .arithmetic = LF_CUDA_ARITHMETIC, .name = place->times};
}

static enum lf_status open_cuda(struct lf_place *place, int index, double wait_s,
                                struct lf_error *err) {
    LF_TRY(lf_cuda_open(&place->cuda, index, err));
    if (lf_cuda_open(&place->aside, index, err) != LF_OK) {
        lf_place_close(place);
        return err->status;
    }
    if (wait_s > 0) {
        lf_cuda_set_wait(place->cuda, wait_s);
        lf_cuda_set_wait(place->aside, wait_s);
    }
    lf_cuda_memory_init(&place->memory, place->cuda);
    lf_cuda_memory_init(&place->memory_aside, place->aside);
    describe(place, index);
    return LF_OK;
}

enum lf_status lf_place_open(struct lf_place *place, const char *device, double wait_s,
                             struct lf_error *err) {
    int index = 0;
    *place = (struct lf_place){.name = "cpu", .words = "the CPU",
                               .chosen = !device || !strcmp(device, "auto")};
    if (place->chosen) {
        struct lf_error none = LF_ERROR_INIT;
        if (open_cuda(place, 0, wait_s, &none) != LF_OK)
            lf_log(LF_LOG_INFO, "device: the CPU, as there is no other: %s", none.text);
        return LF_OK;
    }
    if (!strcmp(device, "cpu"))
        return LF_OK;
    if (strncmp(device, "cuda", strlen("cuda")))
        return lf_fail(err, LF_E_USAGE, "--device %s: expected auto, cpu, cuda or cuda:N", device);
    LF_TRY(parse_index(&index, device, err));
    return open_cuda(place, index, wait_s, err);
}

enum lf_status lf_place_check(const struct lf_place *place, const struct lf_topology *t,
                              struct lf_error *err) {
    const struct {
        const char *what;
        uint32_t value, most;
    } sizes[] = {
        {"head_dim", t->head_dim, LF_CUDA_HEAD_DIM_MAX},
        {"index_head_dim", t->index_dim, LF_CUDA_INDEX_DIM_MAX},
        {"n_routed_experts", t->experts, LF_CUDA_EXPERTS_MAX},
        {"num_experts_per_tok", t->experts_top, LF_CUDA_TOP_MAX},
        {"dspark_n_routed_experts", t->draft_experts, LF_CUDA_EXPERTS_MAX},
        {"dspark_num_experts_per_tok", t->draft_experts_top, LF_CUDA_TOP_MAX},
    };
    for (size_t i = 0; place->cuda && i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value > sizes[i].most)
            return lf_fail(err, LF_E_UNSUPPORTED, "config.json: %s is %u, %s takes at most %u",
                           sizes[i].what, sizes[i].value, place->words, sizes[i].most);
    return LF_OK;
}

void lf_place_leave(struct lf_place *place, const char *why) {
    lf_log(LF_LOG_INFO, "device: the CPU, not %s: %s", place->words, why);
    lf_place_close(place);
    (void)!lf_place_open(place, "cpu", 0, NULL);
}

void lf_place_close(struct lf_place *place) {
    lf_cuda_close(place->aside);
    lf_cuda_close(place->cuda);
    place->cuda = place->aside = NULL;
}

const struct lf_model_device *lf_place_model(const struct lf_place *place) {
    return place->cuda ? &place->model : NULL;
}
