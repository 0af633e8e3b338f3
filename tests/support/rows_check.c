#include "rows_check.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One call's operands, its inputs as they were, and which given row lies at each place.
struct call {
    const struct lf_rows_case *c;
    uint32_t rows;
    int32_t *given; // -1: a hostile row
    struct lf_check_buffer buffer[LF_ROWS_OPERANDS_MAX];
    uint8_t *before[LF_ROWS_OPERANDS_MAX];
};

static void fill_row(const struct lf_rows_operand *operand, uint8_t *row, int32_t given,
                     uint32_t place) {
    size_t bytes = operand->row_bytes;
    const uint8_t *rows = operand->rows;
    if (given >= 0)
        memcpy(row, rows + (size_t)given * bytes, bytes);
    else if (operand->kind == LF_ROWS_FIXED)
        memcpy(row, rows, bytes);
    else if (bytes % 2)
        memset(row, (int)place, bytes);
    else
        lf_check_fill_hostile(place, (uint16_t *)(void *)row, bytes / 2);
}

// Places given rows from `first` on at the places where (place + first) is a multiple of spread.
static void open_call(struct call *call, const struct lf_rows_case *c, uint32_t rows,
                      uint32_t first, uint32_t spread, uint8_t poison) {
    *call = (struct call){.c = c, .rows = rows, .given = calloc(rows, sizeof *call->given)};
    assert_non_null(call->given);
    for (uint32_t place = 0, next = first; place < rows; place++)
        call->given[place] = (place + first) % spread ? -1 : (int32_t)(next++ % c->rows);
    for (uint32_t i = 0; i < c->operands; i++) {
        const struct lf_rows_operand *operand = &c->operand[i];
        call->buffer[i] = lf_check_open(rows * operand->row_bytes, 0);
        lf_check_poison(&call->buffer[i], poison);
        uint8_t *data = call->buffer[i].data;
        for (uint32_t place = 0; place < rows && operand->kind != LF_ROWS_OUT; place++)
            fill_row(operand, data + place * operand->row_bytes, call->given[place], place);
        call->before[i] = malloc(rows * operand->row_bytes);
        assert_non_null(call->before[i]);
        memcpy(call->before[i], data, rows * operand->row_bytes);
    }
}

static void run_call(struct call *call, struct lf_device *device, enum lf_isa isa) {
    void *operand[LF_ROWS_OPERANDS_MAX];
    for (uint32_t i = 0; i < call->c->operands; i++)
        operand[i] = call->buffer[i].data;
    call->c->run(call->c->shape, device, isa, call->rows, operand);
    for (uint32_t i = 0; i < call->c->operands; i++) {
        const struct lf_rows_operand *o = &call->c->operand[i];
        lf_check_guards(&call->buffer[i], call->c->name);
        if (o->kind == LF_ROWS_IN || o->kind == LF_ROWS_FIXED)
            lf_check_same(call->c->name, call->buffer[i].data, call->before[i],
                          call->rows * o->row_bytes);
    }
}

static void close_call(struct call *call) {
    for (uint32_t i = 0; i < call->c->operands; i++) {
        lf_check_close(&call->buffer[i]);
        free(call->before[i]);
    }
    free(call->given);
}

// Compares every given row of the call with its results alone.
static void compare(const struct call *call, const struct call *alone, const char *how) {
    char what[160];
    for (uint32_t i = 0; i < call->c->operands; i++) {
        const struct lf_rows_operand *o = &call->c->operand[i];
        const uint8_t *data = call->buffer[i].data;
        if (o->kind == LF_ROWS_IN || o->kind == LF_ROWS_FIXED)
            continue;
        for (uint32_t place = 0; place < call->rows; place++) {
            int32_t given = call->given[place];
            if (given < 0)
                continue;
            snprintf(what, sizeof what, "%s %s: operand %u, row %d at place %u of %u",
                     call->c->name, how, i, (int)given, place, call->rows);
            lf_check_same(what, data + place * o->row_bytes, alone[given].buffer[i].data,
                          o->row_bytes);
        }
    }
}

static void check_calls(const struct lf_rows_case *c, const struct call *alone,
                        struct lf_device *device, enum lf_isa isa) {
    static const uint32_t counts[] = {1, 2, 3, 8, 17};
    char how[64];
    snprintf(how, sizeof how, "%s on %u threads", lf_isa_name(isa),
             lf_pool_threads(device->pool));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (uint32_t first = 0; first < c->rows; first++) {
            struct call call;
            open_call(&call, c, counts[i], first, counts[i] == 1 ? 1 : 1 + (first & 1), 0x5A);
            if (counts[i] == 1)
                call.given[0] = (int32_t)first;
            run_call(&call, device, isa);
            compare(&call, alone, how);
            close_call(&call);
        }
}

void lf_rows_check(const struct lf_rows_case *c) {
    struct call *alone = calloc(c->rows, sizeof *alone);
    struct lf_device *device = lf_check_device(1);
    assert_non_null(alone);
    for (uint32_t row = 0; row < c->rows; row++) {
        open_call(&alone[row], c, 1, row, 1, 0xC3);
        run_call(&alone[row], device, LF_ISA_PORTABLE);
    }
    lf_check_device_close(device);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        device = lf_check_device(threads);
        for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++)
            if (lf_isa_present(isa))
                check_calls(c, alone, device, isa);
        lf_check_device_close(device);
    }
    for (uint32_t row = 0; row < c->rows; row++)
        close_call(&alone[row]);
    free(alone);
}
