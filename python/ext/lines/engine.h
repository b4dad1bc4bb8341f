/* engine.h -- what the files of the line source share; nobody else includes it.
 *
 * source.c keeps consumers, code objects and frames; path.c finds the
 * object at a path; state.c tells whether a tensor is as we saw it last;
 * statement.c does the work at an event; settrace.c (with bypass.c)
 * and monitoring.c bring the events.  Everything runs with the GIL held.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_ENGINE_H
#define TT_EXT_LINES_ENGINE_H

#include "base/frame.h"
#include "binding/state.h"
#include "lines/table.h"

/* ---- states -------------------------------------------------------------- */

typedef enum object_kind { KIND_NONE, KIND_TORCH, KIND_ARRAY, KIND_OBJECT } object_kind;

/* A name as we saw it last.  The address is for comparison only. */
typedef struct line_state {
    const PyObject *object;
    uint64_t key;
    tt_digest digest;
    uint32_t version;
    uint8_t kind; /* object_kind */
    bool has_version, has_digest, is_sampled, is_seen;
} line_state;

/* Where a path leads now. */
typedef struct line_place {
    PyObject *object; /* borrowed; NULL: nothing there */
    object_kind kind;
    int path;          /* the shortest that leads to the tensor: x for x[0], x.T */
    int slot;          /* of a local, else -1 */
    const void *owner; /* the dict, container or object that holds it */
    uint64_t member;   /* which of the owner's */
} line_place;

/* States of globals, attributes and items, by owner and member: all frames
 * that name the same thing share one.  Bounded: all are forgotten when it is full. */
typedef struct shared_entry {
    const void *owner;
    uint64_t member;
    line_state state;
} shared_entry;

typedef struct shared_states {
    shared_entry *entries; /* owned; open addressing */
    size_t cap, used;
} shared_states;

enum { MOST_ITEMS = 24, MOST_ITEMS_EACH = 8 }; /* of containers that a statement reads whole */

/* ---- code objects and frames --------------------------------------------- */

typedef struct line_code {
    PyCodeObject *code;      /* owned: an address is not used again while we know it */
    const line_table *table; /* of cache.c; NULL: not selected, or it could not be made */
    uint64_t generation;     /* of the consumers that were asked */
    uint32_t mask;           /* consumers that selected it */
    uint32_t local_events;   /* 3.12 and later: events that are on */
    bool is_refused;         /* no table, or monitoring said no */
    int first[LINE_MAX_CONSUMERS], last[LINE_MAX_CONSUMERS]; /* lines wanted */
    /* Names, see names.c. */
    bool is_narrow;   /* all who want changes want those of some names only */
    bool has_touches; /* somebody wants LINE_TOUCHED */
    uint32_t *named;  /* owned; of each path: who wants its changes; NULL: everybody */
    uint8_t *touched; /* owned; of each statement, if is_narrow: STORES_NAMED, SHOWS_NAMED */
    int *named_slots; /* owned; local slots of wanted names, if is_narrow */
    int named_slot_count;
} line_code;

enum { STORES_NAMED = 1 << 0, SHOWS_NAMED = 1 << 1 }; /* followers included */

/* A read of the statement that runs, or a tensor in a container that it reads whole. */
typedef struct saved_read {
    line_state state;
    int path;          /* -1: no tensor there */
    int parent;        /* of an item: the position of the container's read */
    PyObject *object;  /* borrowed, for `before` only */
    PyObject *item;    /* owned; the item's key; NULL: a read of its own */
    const void *owner; /* of an item: where its state is kept */
    uint64_t member;
} saved_read;

/* A list or dict that the statement reads, before it ran. */
typedef struct noted_box {
    int path;
    const PyObject *object; /* for comparison; NULL: there was none */
    Py_ssize_t size;
} noted_box;
enum { MOST_BOXES = 4 };

