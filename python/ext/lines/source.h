/* source.h -- the line source: which line changed which names, having read which.
 *
 * One source in the process serves all consumers at once: the front ends flow, track and trace.
 * A consumer is a table of functions plus a selection; the source calls it in the user's thread,
 * with the GIL held, in the middle of the user's program:
 *
 *     lines_consumer mine = { .context = chart, .change = on_change, .selects = is_mine };
 *     int id = lines_source_add(source, &mine);       // -1: a Python exception is set
 *     ...                                            // the program runs
 *     lines_source_remove(source, id);                // removing the last one stops the tracing
 *
 * Order of the calls for one statement of a selected frame:
 *     line     (before)  a line is about to run: cheap, no reads are looked up
 *     before   (before)  the statement's reads, with the objects as they are now; only where a read may
 *                        be another thing afterwards: it is stored, something is called or returned
 *     change   (after)   only if something changed; its reads are those of `before`
 * and around them enter, when a frame starts or a generator resumes (sent, if a tensor was sent
 * into it), and leave, when it returns, yields or is left by an exception.  Statements that share
 * a line (a = 1; b = 2) have separate events, as if each had its own line.
 *
 * Rules for a consumer:
 *   - All pointers are borrowed for the call.  To recognise a name's state later, keep its key.
 *   - A callback must not fail.  A Python exception it leaves set is counted (lines_source_stop)
 *     and cleared; after 100 of them the consumer is muted.  It must return soon, and must not
 *     wait for another thread.
 *   - No event comes from inside a callback.
 *   - NULL functions are not wanted and cost nothing.
 *
 * Keys.  Each state of a name in a frame has a key, a number that is used only once; so has each
 * state of a global, and of an attribute or item of one container, over all frames.  A read has
 * the key of the state that it saw, so an arrow goes from the node with that key.  A key that was
 * never reported as a change belongs to a name that existed before, for instance an argument: a
 * source node.  An object passed from frame to frame has a key in each; (object, version) tells
 * that they are the same.
 *
 * Items.  A list, tuple or dict that a statement reads whole (stack(xs)) is read by its tensors,
 * eight at most, named xs[0].  Changes are reported for items that the program names (xs[0] = y,
 * cache['k'] += 1), for those in a list or dict that is stored under a name (xs = [a, b]) and for
 * those that make one longer (xs.append(t), cache.update(k=t)), eight at most; not to consumers
 * with names.
 *
 * Names.  A consumer with `names` receives changes of these only: x, self.x, cache['k'], xs[0], as
 * written (a variable index by its value).  Use them where you can: they are looked up once for a
 * code object, not at each change.  In code whose consumers all have names, a line that stores
 * none of them and calls nothing costs as much as an empty trace function; a call costs one look
 * at what the names hold; code without such a name is not watched at all.  Names are also the way to follow objects that are not
 * tensors: with LINES_OBJECTS alone, every int that is assigned to anything is a change.
 * With names, a named list, dict or other object is LINES_TOUCHED after each statement that may have
 * changed it in place; the consumer has to find out whether it did.
 *
 * Cost.  A code object is analysed once in its life, which takes milliseconds; then adding and
 * removing a consumer costs microseconds, so a front end may do it around every call of a
 * function.  Nothing is imported while the user's code runs, so frames without builtins work.  The
 * source keeps the address of a tensor for comparison, its version and perhaps a digest; never a
 * reference.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_SOURCE_H
#define TT_EXT_LINES_SOURCE_H

#include "base/frame.h"

#include <stdbool.h>

typedef struct lines_source lines_source;

typedef enum lines_kind {
    LINES_LOCAL,     /* x: fast locals, cells, names of a class body */
    LINES_GLOBAL,    /* x of a module, a notebook cell, or `global x` */
    LINES_ATTRIBUTE, /* self.x, named as written */
    LINES_ITEM,      /* xs[0], cache['k'], as written, a variable index by its value */
} lines_kind;

typedef enum lines_how {
    LINES_BOUND,   /* the name held no tensor before */
    LINES_REBOUND, /* the name holds another tensor, or was assigned the same one: then the key stays */
    LINES_INPLACE, /* the same object, other contents */
    LINES_TOUCHED, /* no tensor or array, perhaps other contents; the key stays */
} lines_how;

/* One state of a name. */
typedef struct lines_name {
    lines_kind kind;
    PyObject *name;   /* borrowed str */
    PyObject *object; /* borrowed; NULL in the reads of a change if it is not there any more */
    uint64_t key;     /* of this state */
    uint32_t version; /* torch's version counter; 0 where there is none */
    bool is_seen;     /* the key was reported before, in a change or as a read */
} lines_name;

typedef struct lines_change {
    lines_name now;
    lines_how how;
    uint64_t old_key;      /* the state before; 0: none */
    const uint16_t *reads; /* the arrows: indices into the event's reads ... */
    size_t read_count;
    const int *calls; /* ... and the calls whose result is in it, as lines_call.site; NULL: all
                         of the statement's may be */
    size_t call_count;
    size_t direct_count; /* the first ones: it is such a result or a part of it, not made of it */
    bool is_sampled;     /* above 64 MB only a part of the contents was compared */
} lines_change;

