/* log.h -- the operators that ran, the tensors that they read and wrote, and who wrote those before.
 *
 * OperatorLog is the base class of a TorchDispatchMode, so torch calls it for every operator of a
 * thread.  It notes facts only: which operator created a bad value is decided afterwards, in
 * python/tensortap/operators.  "Bad" is NaN or Inf.  Needs the GIL throughout.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_OPERATORS_LOG_H
#define TT_EXT_OPERATORS_LOG_H

#include "base/map.h"
#include "binding/state.h"
#include "binding/type.h"

enum { OPERATORS_NONE = -1, OPERATORS_PLACES = 8 };

/* What describe(func) of Python answers: of an operator. */
enum {
    OPERATOR_IGNORED = 1 << 0,    /* it computes nothing: profiler ranges, our probes */
    OPERATOR_EMPTY = 1 << 1,      /* its result is memory that nobody has written */
    OPERATOR_OVERWRITES = 1 << 2, /* what it writes to is not read: copy_, out= */
    OPERATOR_EACH = 1 << 3,       /* item i of its result comes from item i of its lists: foreach */
};

/* What classify(code) of Python answers: whose code it is. */
typedef enum operators_code {
    CODE_PROGRAM,
    CODE_PACKAGE,    /* an installed package */
    CODE_TORCH,      /* torch, tensortap and Python's library: never the line that is named */
    CODE_MODULE,     /* nn.Module.__call__: its first argument is the module */
    CODE_BACKWARD,   /* calls autograd's engine */
    CODE_CHECKPOINT, /* computes a forward again */
    CODE_OPTIMIZER,
    CODE_COMPILED, /* calls a compiled graph; the generated code is inside of it */
    CODE_COUNT_,
} operators_code;

/* Of a row. */
enum {
    ROW_NATIVE = 1 << 0,     /* a node of autograd called it, no Python code */
    ROW_RECOMPUTED = 1 << 1, /* a forward that a checkpoint repeats */
    ROW_MAKES_NODE = 1 << 2, /* autograd made node number `made` for it */
    ROW_RAISED = 1 << 3,
    ROW_INF_ARGUMENT = 1 << 4, /* one of its numbers is Inf */
    ROW_NAN_ARGUMENT = 1 << 5,
    ROW_STEPS = 1 << 6,    /* an optimizer called it */
    ROW_COMPILED = 1 << 7, /* a compiled graph did; the line is the one that called the graph */
};

/* A line of the program. */
typedef struct operators_line {
    PyCodeObject *code; /* borrowed from `codes`; NULL: unknown */
    int32_t number;
} operators_line;

typedef struct operators_row {
    uint32_t operator;           /* in `kinds` */
    operators_line line, caller; /* caller: in no installed package */
    int32_t module;              /* OPERATORS_NONE: unknown */
    int32_t node_type;           /* of the node that runs; OPERATORS_NONE: this is not backward */
    uint32_t flags;              /* of ROW_ */
    uint64_t node;               /* its sequence number */
    uint64_t variable;           /* storage of the parameter that the node accumulates into; 0: none */
    uint64_t made;               /* sequence number of the newest node */
    int64_t start, end;          /* ns of time.perf_counter_ns() */
    unsigned long thread;
    size_t operands_at, results_at; /* in `tensors` */
    uint32_t operands, results;
} operators_row;

/* Of a tensor. */
enum {
    TENSOR_WRITTEN = 1 << 0,     /* in place */
    TENSOR_OVERWRITTEN = 1 << 1, /* ... and not read */
    TENSOR_VIEW = 1 << 2,        /* a result in the memory of an operand */
    TENSOR_UNWRITTEN = 1 << 3,   /* some of its memory comes from empty() and was never written */
    TENSOR_COMPILED = 1 << 4,    /* a compiled graph returned it */
};

typedef struct operators_tensor {
    int32_t writer;     /* the row that wrote its storage last; OPERATORS_NONE: none that we saw */
    int32_t bad_writer; /* the last row that left a bad value there */
    int32_t seen;       /* the last row at which all of this memory was finite */
    int32_t item;       /* in a list; -1: it is no item */
    int16_t argument;   /* position; -1: by keyword, or a result */
    uint8_t flags;      /* of TENSOR_ */
    uint8_t why;        /* tensor_view_result */
    bool has_stats;
    uint64_t storage; /* address of torch's StorageImpl; 0: unknown */
    int32_t dtype;    /* tt_dtype; -1: of no tensor that we can read */
    int32_t ndim;
    size_t shape_at; /* in `shapes` */
    tt_stats stats;
    /* Counted where bad values may have begun; -1: not counted. */
    int64_t negative;                     /* elements */
    int64_t bad_rows;                     /* of the first dimension */
    int64_t first_rows[OPERATORS_PLACES]; /* the first of them */
} operators_tensor;