typedef struct frame_record {
    line_frame *at;
    PyObject *const *locals; /* its slots, or NULL: see locals_slots */
    line_code *code;
    uint64_t number, caller;
    uint64_t thread;
    uint32_t mask;          /* consumers that want this frame */
    bool is_bare;           /* made without a table: all of them are LINE_BARE */
    int statement;          /* that runs; -1: none */
    int told;               /* the instruction that had a line event, and will have a step; -1: none */
    uint64_t run;           /* goes up with each statement that may call something */
    bool is_stepping;       /* up to 3.11: we switched the frame's instruction events on */
    bool compares;          /* it may have changed more than it stores */
    bool has_reads;         /* reads are filled */
    uint64_t used;          /* for dropping the oldest suspended generator */
    int read_count;         /* that are filled, items included */
    saved_read *reads;      /* owned; most_reads and MOST_ITEMS of them */
    const void **far_owner; /* owned; per path: the owner when we looked last, NULL: not shown */
    int *far;               /* owned; paths that are shown and no locals */
    int far_count;
    noted_box boxes[MOST_BOXES];
    int box_count;
    int slot_count;
    line_state slots[]; /* by local slot */
} frame_record;

typedef struct pointer_map { /* address -> address; open addressing */
    const void **keys;
    void **values;
    size_t cap, used;
} pointer_map;

void **pointer_map_find(pointer_map *map, const void *key); /* NULL: not there */
int pointer_map_put(pointer_map *map, const void *key, void *value);
void pointer_map_remove(pointer_map *map, const void *key);
void pointer_map_free(pointer_map *map);

/* As locals_slot, without a call in the common case. */
static inline PyObject *record_slot(const frame_record *record, int slot, PyObject *name)
{
    PyObject *value = record->locals != NULL ? record->locals[slot] : NULL;
    if (record->locals != NULL && (value == NULL || !PyCell_Check(value)))
        return value;
    return locals_slot(record->at, slot, name);
}

/* ---- the source ---------------------------------------------------------- */

typedef struct consumer_slot {
    line_consumer consumer;
    PyObject *names;       /* owned or NULL */
    PyObject *roots;       /* owned or NULL; of names: x of x.y[0] */
    PyObject *first_error; /* owned or NULL */
    uint64_t errors;
    uint64_t own_before;  /* the source's own errors when it was added */
    uint64_t thread;      /* that added it: PyThreadState_GetID */
    uint64_t last_thread; /* the newest thread at that time */
    bool is_muted;
} consumer_slot;

enum { TYPE_CACHE = 64 };

/* Types of which no tensor is made. */
#define NEVER_TENSOR                                                                      \
    (Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS |    \
     Py_TPFLAGS_BYTES_SUBCLASS | Py_TPFLAGS_UNICODE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS | \
     Py_TPFLAGS_BASE_EXC_SUBCLASS | Py_TPFLAGS_TYPE_SUBCLASS)

struct line_source {
    core_state *core;
    consumer_slot consumers[LINE_MAX_CONSUMERS];
    uint32_t mask;  /* slots in use */
    uint32_t wants; /* of all consumers */
    uint32_t before_mask, line_mask, enter_mask, leave_mask, sent_mask, bare_mask;
    uint32_t lazy_mask;  /* of before_mask: with LINE_LAZY */
    uint32_t eager_mask; /* told something at each line */
    uint64_t generation, next_key, next_frame;
    pointer_map codes;  /* PyCodeObject -> line_code */
    pointer_map tables; /* PyCodeObject -> cached_table, of cache.c */
    size_t sweep_at;    /* so many tables: look for dead ones */
    pointer_map frames; /* line_frame -> frame_record */
    size_t drop_at;     /* so many frames: look for abandoned generators */
    frame_record *last; /* the one that had an event last */
    uint64_t uses;      /* counts events that made frames, for dropping */
    shared_states shared;
    PyTypeObject *type_of[TYPE_CACHE]; /* owned */
    uint8_t kind_of[TYPE_CACHE];
    PyObject *version;      /* owned or NULL; getset descriptor TensorBase._version */
    PyObject *is_inference; /* owned or NULL; method descriptor */
    PyObject *analyse;      /* owned; tensortap.analysis.table.table */
    PyObject *threading;    /* owned; the module */
    PyObject *own_folder;   /* owned or NULL; tensortap's, with a slash */
    uint64_t own_errors;    /* ours, not a consumer's */
    PyObject *own_error;    /* owned or NULL; text of the first */
    void *driver;           /* of settrace.c or monitoring.c */
    bool is_running;
    unsigned inside; /* threads that are in a callback: their records stay */
};

