/* table.h -- what each statement of a code object reads and writes.
 *
 * Made once for a code object; the analysis is in Python (tensortap/analysis), on
 * the syntax tree.  Here is the form that the events need: arrays.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_TABLE_H
#define TT_EXT_LINES_TABLE_H

#include "base/compat.h"

#include <stdbool.h>

typedef enum lines_path_kind { /* as in analysis/paths.py */
                               PATH_LOCAL,
                               PATH_GLOBAL,
                               PATH_NAME,
                               PATH_ATTRIBUTE,
                               PATH_ITEM,
                               PATH_ITEM_BY,
                               PATH_OPAQUE,
} lines_path_kind;

typedef struct lines_path {
    lines_path_kind kind;
    int base;         /* slot of a local; path of an attribute's or item's owner */
    int key;          /* PATH_ITEM_BY: the path of the key; -1: detail is how to compute it (path.c) */
    PyObject *detail; /* borrowed; the name, or the constant key */
    PyObject *text;   /* borrowed; as written */
    Py_hash_t hash;   /* of detail */
    bool is_about;    /* an attribute that describes a tensor: shape, device, size */
} lines_path;

enum {                              /* of a statement, as in analysis/statement.py */
       STATEMENT_CALLS = 1 << 0,    /* anything may happen */
       STATEMENT_OPERATES = 1 << 1, /* operators: harmless for plain types */
       STATEMENT_DIGESTS = 1 << 2,  /* touches .data or the like: versions do not tell */
       STATEMENT_HANDLES = 1 << 3,  /* entered by an exception */
       STATEMENT_RETURNS = 1 << 4,
       STATEMENT_LOOPS = 1 << 5,        /* takes the next item of a loop, or goes to exit */
       STATEMENT_AUGMENTS = 1 << 6,     /* has an in-place operator */
       STATEMENT_BRANCHES = 1 << 7,     /* what follows on the line may not run */
       STATEMENT_IS_FAR = 1 << 8,       /* reads more than locals */
       STATEMENT_IS_MAYBE = 1 << 9,     /* follows a branch on its line */
       STATEMENT_IS_SELFISH = 1 << 11,  /* stores what it reads, or a part of it */
       STATEMENT_IS_FOLLOWED = 1 << 10, /* by one that calls or operates, without an event */
       STATEMENT_STEPS = 1 << 13,       /* it has an event of its own, and no line */
       STATEMENT_LEADS = 1 << 14,       /* one with STEPS comes after it on its line */
};

enum {
    WRITE_SAME = 1 << 0,
    WRITE_IN_PLACE = 1 << 1,
    WRITE_MAYBE = 1 << 2,
    WRITE_PART = 1 << 4, /* taken out of what is read as it is: `for a in xs`, `a, b = xs` */
};

typedef struct lines_write {
    int path, flags;
    int reads, read_count; /* in write_reads */
    int calls, call_count; /* in write_calls */
    int direct_count;      /* calls, the first ones, whose result or a part of it is written as it is */
    int parts, part_count; /* in parts: items of a list or dict that is built and written */
} lines_write;

typedef struct lines_statement {
    int start, end; /* instructions; all as in a row of table.Table */
    int line;
    uint32_t flags;
    int exit; /* an instruction */
    int reads, read_count;
    int writes, write_count;
    int followers; /* statements after it that have no event of their own */
} lines_statement;

/* A call, and what it is given: its parts are the arguments, by position or name (None: not known). */
typedef struct lines_site {
    int site; /* the instruction */
    lines_write given;
} lines_site;

typedef struct lines_table {
    PyObject *lists;         /* owned; table.Table: all const arrays and Python objects are its */
    lines_path *paths;       /* owned */
    const int *statement_at; /* of each instruction; -1: none */
    const int *slot_path;    /* of each local slot: its path, or -1 */
    const lines_statement *statements; /* by instruction */
    const int *line_at;                /* of each instruction */
    const int *begin_at;               /* of each code unit: that of its instruction */
    const int *reads;                  /* paths */
    const lines_write *writes;
    const int *write_reads;   /* positions in the statement's reads */
    const int *write_calls;   /* instructions whose call's result is in what is written */
    const lines_write *parts; /* items of what a statement builds: where each alone comes from */
    PyObject *part_keys;      /* list */
    const lines_site *sites;  /* by instruction */
    int site_count;
    int path_count, statement_count, instruction_count;
    int slot_count; /* local slots that paths name: 1 + the highest */
    int argument_count;
    int most_reads;
    bool is_hidden;      /* .data or the like is used somewhere */
    bool has_tight_loop; /* a loop on one line */
    bool has_steps;      /* a statement with STATEMENT_STEPS */
} lines_table;

#endif
