// Memory that faults outside of kernels and moves; the host's tables are spoilt while one runs.
#pragma once
#include "kernel/table.h"
#include "model/v41.h"

struct lf_mem *lf_apart_open(void);
void lf_apart_close(void);
// The model whose tables are spoilt; its memory is this one.
void lf_apart_watch(struct lf_v41 *m);
// What a kernel does first and last.
void lf_apart_enter(void);
void lf_apart_leave(void);
// Makes every kernel of the table do so. One table at a time.
void lf_apart_wrap(struct lf_kernels *table);
