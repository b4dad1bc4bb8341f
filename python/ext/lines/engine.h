/* engine.h -- what the files of the line source share; private to this folder.
 *
 * settrace.c (3.11) or monitoring.c (3.12 and later) receive the interpreter's events;
 * statement.c finds out what changed, with path.c (which object a name leads to), reads.c
 * and state.c (is the tensor as it was?); emit.c calls the consumers.  source.c, frames.c and
 * table.c keep consumers, code objects and frames.  Everything runs with the GIL held.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_ENGINE_H
#define TT_EXT_LINES_ENGINE_H

#include "base/frame.h"
#include "base/map.h"
#include "binding/state.h"
#include "lines/source.h"
#include "lines/table.h"
#include "tensor/change.h"

/* ---- states -------------------------------------------------------------- */

/* A name as we saw it last.  Its kind is KIND_NONE if no consumer wants such values. */
typedef struct lines_state {
    tensor_fingerprint seen;
    uint64_t key;
    bool is_seen;
} lines_state;

/* Where a path leads now. */
typedef struct lines_target {
    PyObject *object; /* borrowed; NULL: nothing there */
    tensor_kind kind;
    int path;          /* the shortest that leads to the tensor: x for x[0], x.T */
    int slot;          /* of a local, else -1 */
    const void *owner; /* the dict, container or object that holds it */
    uint64_t member;   /* which of the owner's */
} lines_target;

enum { MOST_ITEMS = 24, MOST_ITEMS_EACH = 8 }; /* of containers that a statement reads whole */

/* ---- code objects and frames --------------------------------------------- */

/* Which names of a code object are wanted; see names.c. */
typedef struct lines_names {
    bool is_narrow;   /* all who want changes want those of some names only */
    bool has_touches; /* a consumer wants LINES_TOUCHED */
    uint32_t *wanted; /* owned; of each path: who wants its changes; NULL: everybody */
    uint8_t *touched; /* owned; of each statement, if is_narrow: STORES_NAMED, SHOWS_NAMED */
    int *slots;       /* owned; local slots of wanted names, if is_narrow */
    int slot_count;
} lines_names;

typedef struct lines_code {
    PyCodeObject *code;       /* owned: an address is not used again while we know it */
    const lines_table *table; /* of the code object; NULL: not selected, or it could not be made */
    uint64_t generation;      /* of the consumers that were asked */
    uint32_t mask;            /* consumers that selected it */
    uint32_t local_events;    /* 3.12 and later: events that are on */
    bool is_refused;          /* no table, or monitoring said no */
    int first[LINES_MAX_CONSUMERS], last[LINES_MAX_CONSUMERS]; /* lines wanted */
    lines_names names;
} lines_code;

enum { STORES_NAMED = 1 << 0, SHOWS_NAMED = 1 << 1 }; /* followers included */

/* A read of the statement that runs, or a tensor in a container that it reads whole. */
typedef struct lines_saved_read {
    lines_state state;
    lines_target target; /* its path is -1: no tensor there; of an item, the container's */
    int parent;          /* of an item: the position of the container's read */
    PyObject *item;      /* owned; the item's key; NULL: a read of its own */
} lines_saved_read;

/* A list or dict that the statement reads, before it ran. */
typedef struct lines_noted_box {
    int path;
    const PyObject *object; /* for comparison; NULL: there was none */
    Py_ssize_t size;
} lines_noted_box;
enum { MOST_BOXES = 4 };

typedef struct lines_record {
    base_frame *at;
    lines_code *code;
    uint64_t number, caller;
    uint64_t thread;
    uint32_t mask;           /* consumers that want this frame */
    bool is_bare;            /* made without a table: all of them are LINES_BARE */
    int statement;           /* that runs; -1: none */
    int line_event;          /* the instruction that had one, if an instruction event follows; -1: none */
    uint64_t run;            /* goes up with each statement that may call something */
    bool is_stepping;        /* up to 3.11: we switched the frame's instruction events on */
    bool compares;           /* it may have changed more than it stores */
    bool has_reads;          /* reads are filled */
    uint64_t used;           /* for dropping the oldest suspended generator */
    int read_count;          /* that are filled, items included */
    lines_saved_read *reads; /* owned; most_reads and MOST_ITEMS of them */
    const void **far_owner;  /* owned; per path: the owner when we looked last, NULL: not shown */
    int *far;                /* owned; paths that are shown and no locals */
    int far_count;
    lines_noted_box boxes[MOST_BOXES];
    int box_count;
    int slot_count;
    lines_state slots[]; /* by local slot */
} lines_record;

