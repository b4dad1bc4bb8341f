/* open_run.c -- puts what a front end sees into the run that is open.
 *
 * Exists because flow and track watch the same lines: a change that both report
 * must be one point of one site.  The key that the line source gives to each
 * state of a variable says that it is the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/open_run.h"
#include "runs/recorder.h"

#include <limits.h>
#include <unistd.h>

PyObject *runs_open_run(const binding_state *state)
{
    Py_ssize_t count = state->open_runs != NULL ? PyList_GET_SIZE(state->open_runs) : 0; /* at exit */
    return count > 0 ? PyList_GET_ITEM(state->open_runs, count - 1) : NULL;
}

int runs_put(binding_state *state, PyObject *site, PyObject *value)
{
    bool is_number = PyFloat_Check(value) || PyLong_Check(value);
    PyObject *run = Py_XNewRef(runs_open_run(state)); /* owned */
    if (run == NULL)
        return 0;
    PyObject *done =
        PyObject_CallMethod(run, is_number ? "log" : "tensor", "OO", site, value); /* owned */
    Py_XDECREF(done);
    Py_DECREF(run);
    return done != NULL ? 0 : -1;
}

static PyObject *working_directory(void)
{
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder - 1) == NULL)
        return PyUnicode_FromString("/"); /* it was removed: whole paths are as good */
    size_t len = strlen(folder);
    if (folder[len - 1] != '/')
        memcpy(folder + len, "/", 2);
    return PyUnicode_DecodeFSDefault(folder);
}

/* "line/train.py:34:y"; files under the root are named from there, others by
 * their last part. */
static PyObject *site_name(const runs_change *change)
{
    PyObject *root = change->root != NULL ? Py_NewRef(change->root) : working_directory(); /* owned */
    PyObject *site = NULL, *leaf = NULL;                                                   /* owned */
    if (root == NULL)
        goto out;
    Py_ssize_t end = PyUnicode_GET_LENGTH(change->file);
    Py_ssize_t begin = PyUnicode_Tailmatch(change->file, root, 0, PY_SSIZE_T_MAX, -1) == 1
                           ? PyUnicode_GET_LENGTH(root)
                           : PyUnicode_FindChar(change->file, '/', 0, end, -1) + 1;
    leaf = PyUnicode_Substring(change->file, begin, end);
    if (leaf != NULL)
        site = PyUnicode_FromFormat("line/%U:%ld:%U", leaf, change->line, change->name);
out:
    Py_XDECREF(leaf);
    Py_XDECREF(root);
    return site;
}

/* Is it put already?  If not, it will be. */
static bool is_put(binding_state *state, uint64_t key)
{
    uint64_t *known = &state->put_keys[key % PUT_KEYS];
    bool is_so = key != 0 && *known == key;
    *known = key != 0 ? key : *known;
    return is_so;
}

int runs_put_change(binding_state *state, const runs_change *change, PyObject *value)
{
    PyObject *run = Py_XNewRef(runs_open_run(state)); /* owned */
    if (run == NULL || is_put(state, change->key)) {
        Py_XDECREF(run);
        return 0;
    }
    PyObject *site = site_name(change); /* owned */
    int st = -1;
    if (site != NULL && change->stats != NULL) {
        runs_recorder *recorder = runs_recorder_of(state, run);   /* borrowed */
        bool is_open = recorder != NULL && recorder->rec != NULL; /* of a rank that records */
        st = is_open            ? runs_recorder_put(recorder, site, value, 0, TT_PHASE_NONE, change)
             : recorder != NULL ? 0
                                : -1;
    } else if (site != NULL) {
        st = runs_put(state, site, value);
    }
    Py_XDECREF(site);
    Py_DECREF(run);
    return st;
}
