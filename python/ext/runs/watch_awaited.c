/* watch_awaited.c -- tensors that a collective is still filling.
 *
 * torch's tensor-parallel layers return an AsyncCollectiveTensor, so that the program can compute while
 * ranks communicate.  Reading it would wait, and end that; reading its memory without waiting gives
 * numbers that look like numbers.  So we keep its memory until the program has waited, and read it at
 * the next event.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "runs/watch.h"

#include <string.h>

enum { AWAITED_MAX = 64 }; /* a program may never wait for some: that must not keep their memory */

static void drop(runs_watch_awaited *one)
{
    Py_CLEAR(one->filled);
    Py_CLEAR(one->wrapper);
}

/* Takes one out of the list. */
static runs_watch_awaited take(runs_watch *self, size_t at)
{
    runs_watch_awaited one = self->awaited[at];
    self->awaited_count--;
    memmove(self->awaited + at, self->awaited + at + 1,
            (self->awaited_count - at) * sizeof *self->awaited);
    return one;
}

void runs_watch_await(runs_watch *self, PyObject *wrapper, const runs_watch_tag *tag)
{
    runs_watch_awaited one = { .tag = *tag };
    one.wrapper = Py_NewRef(wrapper);
    one.filled = PyObject_GetAttrString(wrapper, "elem");
    one.tag.is_late = one.tag.is_placed = true;
    one.tag.step = self->recorder->step;
    one.tag.time = runs_recorder_time(self->recorder, 0);
    bool is_kept = one.filled != NULL &&
                   tensor_version_read(&self->state->torch, wrapper, VERSION_GUARDED, &one.version) &&
                   base_array_grow(&self->awaited, &self->awaited_cap, self->awaited_count + 1,
                                   sizeof *self->awaited);
    calls_consumer_take_error(&self->consumer);
    if (!is_kept) {
        self->unread[VIEW_PENDING]++;
        drop(&one);
        return;
    }
    self->awaited[self->awaited_count++] = one;
    if (self->awaited_count > AWAITED_MAX) {
        runs_watch_awaited oldest = take(self, 0);
        self->unread[VIEW_PENDING]++;
        drop(&oldest);
    }
}

/* Records one that is filled, unless the program has changed it since. */
static int record_filled(runs_watch *self, runs_watch_awaited *one)
{
    uint32_t version;
    if (!tensor_version_read(&self->state->torch, one->wrapper, VERSION_GUARDED, &version) ||
        version != one->version) {
        self->unread[VIEW_PENDING]++;
        return 0;
    }
    return runs_watch_record_alone(self, one->filled, &one->tag, NULL) < 0 ? -1 : 0;
}

int runs_watch_record_awaited(runs_watch *self, tensor_looks *looks)
{
    int result = 0;
    if (looks != NULL)
        tensor_looks_clear(looks); /* Python code runs */
    for (size_t i = 0; result == 0 && i < self->awaited_count;) {
        PyObject *wrapper = Py_NewRef(self->awaited[i].wrapper); /* owned */
        bool is_filled = tensor_torch_is_filled(wrapper);
        bool is_known = i < self->awaited_count && self->awaited[i].wrapper == wrapper;
        Py_DECREF(wrapper);
        if (!is_known) /* that has run other code */
            break;
        if (!is_filled && self->awaited[i].tag.step == self->recorder->step) {
            i++;
            continue;
        }
        runs_watch_awaited one = take(self, i);
        if (is_filled)
            result = record_filled(self, &one);
        else /* nobody uses it, and it keeps the graph of its step */
            self->unread[VIEW_PENDING]++;
        drop(&one);
    }
    return result;
}

void runs_watch_forget_awaited(runs_watch *self)
{
    while (self->awaited_count > 0) {
        runs_watch_awaited one = take(self, self->awaited_count - 1);
        drop(&one);
    }
    PyMem_Free(self->awaited);
    self->awaited = NULL;
    self->awaited_cap = 0;
}