/* The line of an instruction. */
static inline int lines_record_line(const lines_record *record, int instruction)
{
    return record->is_bare ? PyCode_Addr2Line(record->code->code, instruction * CODE_UNIT)
                           : record->code->table->line_at[instruction];
}

/* ---- the source ---------------------------------------------------------- */

/* The first consumer of a set that is not empty:
 *
 *     for (uint32_t left = mask; left != 0; left &= left - 1)
 *         use(lines_first(left)); */
static inline int lines_first(uint32_t mask)
{
    return __builtin_ctz(mask);
}

typedef struct lines_consumer_slot {
    lines_consumer consumer;
    PyObject *names;       /* owned or NULL */
    PyObject *roots;       /* owned or NULL; of names: x of x.y[0] */
    PyObject *first_error; /* owned or NULL */
    uint64_t errors;
    uint64_t own_before;  /* the source's own errors when it was added */
    uint64_t thread;      /* that added it: PyThreadState_GetID */
    uint64_t last_thread; /* the newest thread at that time */
    bool is_muted;
} lines_consumer_slot;

struct lines_source {
    binding_state *core;
    lines_consumer_slot consumers[LINES_MAX_CONSUMERS];
    uint32_t mask;                        /* slots in use */
    uint32_t wants;                       /* of all consumers */
    uint32_t masks[LINES_FUNCTION_COUNT]; /* consumers that have the function */
    uint32_t bare_mask;                   /* with LINES_BARE */
    uint64_t generation, next_key, next_frame;
    base_map codes;      /* PyCodeObject -> lines_code */
    Py_ssize_t extra;    /* index of our table in co_extra of code objects */
    base_map frames;     /* base_frame -> lines_record */
    size_t drop_at;      /* so many frames: look for abandoned generators */
    lines_record *last;  /* the one that had an event last */
    uint64_t uses;       /* counts events that made frames, for dropping */
    base_map shared;     /* owner and member -> lines_state of a global, attribute or item, which all
                           frames that name it share */
    PyObject *analyse;   /* owned; tensortap.analysis.table.packed_table */
    PyObject *threading; /* owned; the module */
    uint64_t own_errors; /* ours, not a consumer's */
    PyObject *own_error; /* owned or NULL; text of the first */
    struct lines_driver *driver; /* owned; of settrace.c or monitoring.c */
    bool is_running;
    unsigned inside; /* threads that are in a callback: their records stay */
};

/* What a statement changed. */
typedef struct lines_found_change {
    lines_target target;
    lines_how how;
    const lines_write *write; /* NULL: not written by name */
    PyObject *item;           /* owned; key of an item of the container at the path, or NULL */
    lines_state old, now;
} lines_found_change;

/* Mostly one entry.  An optimizer's step may change hundreds of names, and all must be reported
 * for this line and no later one. */
typedef struct lines_found_list {
    lines_found_change *all; /* owned */
    size_t count, cap;
} lines_found_list;

/* Another one, without an item and states; NULL: no memory. */
lines_found_change *lines_found_add(lines_found_list *list, const lines_target *target, lines_how how,
                                    const lines_write *write);
bool lines_found_has(const lines_found_list *list, const lines_target *target);

/* ---- source.c, frames.c, callers.c ----------------------------------------- */