/* A storage that some operator has read or written.  We keep torch's weak reference, so that no
 * other storage gets its address. */
typedef struct operators_memory {
    uint64_t storage;
    int32_t writer, bad_writer, seen;
    const char *bad_begin, *bad_end;   /* what bad_writer wrote */
    const char *seen_begin, *seen_end; /* what was finite at `seen` */
    const char *begin, *end;           /* what empty() returned, and nobody has written; NULL: nothing */
} operators_memory;

typedef struct operators_kind {
    uint32_t flags;   /* of OPERATOR_ */
    uint64_t written; /* bit i: it writes its i-th positional argument */
    PyObject *names;  /* borrowed from `answers`; tuple of the keyword arguments that it writes */
} operators_kind;

typedef struct operators_log {
    PyObject_HEAD
        /* From here to node_types owned, or NULL. */
        PyObject *describe,
        *classify, *name_module; /* functions of Python */
    PyObject *current_node, *sequence_number, *is_grad_enabled, *disabled_dispatch; /* of torch */
    PyObject *free_weak_ref;                                                        /* the same */
    PyObject *self_name;                                                            /* "self" */
    PyObject *error;      /* the first of our own */
    PyObject *operators;  /* list of torch's, by number */
    PyObject *answers;    /* list of what describe() returned */
    PyObject *codes;      /* list of code objects */
    PyObject *modules;    /* list; emptied by stop() */
    PyObject *names;      /* list of the modules' names */
    PyObject *node_types; /* list */
    binding_state *state;
    base_map kind_of, code_of, module_of, memory_of, node_type_of; /* address -> number + 1 */
    operators_kind *kinds;                                         /* owned, like the arrays below */
    size_t kind_count, kind_cap;
    operators_row *rows;
    size_t row_count, row_cap;
    operators_tensor *tensors;
    size_t tensor_count, tensor_cap;
    int64_t *shapes;
    size_t shape_count, shape_cap;
    operators_memory *memories;
    size_t memory_count, memory_cap;
    uint64_t newest;    /* node, when the last row began */
    long long limit;    /* rows */
    long long unlogged; /* operators after that */
    long long errors;   /* of our own */
} operators_log;

/* The number of an object, which `list` keeps alive; new: it was not there before.  -1 with an
 * exception. */
int32_t operators_number(base_map *map, PyObject *list, PyObject *obj, bool *is_new);

/* Counts an exception that is set, and clears it: no other call may find it. */
void operators_take_error(operators_log *self);

/* read.c */
/* Where the tensors that are visited stand: among the arguments or results of a row. */
typedef struct operators_spot {
    operators_log *self;
    int32_t row;
    int argument, item;
    uint8_t flags; /* of TENSOR_ */
    enum {
        OPERATORS_OPERAND, /* before it runs */
        OPERATORS_RESULT,
        OPERATORS_AGAIN /* operands once more, after it has created a bad value */
    } purpose;
    uint32_t count;                    /* tensors so far */
    bool has_created;                  /* a bad value */
    PyObject **written;                /* owned array of borrowed references: written in place */
    size_t written_count, written_cap; /* OPERATORS_RESULT only */
} operators_spot;
/* Notes the tensors in a value; 0, or -1: out of memory, or an exception. */
int operators_visit(operators_spot *where, PyObject *value, int depth);
/* The same for all arguments, or for those that the operator writes. */
int operators_visit_arguments(operators_spot *where, PyObject *args, PyObject *kwargs,
                              bool is_written_only);

/* rows.c: OperatorLog.read(index) -> tuple */
PyObject *operators_log_read(PyObject *self, PyObject *index);

/* line.c: the line, the module and the node that the running operator belongs to. */
void operators_find_line(operators_log *self, operators_row *row);

/* memory.c */
/* The storage of a tensor, noted if it is new; NULL: it has none, or no memory. */
operators_memory *operators_memory_of(operators_log *self, PyObject *tensor);
/* An operator reads the tensor: who wrote it? */
void operators_memory_read(operators_memory *memory, int32_t row, const tt_tensor *view,
                           operators_tensor *out);
/* An operator has written it; is_empty: it has only allocated it. */
void operators_memory_write(operators_memory *memory, int32_t row, const tt_tensor *view, bool is_empty,
                            operators_tensor *out);
void operators_memory_release(operators_log *self);

/* chart.c: operators_dot(nodes, edges) -> str */
BINDING_FUNCTION(operators_dot);

static inline bool operators_is_bad(const operators_tensor *t)
{
    return t->has_stats && t->stats.nan + t->stats.posinf + t->stats.neginf > 0;
}

#endif
