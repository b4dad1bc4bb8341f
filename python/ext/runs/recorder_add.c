/* recorder_add.c -- a tensor's summaries and bytes on their way into the queue.
 *
 * Exists because the queue may be full, and then everybody else shall run: whoever
 * waits lets go of the GIL.  Another thread may then free or change the very tensor
 * that is being recorded, so it is looked at again before it is read on; a value that was
 * caught half changed is given up, its statistics stay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/recorder.h"
#include "tensortap_tools.h"

#include <string.h>

enum { PATIENCE = 3600 /* s; then the core waits, with the GIL */ };

void runs_recorder_wait(runs_recorder *self, size_t bytes, double seconds)
{
    tt_recorder *rec = self->rec;
    self->users++;
    Py_BEGIN_ALLOW_THREADS(void) tt_recorder_wait_room(rec, bytes, seconds);
    Py_END_ALLOW_THREADS self->users--;
}

bool runs_recorder_make_room(runs_recorder *self, size_t bytes)
{
    bytes += 1 << 16; /* statistics, a histogram, a sample */
    if (self->drops || tt_recorder_has_room(self->rec, bytes))
        return false;
    runs_recorder_wait(self, bytes, PATIENCE);
    return true;
}

/* ---- values -------------------------------------------------------------- */

typedef struct lender {
    runs_recorder *recorder;
    tt_recorder *rec;        /* recorder->rec may be NULL by now: somebody closes, and waits for us */
    PyObject *obj;           /* borrowed; what the view is of */
    const tensor_view *view; /* as it was opened */
    PyThreadState *thread;   /* while the GIL is released */
} lender;

static bool is_same_memory(const tt_tensor *a, const tt_tensor *b)
{
    size_t bytes = (size_t)a->ndim * sizeof *a->shape;
    return a->data == b->data && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, bytes) == 0 && memcmp(a->stride, b->stride, bytes) == 0;
}

/* Is the tensor still where it was?  A buffer that is held cannot move, a copy is ours. */
static bool is_still_there(const lender *lent)
{
    tensor_view now;
    if (lent->view->has_buffer || lent->view->is_private)
        return true;
    if (tensor_view_open(&lent->recorder->state->torch, lent->obj, &now) != VIEW_OK)
        return false;
    bool is_same = is_same_memory(&now.tensor, &lent->view->tensor);
    tensor_view_close(&now);
    return is_same;
}

/* tt_event.leave and .enter */
static void release_gil(void *context)
{
    ((lender *)context)->thread = PyEval_SaveThread();
}

static bool take_gil(void *context)
{
    const lender *lent = context;
    PyEval_RestoreThread(lent->thread);
    return is_still_there(lent);
}

tt_status runs_recorder_add(runs_recorder *self, PyObject *obj, const tensor_view *view,
                            uint32_t products, tt_event *event)
{
    static const tt_sample_options few = { .max_vector = 32, .max_matrix = 8, .max_slices = 6 };
    const tt_tensor *t = &view->tensor;
    lender lent = { .recorder = self, .rec = self->rec, .obj = obj, .view = view };
    tt_hist *hist = NULL;     /* owned */
    tt_sample *sample = NULL; /* owned */
    tt_digest digest;
    tt_stats stats;
    tt_status st = TT_OK;
    event->tensor = t;
    if (products & TT_PRODUCT_STATS && event->stats == NULL) {
        tt_stats_compute(t, &stats);
        event->stats = &stats;
    }
    if (products & TT_PRODUCT_DIGEST) {
        tt_digest_compute(t, &digest);
        event->digest = &digest;
    }
    if (products & TT_PRODUCT_HIST)
        st = tt_hist_create(&hist);
    if (st == TT_OK && products & TT_PRODUCT_SAMPLE)
        st = tt_sample_create(t, &few, &sample, NULL);
    if (st < 0)
        goto out;
    if (hist != NULL)
        tt_hist_add(hist, t);
    event->hist = hist;
    event->sample = sample;
    if (products & TT_PRODUCT_VALUE) {
        event->has_value = true;
        event->leave = release_gil;
        event->enter = take_gil;
        event->context = &lent;
    }
    self->users++;
    st = tt_recorder_add(lent.rec, event);
    self->users--;
out:
    tt_hist_free(hist);
    tt_sample_free(sample);
    return st;
}
