// A kernel's record: what gates must know of it (kernel-contract.md 1); README.md: writing one.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "contract/check.h"
#include "format/topology.h"
#include "kernel/table.h"

enum { LF_OPERANDS_MAX = 24, LF_ARGS_BYTES = 512 };

// What kernels run on: the CPU's instruction sets (enum lf_isa), then CUDA.
enum { LF_SET_CUDA = LF_ISAS, LF_SETS };
// As bits of lf_control.sets: all of the CPU's.
enum { LF_CPU_SETS = (1 << LF_ISAS) - 1 };

// Gates as bits: of red_in, of --gates, of what failed.
enum { LF_GATE_BOUND = 1, LF_GATE_ROWS = 2, LF_GATE_MEMORY = 4, LF_GATE_EDGES = 8 };
enum { LF_GATES_ALL = 15 };

// One shape: the kernel's own argument struct (or one of the record's) without its pointers.
struct lf_shape {
    char name[64];
    uint32_t rows; // most rows of one launch as it is served
    uint64_t work; // steps a row costs, about; 0: the elements of its operands
    _Alignas(16) unsigned char args[LF_ARGS_BYTES];
};

struct lf_shapes;
// Adds a shape of a launch of at most rows rows; an equal one is there once. The name is printf's.
struct lf_shape *lf_shapes_add(struct lf_shapes *shapes, uint32_t rows, const void *args,
                               size_t args_bytes, const char *name, ...)
    __attribute__((format(printf, 5, 6)));

// What is served of one configuration, at its limits.
struct lf_served {
    const char *name; // "demo", "release"
    const struct lf_topology *t;
    uint32_t chunk_rows;  // largest prompt launch
    uint32_t launch_rows; // largest decode launch
    uint32_t window_rows; // largest window of a lane
    uint32_t slots;
    uint64_t context;
    bool whole; // weights of their full size: nothing is run
};

enum lf_role {
    LF_IN,      // values of a row: beside it may lie anything, NaN included
    LF_RULE,    // ids, positions, counts of a row: beside it lie those of other rows
    LF_INOUT,   // values of a row, changed in place
    LF_OUT,     // results of a row
    LF_WEIGHT,  // the same for all rows
    LF_POINTER, // n addresses a row, filled by bind
};
enum lf_type { LF_U8, LF_BF16, LF_F32, LF_U32, LF_U64 };

// Where a filler is: row is the row's number in the problem, 0 for a weight.
struct lf_fill {
    struct lf_check_rng *rng;
    enum lf_check_style style;
    const void *args; // the shape's
    uint32_t row;
};
typedef void lf_fill_fn(const struct lf_fill *fill, void *data, size_t n);

struct lf_operand {
    const char *name;
    enum lf_role role;
    enum lf_type type; // structs: LF_U8 with n = sizeof
    size_t n;          // elements a row; of a weight in all; 0: absent
    size_t pitch;      // elements from row to row, 0: n; the gap between is never written
    size_t align;      // bytes its address is a multiple of, 0: the type's size, structs: 8
    float scale;       // deviation of the default fill, 0: 1
    lf_fill_fn *fill;  // NULL: values of the style
    uint32_t may_be;   // 1 + the operand whose memory this output may share; 0: none
    uint32_t quantizes; // 1 + the output whose QA8 values this one has, bit for bit; 0: none
};

static inline struct lf_operand lf_operand(const char *name, enum lf_role role, enum lf_type type,
                                           size_t n) {
    return (struct lf_operand){.name = name, .role = role, .type = type, .n = n};
}

// One launch. data[i] is operand i; source[place] the problem's row there, LF_NO_ROW hostile.
enum { LF_NO_ROW = UINT32_MAX };
struct lf_trial;
struct lf_call {
    struct lf_trial *trial;
    const struct lf_shape *shape;
    uint32_t rows;
    const uint32_t *source;
    void *data[LF_OPERANDS_MAX];
    _Alignas(16) unsigned char args[LF_ARGS_BYTES]; // bound
};

// A planted fault: #if LF_FAULT == number in the CPU's source, LF_CONTROL(number, ...) in CUDA's.
struct lf_control {
    uint32_t number;
    const char *fault;
    uint32_t red_in; // gates, each of which must fail
    uint32_t sets;   // bits of those whose code holds it; 0: all
};