/* Its frame, up to 3.11, is a part of its statement. */
bool lines_code_is_comprehension(PyCodeObject *code);
lines_code *lines_source_code(lines_source *source, PyCodeObject *code); /* NULL: not selected */
lines_record *lines_source_find(lines_source *source, base_frame *at);
/* The record of a frame, perhaps a new one; NULL: no consumer wants this frame. */
lines_record *lines_source_frame(lines_source *source, base_frame *at, lines_code *code, bool is_fresh);
/* The nearest frame below that has a record, or NULL. */
lines_record *lines_source_below(lines_source *source, base_frame *at);
void lines_source_forget(lines_source *source, lines_record *record);
void lines_source_forget_all(lines_source *source);         /* frames, code objects, states */
void lines_source_note_error(lines_source *source, int id); /* counts and clears; id -1: ours */
/* The frame starts, or (not fresh) a generator resumes. */
void lines_record_enter(lines_source *source, lines_record *record, bool is_fresh);
/* The frame is left or suspended at an instruction; value NULL: by an exception. */
void lines_record_leave(lines_source *source, lines_record *record, int instruction, PyObject *value,
                        bool is_yield);

/* ---- table.c --------------------------------------------------------------- */

int lines_table_prepare(lines_source *source); /* -1: an exception is set */
/* Borrowed, valid while the code object lives.  NULL: it cannot be made; an exception is set
 * the first time. */
const lines_table *lines_table_of(lines_source *source, PyCodeObject *code);

/* ---- names.c --------------------------------------------------------------- */

int lines_names_roots(PyObject *names, PyObject **roots); /* a new frozenset; -1: an exception is set */
bool lines_names_are_in(PyCodeObject *code, PyObject *roots);
void lines_names_find(lines_source *source, lines_code *code); /* after the consumers were asked */
void lines_names_free(lines_names *names);
bool lines_names_are_live(const lines_record *record); /* is there a thing that a call may change? */
static inline bool lines_path_is_wanted(const lines_code *code, int path)
{
    return code->names.wanted == NULL || code->names.wanted[path] != 0;
}

/* ---- statement.c ----------------------------------------------------------- */

/* The statement at an instruction; NULL: none. */
static inline const lines_statement *lines_statement_of(const lines_record *record, int instruction)
{
    const lines_table *table = record->code->table;
    bool is_inside = table != NULL && instruction >= 0 && instruction < table->instruction_count;
    int number = is_inside ? table->statement_at[instruction] : -1;
    return number >= 0 ? &table->statements[number] : NULL;
}
/* Does the instruction start a statement in the middle of a line? */
static inline bool lines_statement_steps(const lines_record *record, int instruction)
{
    const lines_statement *one = lines_statement_of(record, instruction);
    return one != NULL && one->flags & STATEMENT_STEPS && one->start == instruction;
}
/* A line is about to run. */
void lines_statement_at(lines_source *source, lines_record *record, int instruction);
/* The same for plain Python; false: nothing was done, call lines_statement_at.  Calls
 * no consumer and leaves no exception. */
bool lines_statement_quick(lines_source *source, lines_record *record, int instruction);
/* An instruction is about to run, which may start a statement in the middle of a line.  Does
 * nothing if its line event came just before. */
void lines_statement_step(lines_source *source, lines_record *record, int instruction);
/* A generator that was suspended before we came resumes in the middle of a statement. */
void lines_statement_resume(lines_source *source, lines_record *record);
/* The frame is left or suspended at `instruction`. */
void lines_statement_end(lines_source *source, lines_record *record, int instruction, PyObject *value,
                         bool is_yield);
/* Adopts what the locals hold now.  before: NULL, or of each path whether it was wanted already. */
void lines_statement_adopt(lines_source *source, lines_record *record, const uint32_t *before);

/* ---- emit.c ---------------------------------------------------------------- */

void lines_emit_changes(lines_source *source, lines_record *record, const lines_statement *statement,
                        const lines_found_change *found, int count);
void lines_emit_reads(lines_source *source, lines_record *record, const lines_statement *statement,
                      uint32_t mask);
void lines_emit_line(lines_source *source, lines_record *record, int instruction);
void lines_emit_enter(lines_source *source, lines_record *record, bool is_resumed);
void lines_emit_sent(lines_source *source, lines_record *record); /* if it is a tensor */
void lines_emit_leave(lines_source *source, lines_record *record, const lines_statement *statement,
                      PyObject *value, bool is_yield);

/* ---- reads.c --------------------------------------------------------------- */

