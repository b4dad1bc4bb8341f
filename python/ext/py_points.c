/* py_points.c -- every point of a run as plain tuples.
 *
 * Exists for tests that hold what was recorded against what torch computed,
 * with everything a point carries; programs use the reader's own classes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "py_stats.h"

static PyObject *point_tuple(core_state *state, const char *name, const tt_point *point)
{
    PyObject *stats = Py_NewRef(Py_None), *scalar = Py_NewRef(Py_None); /* owned */
    if (point->products & TT_PRODUCT_STATS)
        Py_SETREF(stats, stats_object_make(state, &point->stats, point->shape,
                                           point->ndim > 0 ? point->ndim : 0));
    if (point->products & TT_PRODUCT_SCALAR)
        Py_SETREF(scalar, PyFloat_FromDouble(point->scalar));
    if (stats == NULL || scalar == NULL) {
        Py_XDECREF(stats);
        Py_XDECREF(scalar);
        return NULL;
    }
    return Py_BuildValue("(sLIIBOINN)", name, (long long)point->step, point->call, point->thread,
                         point->phase, point->is_skipped ? Py_True : Py_False, point->products, stats,
                         scalar);
}

static tt_status add_points(core_state *state, tt_run *run, PyObject *out, tt_error *err)
{
    for (int32_t file = 0; file < tt_run_file_count(run); file++) {
        for (int32_t site = 0; site < tt_run_site_count(run); site++) {
            size_t count = tt_run_points(run, file, site);
            for (size_t i = 0; i < count; i++) {
                tt_point point;
                tt_status st = tt_run_point(run, file, site, (int64_t)i, &point, err);
                if (st < 0)
                    return st;
                PyObject *tuple = point_tuple(state, tt_run_site_name(run, site), &point); /* owned */
                int result = tuple != NULL ? PyList_Append(out, tuple) : -1;
                Py_XDECREF(tuple);
                if (result < 0)
                    return TT_ENOMEM;
            }
        }
    }
    return TT_OK;
}

/* _points(path): list of (site, step, call, thread, phase, skipped, products, stats, scalar) */
CORE_FUNCTION(core_points)
{
    tt_run *run = NULL;     /* owned */
    PyObject *out = NULL;   /* owned */
    tt_error err = { "" };
    if (read_arguments("_points", 1, (const option[]){ { 0 } }, args, nargs, kwnames) < 0)
        return NULL;
    const char *path = PyUnicode_AsUTF8(args[0]);
    if (path == NULL)
        return NULL;
    tt_status st = tt_run_open(path, &run, &err);
    if (st == TT_OK) {
        out = PyList_New(0);
        st = out != NULL ? add_points(core_state_of(module), run, out, &err) : TT_ENOMEM;
    }
    tt_run_close(run);
    if (st < 0) {
        Py_CLEAR(out);
        if (!PyErr_Occurred())
            raise_status(st, &err);
    }
    return out;
}