/* What a statement changed. */
typedef struct found_change {
    line_place place;
    line_how how;
    const line_write *write; /* NULL: nobody wrote it by name */
    PyObject *item;          /* owned; key of an item of the container at the path, or NULL */
    line_state old, now;
} found_change;

enum { FEW_FOUND = 32 };
typedef struct found_list {
    found_change *all; /* few, or owned */
    int count, cap;
    found_change few[FEW_FOUND];
} found_list;

/* found.c */
void found_open(found_list *list);
void found_close(found_list *list);
/* Another one, without an item and states; NULL: no memory. */
found_change *found_add(found_list *list, const line_place *place, line_how how, const line_write *write);
bool found_has(const found_list *list, const line_place *place);

/* emit.c */
void emit_changes(line_source *source, frame_record *record, const line_statement *statement,
                  const found_change *found, int count);
void emit_reads(line_source *source, frame_record *record, const line_statement *statement,
                uint32_t mask);
void emit_line(line_source *source, frame_record *record, int instruction);
void emit_enter(line_source *source, frame_record *record, bool is_resumed);
void emit_sent(line_source *source, frame_record *record); /* if it is a tensor */
void emit_leave(line_source *source, frame_record *record, const line_statement *statement,
                PyObject *value, bool is_yield);

/* source.c, frames.c */
line_code *source_code(line_source *source, PyCodeObject *code); /* NULL: not selected */
frame_record *source_frame(line_source *source, line_frame *at, line_code *code, bool is_fresh);
void source_forget(line_source *source, frame_record *record);
void source_forget_all(line_source *source);         /* frames, code objects, states */
void source_note_error(line_source *source, int id); /* counts and clears; id -1: ours */
frame_record *source_find(line_source *source, line_frame *at);

/* callers.c */
frame_record *source_below(line_source *source, line_frame *at); /* the nearest with a record, or NULL */

/* cache.c */
/* Borrowed, good while the code object lives.  NULL: it cannot be made; an exception is set at
 * the first time. */
const line_table *cache_table(line_source *source, PyCodeObject *code);
void cache_free(line_source *source);

/* names.c */
int names_roots(PyObject *names, PyObject **roots); /* a new frozenset; -1: an exception is set */
bool names_are_in(PyCodeObject *code, PyObject *roots);
void names_find(line_source *source, line_code *code); /* after the consumers were asked */
void names_free(line_code *code);
bool names_are_live(const frame_record *record); /* is there a thing that a call may change? */
bool names_quick(frame_record *record, int instruction);
static inline bool path_is_wanted(const line_code *code, int path)
{
    return code->named == NULL || code->named[path] != 0;
}

/* prepare.c */
void statement_begin(line_source *source, frame_record *record, int number);
/* A generator that went to sleep before we came goes on, in the middle of a statement. */
void statement_resume(line_source *source, frame_record *record);

/* statement.c */
static inline bool is_tensor(object_kind kind)
{
    return kind == KIND_TORCH || kind == KIND_ARRAY;
}
/* Do versions tell too little of what the statement does? */
static inline bool statement_hides(const frame_record *record, const line_statement *statement)
{
    return record->code->table->is_hidden || statement->flags & STATEMENT_DIGESTS;
}
void statement_at(line_source *source, frame_record *record, int instruction);
/* The next instruction starts a statement in the middle of a line? */
static inline bool statement_steps(const frame_record *record, int instruction)
{
    const line_table *table = record->code->table;
    if (table == NULL || instruction < 0 || instruction >= table->instruction_count ||
        table->statement_at[instruction] == TABLE_NONE)
        return false;
    const line_statement *one = &table->statements[table->statement_at[instruction]];
    return one->flags & STATEMENT_STEPS && one->start == instruction;
}
/* As statement_at, for such a one: it is no line. */
void statement_step(line_source *source, frame_record *record, int instruction);
/* The same for plain Python; false: nothing was done, call statement_at.  Calls
 * nobody and leaves no exception. */