void lines_reads_save(lines_source *source, lines_record *record, const lines_statement *statement,
                      bool is_late);
/* Remembers that the frame has named this target; locals are always known. */
void lines_reads_show(lines_record *record, const lines_target *target);
void lines_reads_clear(lines_record *record);
static inline bool lines_is_container(PyObject *obj)
{
    return PyList_CheckExact(obj) || PyDict_CheckExact(obj);
}
bool lines_items_are_tensors(lines_source *source, PyObject *box); /* is one among the first? */
/* A container was stored, or has grown: adds items to found. */
void lines_items_stored(lines_source *source, lines_record *record, const lines_statement *statement,
                        const lines_write *write, PyObject *box, lines_found_list *found);
void lines_items_grown(lines_source *source, lines_record *record, lines_found_list *found);

/* ---- path.c ---------------------------------------------------------------- */

void lines_path_find(lines_source *source, lines_record *record, int path, bool is_stored,
                     lines_target *out);
PyObject *lines_path_item(PyObject *container, PyObject *key); /* borrowed or NULL; runs no Python code */
bool lines_path_is_key(PyObject *key); /* can it be hashed and named without running Python code? */
uint64_t lines_path_member(Py_hash_t hash, lines_path_kind kind);
PyObject *lines_path_text(lines_source *source, lines_record *record, int path); /* new or NULL */
lines_kind lines_path_name_kind(const lines_record *record, int path);
/* Of a type whose operators run no Python code and change nothing? */
static inline bool lines_path_is_plain(PyObject *obj)
{
    if (obj == NULL)
        return true;
    PyTypeObject *type = Py_TYPE(obj);
    return type == &PyLong_Type || type == &PyFloat_Type || obj == Py_None || type == &PyUnicode_Type ||
           type == &PyBool_Type || type == &PyComplex_Type || type == &PyBytes_Type ||
           type == &PyModule_Type || type == &PyFunction_Type || type == &PyCFunction_Type ||
           type == &PyType_Type;
}

/* Are all locals that a statement reads plain? */
static inline bool lines_statement_is_plain(const lines_record *record, const lines_statement *statement)
{
    const lines_table *table = record->code->table;
    for (int i = 0; i < statement->read_count; i++) {
        const lines_path *path = &table->paths[table->reads[statement->reads + i]];
        if (!lines_path_is_plain(base_frame_slot(record->at, path->base, path->detail)))
            return false;
    }
    return true;
}

/* ---- state.c ---------------------------------------------------------------- */

tensor_kind lines_state_kind_slow(lines_source *source, PyObject *obj);
static inline tensor_kind lines_state_kind(lines_source *source, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!(source->wants & LINES_OBJECTS) &&
        (type->tp_flags & NEVER_TENSOR || type == &PyFloat_Type || obj == Py_None))
        return KIND_NONE;
    return lines_state_kind_slow(source, obj);
}
void lines_state_adopt(lines_source *source, lines_state *state, PyObject *obj, tensor_kind kind);
/* Is the tensor other than it was?  Writes nothing. */
bool lines_state_differs(lines_source *source, const lines_state *state, PyObject *obj, bool is_hidden);
void lines_state_update(lines_source *source, lines_state *state, PyObject *obj, tensor_kind kind,
                        bool is_hidden);
void lines_state_digest(lines_source *source, lines_state *state, PyObject *obj);
/* Both are good until the next call; NULL: out of memory. */
lines_state *lines_shared_state(lines_source *source, const void *owner, uint64_t member);
void lines_shared_clear(lines_source *source);
static inline lines_state *lines_target_state(lines_source *source, lines_record *record,
                                              const lines_target *target)
{
    return target->slot >= 0 ? &record->slots[target->slot]
                             : lines_shared_state(source, target->owner, target->member);
}
/* Around a look at several tensors; what it returns goes to tensor_quiet_leave(). */
PyObject *lines_state_begin(lines_source *source);

/* ---- settrace.c or monitoring.c, by version --------------------------------- */

int lines_driver_start(lines_source *source); /* -1: an exception is set */
void lines_driver_stop(lines_source *source);
void lines_driver_changed(lines_source *source); /* other consumers than before */

#endif