typedef struct lines_event {
    uint64_t frame;           /* number of the frame, never given twice */
    uint64_t caller;          /* number of the nearest selected frame below; 0: none */
    uint64_t thread;          /* as threading.get_ident() */
    PyObject *code;           /* borrowed */
    base_frame *at;           /* for lines_frame_get, within the callback */
    int line;                 /* of the statement: its first line; in `line`: the line itself */
    uint64_t run;             /* goes up in a frame with each statement that runs */
    int first_site, end_site; /* of calls in the statement: lines_call.site; in `sent` of the yield */
    bool is_return;           /* the statement is a `return` (or a yield) */
    const lines_name *reads;  /* tensors (and arrays, objects: see wants) that it reads */
    size_t read_count;
    const lines_change *changes; /* in `change` only */
    size_t change_count;
    PyObject *value; /* borrowed; in `leave`: what is returned or yielded; NULL: an exception; in
                        `sent`: that, and it is the only read, without a name */
    bool is_resumed; /* in `enter`: a generator or coroutine goes on */
    bool is_yield;   /* in `leave`: it will go on later */
} lines_event;

enum {
    LINES_ARRAYS = 1 << 0,  /* NumPy arrays too: their contents are digested */
    LINES_OBJECTS = 1 << 1, /* every object that a name is bound to, numbers and None too; with
                              names, LINES_TOUCHED as well */
    LINES_BARE = 1 << 4,    /* enter, line and leave only, without reads: the code is not even
                              analysed; to read a few names with base_frame_slot */
};

typedef enum lines_threads {
    LINES_THREADS_LATER, /* the thread that added the consumer, and those started since */
    LINES_THREADS_OWN,   /* that thread alone */
    LINES_THREADS_ALL,   /* on Python 3.11 and older as LATER */
} lines_threads;

typedef enum lines_function {
    LINES_ENTER,
    LINES_LINE,
    LINES_BEFORE,
    LINES_CHANGE,
    LINES_LEAVE,
    LINES_SENT,
    LINES_FUNCTION_COUNT,
} lines_function;

typedef void lines_fn(void *context, const lines_event *event);

typedef struct lines_consumer {
    void *context;
    uint32_t wants;
    lines_threads threads;
    /* Asked once for each code object; NULL: all.  Sets the lines wanted, ends
     * included (preset to everything).  tensortap's own code is never asked. */
    bool (*selects)(void *context, PyCodeObject *code, int *first, int *last);
    /* Asked at the first event of each frame of selected code, with its arguments in
     * place; false: no events of this frame.  NULL: all frames. */
    bool (*accepts)(void *context, PyCodeObject *code, base_frame *at);
    PyObject *names; /* borrowed set or frozenset of str, or NULL; changes of these names only */
    union {
        struct {
            lines_fn *enter, *line, *before, *change, *leave, *sent;
        };
        lines_fn *functions[LINES_FUNCTION_COUNT]; /* the same, by lines_function */
    };
} lines_consumer;

enum { LINES_MAX_CONSUMERS = 32 };

/* An id, or -1 with an exception: too many consumers, or (3.12 and later) both
 * free monitoring tools taken.  Frames that run already are seen from their
 * next line on. */
int lines_source_add(lines_source *source, const lines_consumer *consumer);
void lines_source_remove(lines_source *source, int id); /* -1: nothing to do */
uint64_t lines_newest_thread(void); /* PyThreadState_GetID: what has a larger one was started later */
/* How often a consumer or the source itself has failed since the consumer was added, and the text of
 * the first time or None; id -1: (0, None). */
PyObject *lines_source_error_tuple(lines_source *source, int id);
/* Removes the consumer *id, which is -1 then, unless it was before.  Adds its errors to *errors; the text
 * of the first one goes to *text (owned) if that is NULL. */
void lines_source_stop(lines_source *source, int *id, uint64_t *errors, PyObject **text);

/* The value of a local (else global) name that the code of the running frame names: a new
 * reference, or NULL without an exception.  Runs no code of the user's. */
PyObject *lines_frame_get(base_frame *at, PyObject *name);

/* A call that is going on. */
typedef struct lines_call {
    uint64_t frame, run; /* of the calling statement: as in lines_event */
    int site;            /* the instruction */
} lines_call;

/* The statement that makes it. */
typedef struct lines_caller {
    lines_call call;
    const struct lines_record *record; /* NULL: there is none; valid within the callback */
    const struct lines_site *given;    /* what the call is given; NULL: not known */
} lines_caller;

/* The call that the frame `at` is there for, of the nearest frame below that the consumer
 * hears of; false: there is none. */
bool lines_frame_below(lines_source *source, int id, base_frame *at, lines_caller *out);
/* The object whose method the frame runs (borrowed), by whatever name it has there; NULL: none. */
PyObject *lines_frame_receiver(base_frame *at);
/* The key by which the statement that calls knows the tensor of a read; 0: it does not read it. */
uint64_t lines_frame_passed(const lines_caller *caller, const lines_name *read);
/* The key of the oldest name that a frame below has for the tensor of a read: of the nearest
 * that has one, whatever it calls, then of those of other threads; 0: none has.  So the argument
 * of a generator or a thread is known when it runs, which may be long after it was given. */
uint64_t lines_frame_named(lines_source *source, int id, base_frame *at, const lines_name *read);
/* Is that call given the result of the one at `site` of the same statement, or a part of it?
 * With `is_made`: or something that was computed from it?  A call takes what it gave itself, too:
 * code that is not selected handed it on. */
bool lines_frame_receives(lines_source *source, const lines_caller *caller, base_frame *at,
                          const lines_name *read, int site, bool is_made);
/* If the read is an argument: the keys of the names that the statement that calls has computed
 * it from, `most` at most; returns how many. */
size_t lines_frame_argument(lines_source *source, const lines_caller *caller, base_frame *at,
                            const lines_name *read, uint64_t *keys, size_t most);

/* The source of the process, created at the first call; NULL with an exception. */
struct binding_state;
lines_source *lines_source_of(struct binding_state *state);
void lines_source_free(lines_source *source);

/* watch_lines() */
PyObject *lines_watch(PyObject *module, PyObject *args, PyObject *kwargs);

#endif