bool statement_quick(line_source *source, frame_record *record, int instruction);
/* The frame is left or suspended at `instruction`. */
void statement_end(line_source *source, frame_record *record, int instruction, PyObject *value,
                   bool is_yield);
/* Takes over what the frame holds now: all locals, or the arguments of a fresh one. */
void statement_adopt(line_source *source, frame_record *record, bool is_fresh);

/* reads.c */
void reads_save(line_source *source, frame_record *record, const line_statement *statement, bool is_late);
/* Remembers that the frame has named this place; a local is known anyway. */
void reads_show(frame_record *record, const line_place *place);

/* What an item's key leads to now; borrowed or NULL. */
PyObject *reads_item(line_source *source, frame_record *record, const saved_read *read);
void reads_clear(frame_record *record);

/* items.c */
static inline bool is_container(PyObject *obj)
{
    return PyList_CheckExact(obj) || PyDict_CheckExact(obj);
}
bool items_are_tensors(line_source *source, PyObject *box); /* is one among the first? */
/* A container was stored, or has grown: adds items to found. */
void items_stored(line_source *source, frame_record *record, const line_statement *statement,
                  const line_write *write, PyObject *box, found_list *found);
void items_note(frame_record *record, int path, PyObject *box); /* before the statement */
void items_grown(line_source *source, frame_record *record, found_list *found);

/* path.c */
PyObject *path_item(PyObject *container, PyObject *key); /* borrowed or NULL; runs nobody's code */

/* key.c */
bool path_is_key(PyObject *key); /* can it be hashed and named without running anybody's code? */
/* Of an item; new reference; NULL, without an exception: it cannot be told. */
PyObject *path_key(line_source *source, frame_record *record, const line_path *path);

uint64_t path_member(Py_hash_t hash, path_kind kind);
void path_find(line_source *source, frame_record *record, int path, bool is_stored, line_place *out);
PyObject *path_text(line_source *source, frame_record *record, int path); /* new reference or NULL */
/* Of a type whose operators run nobody's code, and change nothing? */
static inline bool path_is_plain(PyObject *obj)
{
    if (obj == NULL)
        return true;
    PyTypeObject *type = Py_TYPE(obj);
    return type == &PyLong_Type || type == &PyFloat_Type || obj == Py_None || type == &PyUnicode_Type ||
           type == &PyBool_Type || type == &PyComplex_Type || type == &PyBytes_Type ||
           type == &PyModule_Type || type == &PyFunction_Type || type == &PyCFunction_Type ||
           type == &PyType_Type;
}
line_kind path_line_kind(const frame_record *record, int path);

/* state.c */
object_kind state_kind_slow(line_source *source, PyObject *obj);
static inline object_kind state_kind(line_source *source, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!(source->wants & LINE_OBJECTS) &&
        (type->tp_flags & NEVER_TENSOR || type == &PyFloat_Type || obj == Py_None))
        return KIND_NONE;
    return state_kind_slow(source, obj);
}
void state_adopt(line_source *source, line_state *state, PyObject *obj, object_kind kind);
/* Is the tensor other than it was?  Writes nothing. */
bool state_differs(line_source *source, const line_state *state, PyObject *obj, bool is_hidden);
void state_update(line_source *source, line_state *state, PyObject *obj, object_kind kind,
                  bool is_hidden);
void state_digest(line_source *source, line_state *state, PyObject *obj);
bool state_needs_digest(const line_source *source, const line_state *state, bool is_hidden);
line_state *shared_state(line_source *source, const void *owner, uint64_t member);
/* Good until the next call; NULL: out of memory. */
static inline line_state *place_state(line_source *source, frame_record *record, const line_place *place)
{
    return place->slot >= 0 ? &record->slots[place->slot]
                            : shared_state(source, place->owner, place->member);
}
bool state_begin(line_source *source, PyObject **guard); /* around a look at several tensors;
                                                            leave_quiet() ends it */

/* settrace.c or monitoring.c: one of them, by version */
int driver_start(line_source *source); /* -1: an exception is set */
void driver_stop(line_source *source);
void driver_changed(line_source *source); /* other consumers than before */

#endif
