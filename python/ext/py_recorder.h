/* py_recorder.h -- the object behind Recorder, for those who feed it.
 *
 * The class itself is in py_recorder.c; watch.c, and every other source that
 * writes events, holds a reference to it and looks at these fields.  All of
 * them belong to the GIL.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_PY_RECORDER_H
#define TT_EXT_PY_RECORDER_H

#include "module.h"

typedef struct recorder_object {
    PyObject_HEAD
    tt_recorder *rec;   /* owned; NULL once closed: whoever feeds it must look */
    int64_t step;       /* the current one; events belong to it */
    bool is_step_over;  /* all optimizers have stepped: the next training forward begins a new step */
    bool is_manual;     /* run.step() has been called: optimizers end no step any more */
    int64_t cost_ns;    /* time spent on watching, as measured (an estimate: one event in
                           RECORDER_SAMPLES is timed and stands for that many) */
    int64_t *site_cost; /* owned; of each site, in ns; site_cap of them */
    int32_t site_cap;
    uint32_t random;    /* which events are timed */
    PyObject *watchers; /* owned; list of objects with a method _close(), which Recorder.close()
                           calls before the file ends, last one first */
    PyObject *weakrefs;
} recorder_object;

#define RECORDER_SAMPLES 16

/* Should this event be timed? */
static inline bool recorder_is_timed(recorder_object *self)
{
    self->random = self->random * 1664525u + 1013904223u;
    return self->random >> 28 == 0;
}

/* Takes note that an event of this site took so long; -1: of no site. */
void recorder_charge(recorder_object *self, int32_t site, int64_t ns);

int64_t clock_fine(void);   /* ns since 1970 */
int64_t clock_coarse(void); /* the same to within 4 ms, at a fifth of the price */

/* The recorder behind a Python object, or NULL with TypeError. */
recorder_object *recorder_of(core_state *state, PyObject *obj);

#endif