// An agreed deviation: counted apart, never as a pass; normally there is none.
struct lf_finding {
    const char *id, *what;
    bool (*covers)(const void *args, uint32_t operand, uint32_t row, size_t column);
};

// A product of an address computation at the served extremes, and the bits that hold it.
struct lf_product {
    const char *what;
    uint64_t value;
    uint32_t bits;
};
enum { LF_PRODUCTS_MAX = 8 };

// Sums of a set that are not the CPU's: gate 2 holds them to themselves.
struct lf_own_sums {
    bool (*apart)(const void *args); // whether this shape's are
    void (*bound)(const void *args, const double *ref, double *error); // instead of the record's
    void (*expect)(struct lf_call *call); // the bits they must have
};

struct lf_record {
    const char *name;     // as in registry.def
    const char *file;     // source file, for the report
    const char *contract; // the header's: formula, order of sums, rounding, edges
    uint32_t operands;
    // Shapes of a configuration; ragged: those that divide no tile, of no configuration.
    void (*shapes)(const struct lf_served *served, struct lf_shapes *shapes);
    void (*ragged)(struct lf_shapes *shapes);
    void (*describe)(const void *args, struct lf_operand *operand);
    // args holds a copy of the shape's; sets rows and pointers.
    void (*bind)(const struct lf_call *call, void *args);
    // Doubles of a row of the float64 reference; NULL: of its outputs but quantized ones, in order.
    size_t (*columns)(const void *args);
    // Error before the output's rounding, laid out as ref. NULL: outputs are exact.
    void (*bound)(const void *args, const double *ref, double *error);
    // Instead of the comparison element by element: lf_judge_element or lf_expect on the call.
    void (*judge)(struct lf_call *call, const double *ref);
    // Which elements of an output are written; NULL: all.
    bool (*written)(const void *args, uint32_t operand, uint32_t row, size_t column);
    double rms_limit; // 0: only elements; else RMS(error) / RMS(limit) may not pass it
    // Hostile kinds (bits) whose results float64 gives as well; others are in edges.
    uint32_t hostile;
    void (*edges)(struct lf_trial *trial, const struct lf_shape *shape);
    const struct lf_own_sums *cuda_sums; // NULL: CUDA has the CPU's bits
    // Weights of a bound call in the order that CUDA reads, or back as they were; NULL: one order.
    void (*cuda_turn)(void *args, bool back);
    // Gate 2 of kernels with state: windows of lanes cut differently; NULL: rows are all there is.
    void (*windows)(struct lf_trial *trial, const struct lf_shape *shape);
    size_t (*scratch)(const void *args); // bytes a thread; NULL: none
    size_t stack_bytes;                  // most stack a call takes
    // Fills what is computed in 32 bits (or fewer) for a launch of rows; returns how many.
    uint32_t (*products)(const void *args, uint32_t rows, struct lf_product *product);
    uint32_t (*cuda_products)(const void *args, uint32_t rows, struct lf_product *product);
    const struct lf_control *controls;
    uint32_t n_controls;
    const struct lf_finding *findings;
    uint32_t n_findings;
};

// For judge, edges and windows. A call's rows are 0 .. rows-1 of a problem of that style.
struct lf_call *lf_call_open(struct lf_trial *trial, const struct lf_shape *shape, uint32_t rows,
                             enum lf_check_style style);
void lf_call_close(struct lf_call *call);
// Binds and runs on the trial's present instruction set with its threads.
void lf_call_run(struct lf_call *call);
// The same after the reference, then judges the results as gate 1 does.
void lf_call_judge(struct lf_call *call);
// Element of row `row` of an operand.
void *lf_call_at(const struct lf_call *call, uint32_t operand, uint32_t row, size_t column);

// |out - ref| <= error and the output's rounding; a negative error: equal, the zero's sign too.
void lf_judge_element(struct lf_call *call, uint32_t operand, uint32_t row, size_t column,
                      double ref, double error);
// The element's bits are want.
void lf_expect_bits(struct lf_call *call, uint32_t operand, uint32_t row, size_t column,
                    uint64_t want, const char *why);
// Whether the set that runs the call has sums of its own.
bool lf_call_own_sums(const struct lf_call *call);
void lf_expect(struct lf_call *call, bool holds, uint32_t operand, uint32_t row, size_t column,
               const char *why);
