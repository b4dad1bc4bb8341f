/* engine.h -- what the files of tensortap.track's C part share.
 *
 * text.c is a line that grows, and values as text; describe.c says what is known of a value
 * and how it differs from before; call.c makes the lines of a call and records its values;
 * log.c writes lines, and is their class; frames.c is the consumer of the line source,
 * tracker.c its class.
 * Everything runs with the GIL held, in the middle of the user's program.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TRACK_ENGINE_H
#define TT_EXT_TRACK_ENGINE_H

#include "binding/state.h"
#include "lines/source.h"
#include "tensor/change.h"
#include "tensortap_tools.h"

#include <string.h>

/* ---- text ----------------------------------------------------------------- */

typedef struct track_text {
    char *data; /* owned, or the room; ended by NUL once something was put */
    size_t len, cap;
    bool is_lent;    /* data is somebody's room */
    bool has_failed; /* out of memory: what was put since is missing, and cap is 0 */
} track_text;

/* A text that begins in an array on the stack: most end there. */
#define TEXT_IN(room)                                        \
    {                                                        \
        .data = (room), .cap = sizeof(room), .is_lent = true \
    }
enum { TEXT_ROOM = 1024 };

/* The inks of the core's views: tt_tree_line obeys these and no others. */
typedef enum track_ink { INK_PLAIN, INK_FAINT, INK_NAME, INK_CHANGE, INK_ALARM } track_ink;

void track_text_put_slowly(track_text *text, const char *bytes, size_t len); /* makes room first */

/* In the header because a line is twenty pieces, most of them literals: their
 * lengths are known here. */
static inline void track_text_put_bytes(track_text *text, const char *bytes, size_t len)
{
    if (text->len + len >= text->cap) {
        track_text_put_slowly(text, bytes, len);
        return;
    }
    memcpy(text->data + text->len, bytes, len);
    text->len += len;
    text->data[text->len] = '\0';
}

static inline void track_text_put(track_text *text, const char *bytes)
{
    track_text_put_bytes(text, bytes, strlen(bytes));
}

void track_text_put_int(track_text *text, long long number);
void track_text_put_number(track_text *text, double number); /* short form */
void track_text_put_str(track_text *text, PyObject *str);    /* what is no str: nothing */
void track_text_put_ink(track_text *text, track_ink ink, bool is_colored);
void track_text_free(track_text *text);
/* One line of the tree, with its newline. */
tt_status track_text_branch(tt_buf *out, long depth, tt_branch branch, const track_text *text,
                            bool is_colored);

/* ---- descriptions --------------------------------------------------------- */

/* Fields of a tensor's line that differ from its last description. */
enum { CHANGED_SHAPE = 1 << 0, CHANGED_DTYPE = 1 << 1, CHANGED_DEVICE = 1 << 2 };

/* What is known of a value; of a tensor no reference and no element is kept
 * (but see `held`). */
typedef struct track_description {
    tensor_fingerprint seen;
    tt_digest quick; /* of a container, see track_description_is_stale() */
    bool has_stats;
    unsigned changed;                     /* CHANGED_...; a device is shown then even if it is the CPU */
    char type[40], dtype[32], device[24]; /* device: empty for the CPU */
    int32_t ndim;                         /* -1: not known */
    int64_t shape[TT_MAX_DIM];
    tt_stats stats;
    PyObject *held; /* owned or NULL: a plain value, or with rtol/atol the copy of a tensor */
} track_description;

typedef struct track_tolerance {
    bool is_given;
    double rtol, atol;
} track_tolerance;

static inline bool track_is_tensor(const track_description *one)
{
    return tensor_kind_has_elements((tensor_kind)one->seen.kind);
}

/* Looks at obj.  No digest: for text alone. */
void track_describe(binding_state *state, PyObject *obj, bool wants_digest, track_description *out);
void track_description_clear(track_description *one);
/* Is obj, not a tensor, other than it was?  Cheap where nothing happened. */
bool track_description_is_stale(binding_state *state, const track_description *last, PyObject *obj);
/* Does `now` (of obj; its `changed` is set) differ from `last`?  If so, what differs goes to `what`:
 * "shape, dtype".  With a tolerance the copy that `last` holds is compared. */
bool track_description_differs(binding_state *state, const track_description *last,
                               track_description *now, PyObject *obj, const track_tolerance *tolerance,
                               track_text *what);
/* Keeps a copy of the tensor in one->held. */
void track_description_keep(track_description *one, PyObject *obj);

/* ---- the log -------------------------------------------------------------- */

/* The line of an instruction: finding it takes longer than writing it. */
typedef struct track_known_line {
    PyCodeObject *code; /* owned or NULL */
    int instruction, line;
} track_known_line;

enum { KNOWN_LINES = 32 };

