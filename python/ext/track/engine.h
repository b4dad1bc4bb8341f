/* engine.h -- what the files of tensortap.track's C part share.
 *
 * text.c writes values as text; describe.c says what is known of a value and how it differs from
 * before; call.c makes the lines of a call and records its values; log.c writes lines, and is
 * their class; tracker.c is the consumer of the line source, and its class.
 * Everything runs with the GIL held, in the middle of the user's program.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TRACK_ENGINE_H
#define TT_EXT_TRACK_ENGINE_H

#include "binding/state.h"
#include "lines/source.h"
#include "summary/facts.h"
#include "tensor/change.h"
#include "tensortap_tools.h"

/* ---- text ----------------------------------------------------------------- */

void track_put_str(tt_buf *text, PyObject *str); /* what is no str: nothing */
/* In the colour of a mood; tt_tree_line obeys these and no others. */
void track_put_mood(tt_buf *text, tt_mood mood, bool is_colored);
/* Appends one line of the tree, with its newline. */
void track_put_branch(tt_buf *out, long depth, tt_branch branch, const tt_buf *text, bool is_colored);

/* ---- descriptions --------------------------------------------------------- */

/* Fields of a tensor's line that differ from its last description. */
enum { CHANGED_SHAPE = 1 << 0, CHANGED_DTYPE = 1 << 1, CHANGED_DEVICE = 1 << 2 };

/* What is known of a value; of a tensor no reference and no element is kept
 * (but see `held`). */
typedef struct track_description {
    tensor_fingerprint seen;
    tt_digest quick;     /* of a container, see track_description_is_stale() */
    unsigned changed;    /* CHANGED_...; a device is shown then even if it is the CPU */
    char type[40];       /* of the object, without its module */
    summary_facts facts; /* of a tensor */
    PyObject *held;      /* owned or NULL: a plain value, or with rtol/atol the copy of a tensor */
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
                               tt_buf *what);
/* Keeps a copy of the tensor in one->held. */
void track_description_keep(track_description *one, PyObject *obj);

/* ---- the log -------------------------------------------------------------- */

typedef struct track_log {
    PyObject_HEAD binding_state *state; /* of the extension, which the type keeps alive */
    PyObject *logger;                   /* owned, as those below; whose handlers get the lines too */
    PyObject *look;                     /* callable: (is_terminal, is_colored) of a stream */
    PyObject *show;   /* callable: prints lines on a terminal, or on a difficult stream */
    PyObject *keep;   /* callable: logs lines where that is not simple */
    PyObject *render; /* callable: "value: ..." of anything but tensors */
    PyObject *out;    /* or NULL; the stream that was looked at last */
    PyObject *sys;    /* dict of that module: sys.stdout is looked up for each line */
    PyObject *stdout_name, *write, *handlers; /* names of attributes */
    bool is_terminal, is_colored;             /* that stream */
} track_log;

/* Of this thread. */
long track_log_depth(void);
void track_log_set_depth(long depth);

/* Looks at sys.stdout, before lines are made for it. */
bool track_log_is_colored(track_log *self);
/* Writes the lines to everywhere and frees them; -1: an exception that is no Exception (Ctrl-C) is
 * set. */
int track_log_emit(track_log *self, tt_buf *lines);

/* ---- lines ---------------------------------------------------------------- */

/* "[Tensor] x@12 → shape=..."; name NULL: "shape=..." alone. */
void track_put_value(track_log *log, tt_buf *text, PyObject *name, long line,
                     const track_description *one, PyObject *obj, bool is_colored);
/* The same of a value that was not looked at yet. */
void track_put_new(track_log *log, tt_buf *text, PyObject *name, long line, PyObject *obj,
                   bool is_colored);

/* ---- calls ---------------------------------------------------------------- */

/* Methods of TrackLog. */
PyObject *track_call_begin(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *track_call_end(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *track_call_stop(PyObject *self, PyObject *args);
PyObject *track_call_yields(PyObject *self, PyObject *args);
PyObject *track_call_stack(PyObject *self, PyObject *none);
base_frame *track_call_user_frame(binding_state *state); /* the innermost that is not ours, or NULL */
const char *track_call_file(base_frame *at);             /* its name without folders */

/* key: of the line source, for the change that flow tells of too; 0: none */
void track_record_change(track_log *log, uint64_t key, PyObject *file, long line, PyObject *name,
                         PyObject *value);

BINDING_FUNCTION(track_key);

#endif
