#include "kernel/act_quant/quantize.cuh"

enum { THREADS = 256 };

// A thread N neighbouring elements, so many lanes a group.
template <uint32_t N>
__global__ static void act_quant_groups(struct lf_act_quant_args a) {
    lf_take_turn();
    const uint32_t lanes = LF_ACT_GROUP / N;
    uint64_t row_groups = a.dim / LF_ACT_GROUP, group = lf_thread() / lanes;
    uint64_t row = group / row_groups;
    uint64_t at = group % row_groups * LF_ACT_GROUP + threadIdx.x % lanes * N;
    struct lf_wide<N> x = {};
    if (row < a.rows)
        x = lf_wide_load<N>(a.x + row * a.x_stride + at);
    x = lf_quantize<N>(a.format, x);
    LF_CONTROL(7, if (a.rows > 4 && group + 1 == row_groups * a.rows) return;)
    LF_CONTROL(8, a.y[(a.rows - 1) * a.y_stride + a.dim] = 0;)
    if (row < a.rows)
        lf_wide_store(a.y + row * a.y_stride + at, x);
}

void lf_act_quant_cuda(struct lf_device *device, const struct lf_act_quant_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % LF_ACT_GROUP == 0);
    uint64_t elements = (uint64_t)args->rows * args->dim;
    bool wide = lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->y, args->dim) &&
                args->x_stride % LF_WIDE == 0 && args->y_stride % LF_WIDE == 0;
    lf_cuda_launch(device, "act_quant", wide ? act_quant_groups<LF_WIDE> : act_quant_groups<1>,
                   dim3(lf_blocks(elements, THREADS * (wide ? LF_WIDE : 1))), THREADS, *args);
}