typedef struct track_log {
    PyObject_HEAD binding_state *state; /* of the extension, which the type keeps alive */
    PyObject *logger;                   /* owned; whose handlers get the lines too */
    PyObject *own;                      /* owned; prefix of files that are no callers: tensortap's */
    PyObject *runs;                     /* owned; list of open recorders, the innermost last */
    PyObject *look;                     /* owned; callable: (is_terminal, is_colored) of a stream */
    PyObject *show;   /* owned; callable: prints lines on a terminal, or on a difficult stream */
    PyObject *render; /* owned; callable: "value: ..." of anything but tensors */
    PyObject *keep;   /* owned; callable: logs lines where that is not simple */
    PyObject *out;    /* owned or NULL; the stream that was looked at last */
    PyObject *sys;    /* owned; the module's dict, for its stdout */
    PyObject *write, *handlers, *output, *stdout_name; /* owned; names */
    bool is_terminal, is_colored;                      /* that stream */
    track_known_line known[KNOWN_LINES];               /* of callers */
    tt_buf spare; /* owned; room of lines that have gone out, for the next */
} track_log;

#define TRACK_LOG_OBJECTS(X) \
    X(logger)                \
    X(own)                   \
    X(runs)                  \
    X(look)                  \
    X(show)                  \
    X(render)                \
    X(keep)                  \
    X(out)                   \
    X(sys)                   \
    X(write)                 \
    X(handlers)              \
    X(output)                \
    X(stdout_name)

/* Of this thread. */
long track_log_depth(void);
void track_log_set_depth(long depth);

bool track_log_is_colored(track_log *self);
/* An empty buffer for lines; track_log_emit_buf takes it back. */
tt_buf track_log_take_buf(track_log *self);
/* Writes the lines to everywhere; -1: an exception that is no Exception (Ctrl-C) is set. */
int track_log_emit_buf(track_log *self, tt_status st, tt_buf *out);

/* ---- lines ---------------------------------------------------------------- */

/* "[Tensor] x@12 → shape=..."; name NULL: "shape=..." alone. */
void track_put_value(track_log *log, track_text *text, PyObject *name, long line,
                     const track_description *one, PyObject *obj, bool is_colored);
/* The same of a value that was not looked at yet. */
void track_put_new(track_log *log, track_text *text, PyObject *name, long line, PyObject *obj,
                   bool is_colored);

/* ---- calls ---------------------------------------------------------------- */

/* What is known of a function: a tuple that calls.py makes. */
typedef enum track_call_site {
    SITE_NAME, /* "Class.method" */
    SITE_HEAD, /* "[file.py:12] function [Class.method] called at " */
    SITE_INPUT,
    SITE_OUTPUT,
    SITE_TIME,     /* words; the last with the name behind it */
    SITE_REST,     /* name of *args */
    SITE_NAMES,    /* of the positional parameters */
    SITE_FIRST,    /* arguments to leave out: self */
    SITE_DEFAULTS, /* tuple of (name, its position or -1, value) */
    SITE_FIELDS,
} track_call_site;

/* Methods of TrackLog. */
PyObject *track_call_begin(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *track_call_end(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *track_call_stop(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *track_call_yields(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *track_call_stack(PyObject *self, PyObject *none);
base_frame *track_call_user_frame(PyObject *own); /* the innermost frame that is not ours, or NULL */
void track_call_put_file(track_text *text, PyCodeObject *code); /* its name without folders */

/* ---- runs ----------------------------------------------------------------- */

/* key: of the line source, for the change that flow tells of too; 0: none */
void track_record_change(track_log *log, uint64_t key, PyObject *file, long line, PyObject *name,
                         PyObject *value);

/* ---- trackers ------------------------------------------------------------- */

typedef struct track_frame {
    base_frame *at;  /* for comparison; a generator keeps its own while it sleeps */
    uint64_t number; /* of the line source */
    long depth;
    bool is_root;            /* of a decorated function: its arguments are told as inputs */
    int *slots;              /* owned; of each name: a local's, NOT_LOCAL or NOT_HERE */
    track_description *last; /* owned; of each name */
} track_frame;

enum { NOT_HERE = -1, NOT_LOCAL = -2 };

typedef struct track_tracker {
    PyObject_HEAD PyObject *module; /* owned */
    PyObject *log;                  /* owned; a track_log */
    PyObject *names;                /* owned; tuple of str */
    PyObject *bases;                /* owned; the same up to the first . or [ */
    PyObject *excluded;             /* owned; tuple of prefixes of file names */
    PyObject *roots;                /* owned; set of code objects */
    track_tolerance tolerance;
    long depth;           /* of what a decorated function's frame tells */
    PyObject *file;       /* owned or NULL; of the root that was entered last */
    int id;               /* of the consumer; -1: none */
    track_frame **frames; /* owned */
    size_t count, cap;
    track_frame *last; /* that had an event last; borrowed or NULL */
} track_tracker;

#define TRACKER_OBJECTS(X) \
    X(module)              \
    X(log)                 \
    X(names)               \
    X(bases)               \
    X(excluded)            \
    X(roots)               \
    X(file)

/* Adds the consumer; -1: an exception is set. */
int track_tracker_listen(track_tracker *self);
void track_tracker_silence(track_tracker *self);
/* Looks at the names of the user's frame that runs now; `line` is where that is. */
void track_tracker_adopt(track_tracker *self, long line);
void track_tracker_drop_frame(track_tracker *self, track_frame *frame);

BINDING_FUNCTION(track_key);
PyObject *track_tracker_function(PyObject *module, PyObject *args, PyObject *kwargs);

#endif
