// Gate 2 and 3 for a kernel whose rows are independent: alone, together, threaded, guarded.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel_check.h"

enum lf_rows_kind {
    LF_ROWS_IN,    // floats: hostile neighbours may hold anything
    LF_ROWS_FIXED, // indices and rules: neighbours hold another row's
    LF_ROWS_INOUT, // floats changed in place
    LF_ROWS_OUT
};
struct lf_rows_operand {
    enum lf_rows_kind kind;
    size_t row_bytes;
    const void *rows; // the rows given, but for LF_ROWS_OUT
};

enum { LF_ROWS_OPERANDS_MAX = 8 };
struct lf_rows_case {
    const char *name;
    const void *shape; // whatever run needs besides the operands
    uint32_t rows;
    uint32_t operands;
    struct lf_rows_operand operand[LF_ROWS_OPERANDS_MAX];
    // Runs the kernel over rows of these operands, in the order above.
    void (*run)(const void *shape, struct lf_device *device, enum lf_isa isa, uint32_t rows,
                void *const *operand);
};

// The same bits alone, among hostile rows, threaded and in every set; guards and inputs intact.
void lf_rows_check(const struct lf_rows_case *c);
