/* placement.c -- meshes and placements between Python and the run file.
 *
 * Python finds out where a tensor belongs (its DTensor, the hooks of its module); the names of the numbers
 * are in models/placement.py.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "runs/recorder.h"
#include "tensortap_tools.h"

#include <string.h>

/* A tuple of at most `most` numbers; -1 with an exception. */
static Py_ssize_t read_numbers(PyObject *tuple, int64_t *out, Py_ssize_t most)
{
    Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : -1;
    if (count < 0 || count > most) {
        PyErr_Format(PyExc_ValueError, "a tuple of at most %zd numbers is needed, not %R", most, tuple);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    return PyErr_Occurred() ? -1 : count;
}

/* The recorder if it is open; NULL with an exception. */
static runs_recorder *open_recorder(PyObject *self)
{
    runs_recorder *recorder = (runs_recorder *)self;
    return runs_recorder_refuse_closed(recorder) < 0 ? NULL : recorder;
}

/* mesh(names, sizes, coordinate, ranks) -> int: what placements refer to it by; ranks: array of int32 */
PyObject *runs_recorder_mesh(PyObject *self, PyObject *args)
{
    PyObject *names, *sizes, *coordinate; /* borrowed */
    Py_buffer ranks;
    tt_mesh mesh = { 0 };
    int64_t size[TT_MESH_DIMS], at[TT_MESH_DIMS];
    uint64_t id = 0;
    tt_status st = TT_EINVAL;
    runs_recorder *recorder = open_recorder(self);
    if (recorder == NULL ||
        !PyArg_ParseTuple(args, "O!OOy*:mesh", &PyTuple_Type, &names, &sizes, &coordinate, &ranks))
        return NULL;
    Py_ssize_t count = read_numbers(sizes, size, TT_MESH_DIMS), all = 1;
    if (count < 0 || read_numbers(coordinate, at, TT_MESH_DIMS) != count ||
        PyTuple_GET_SIZE(names) != count)
        goto out;
    mesh.ndim = (int32_t)count;
    for (Py_ssize_t d = 0; d < count; d++) {
        mesh.size[d] = (int32_t)size[d];
        mesh.coordinate[d] = (int32_t)at[d];
        mesh.name[d] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, d));
        all *= size[d] > 0 ? (Py_ssize_t)size[d] : 0;
        if (mesh.name[d] == NULL)
            goto out;
    }
    mesh.ranks = ranks.buf;
    if (all * (Py_ssize_t)sizeof(int32_t) == ranks.len)
        st = tt_recorder_mesh(recorder->rec, &mesh, &id);
out:
    PyBuffer_Release(&ranks);
    if (st < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError,
                        "names, sizes, coordinate and ranks of a mesh do not fit together");
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(id);
}

/* (spread, dim, factor, reduction) of each mesh dimension */
static int read_spreads(PyObject *tuple, tt_placement *out)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t d = 0; d < count && d < TT_MESH_DIMS; d++) {
        int spread, dim, factor, reduction;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, d), "iiii", &spread, &dim, &factor, &reduction))
            return -1;
        out->on[d].spread = (tt_spread)spread;
        out->on[d].dim = dim;
        out->on[d].factor = factor;
        out->on[d].reduction = (tt_reduction)reduction;
    }
    out->mesh_ndim = (int32_t)count;
    return 0;
}

/* ((offsets, sizes), ...) */
static int read_boxes(PyObject *tuple, tt_box *boxes, tt_placement *out)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t i = 0; i < count && i < TT_PLACEMENT_BOXES; i++) {
        PyObject *offset, *size; /* borrowed */
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "OO", &offset, &size) ||
            read_numbers(offset, boxes[i].offset, TT_MAX_DIM) < 0 ||
            read_numbers(size, boxes[i].size, TT_MAX_DIM) < 0)
            return -1;
    }
    out->box_count = (int32_t)count;
    out->boxes = boxes;
    return 0;
}

/* Remembers where the tensors of a site belong, for those who record them. */
static void keep_place(runs_recorder *self, int32_t site, const tt_placement *p)
{
    runs_recorder_site *row = site >= 0 ? runs_recorder_site_at(self, site) : NULL;
    if (row == NULL || p->mesh_ndim > TT_MESH_DIMS || p->box_count > TT_PLACEMENT_BOXES)
        return;
    size_t boxes = (size_t)p->box_count * sizeof *p->boxes;
    tt_placement *kept = PyMem_Malloc(sizeof *kept + boxes);
    row->is_addend = false;
    for (int32_t d = 0; d < p->mesh_ndim; d++)
        row->is_addend |= p->on[d].spread == TT_SPREAD_PARTIAL;
    if (kept != NULL) {
        *kept = *p;
        kept->boxes = (const tt_box *)(const void *)(kept + 1);
        memcpy(kept + 1, p->boxes, boxes);
    }
    PyMem_Free(row->place);
    row->place = kept;
}

/* place(site number, step, mesh, source, spreads, shape or None, boxes) */
PyObject *runs_recorder_place(PyObject *self, PyObject *args)
{
    PyObject *spreads, *shape, *boxes; /* borrowed */
    int site, source;
    long long step;
    unsigned long long mesh;
    tt_box room[TT_PLACEMENT_BOXES];
    runs_recorder *recorder = open_recorder(self);
    if (recorder == NULL || !PyArg_ParseTuple(args, "iLKiO!OO!:place", &site, &step, &mesh, &source,
                                              &PyTuple_Type, &spreads, &shape, &PyTuple_Type, &boxes))
        return NULL;
    tt_placement placement = {
        .step = step, .mesh = mesh, .source = (tt_placement_source)source, .ndim = -1
    };
    if (shape != Py_None)
        placement.ndim = (int32_t)read_numbers(shape, placement.shape, TT_MAX_DIM);
    if (PyErr_Occurred() || read_spreads(spreads, &placement) < 0 ||
        read_boxes(boxes, room, &placement) < 0)
        return NULL;
    keep_place(recorder, site, &placement);
    tt_status st = tt_recorder_place(recorder->rec, site, &placement);
    return st < 0 ? binding_raise_status(st, NULL) : Py_NewRef(Py_None);
}

int runs_recorder_find_place(runs_recorder *self, tensor_looks *looks, PyObject *tensor, int32_t site,
                             int64_t step)
{
    runs_recorder_site *row = runs_recorder_has_placer(self) ? runs_recorder_site_at(self, site) : NULL;
    if (row == NULL || self->rec == NULL)
        return 0;
    (void)tensor_torch_find(&self->state->torch);
    PyObject *spec = tensor != NULL ? tensor_torch_spec(&self->state->torch, tensor, row->asks_graph)
                                    : Py_NewRef(Py_None); /* owned */
    if (row->spec == spec) {
        Py_DECREF(spec);
        return 0;
    }
    if (looks != NULL)
        tensor_looks_clear(looks); /* Python code runs */
    PyObject *result =
        PyObject_CallFunction(self->placer, "isOOL", site, tt_recorder_site_name(self->rec, site),
                              tensor != NULL ? tensor : Py_None, spec, (long long)step);
    row = runs_recorder_site_at(self, site); /* it may have moved */
    if (row != NULL) {
        row->asks_graph |= result == Py_True;
        Py_XSETREF(row->spec, Py_NewRef(spec));
    }
    Py_DECREF(spec);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

void runs_recorder_forget_places(runs_recorder *self)
{
    for (size_t i = 0; i < self->site_cap; i++) {
        Py_CLEAR(self->site[i].spec);
        PyMem_Free(self->site[i].place);
        self->site[i].place = NULL;
    }
}

static PyObject *describe_mesh(const tt_mesh *mesh)
{
    PyObject *names = PyList_New(0), *ranks = PyList_New(0), *sizes = PyList_New(0),
             *at = PyList_New(0); /* owned */
    int64_t count = 1;
    for (int32_t d = 0; d < mesh->ndim; d++) {
        binding_list_add(&names, runs_reader_text(mesh->name[d]));
        binding_list_add(&sizes, PyLong_FromLong(mesh->size[d]));
        binding_list_add(&at, PyLong_FromLong(mesh->coordinate[d]));
        count *= mesh->size[d];
    }
    for (int64_t i = 0; i < count; i++)
        binding_list_add(&ranks, PyLong_FromLong(mesh->ranks[i]));
    return Py_BuildValue("(NNNN)", names, sizes, at, ranks);
}

static PyObject *describe_spreads(const tt_placement *p)
{
    PyObject *spreads = PyList_New(0); /* owned */
    for (int32_t d = 0; d < p->mesh_ndim; d++)
        binding_list_add(&spreads, Py_BuildValue("(iiii)", (int)p->on[d].spread, (int)p->on[d].dim,
                                                 (int)p->on[d].factor, (int)p->on[d].reduction));
    return spreads;
}

static PyObject *describe_boxes(const tt_placement *p)
{
    PyObject *boxes = PyList_New(0); /* owned */
    for (int32_t i = 0; i < p->box_count; i++)
        binding_list_add(&boxes, Py_BuildValue("(NN)", binding_shape_tuple(p->boxes[i].offset, p->ndim),
                                               binding_shape_tuple(p->boxes[i].size, p->ndim)));
    return boxes;
}

/* placement(file, site, step) -> None or (step, mesh, source, spreads, shape, boxes);
 * mesh: None or (names, sizes, coordinate, ranks) */
PyObject *runs_reader_placement(PyObject *self, PyObject *args)
{
    int file, site;
    long long step;
    tt_run *run =
        PyArg_ParseTuple(args, "iiL:placement", &file, &site, &step) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    const tt_placement *p = tt_run_placement(run, file, site, step);
    const tt_mesh *mesh = p != NULL ? tt_run_mesh(run, file, p->mesh) : NULL;
    PyObject *result = p != NULL ? Py_BuildValue("(LNiNNN)", (long long)p->step,
                                                 mesh != NULL ? describe_mesh(mesh) : Py_NewRef(Py_None),
                                                 (int)p->source, describe_spreads(p),
                                                 p->ndim >= 0 ? binding_shape_tuple(p->shape, p->ndim)
                                                              : Py_NewRef(Py_None),
                                                 describe_boxes(p))
                                 : Py_NewRef(Py_None);
    return runs_reader_leave(self, TT_OK, NULL, result);
}

/* joined(site) -> None or (ranks, parts, points, incomplete, found, partial, unknown, unplaced, unequal, first
 * unequal step); None: the run is not joined */
PyObject *runs_reader_joined(PyObject *self, PyObject *site)
{
    long number = PyLong_AsLong(site);
    tt_run *run = number == -1 && PyErr_Occurred() ? NULL : runs_reader_enter(self);
    if (run == NULL)
        return NULL;
    const tt_joined_site *j = tt_run_joined(run, (int32_t)number);
    PyObject *result =
        j != NULL ? Py_BuildValue("(iiLLiLLLLL)", (int)j->ranks, (int)j->parts, (long long)j->points,
                                  (long long)j->incomplete, (int)j->found, (long long)j->partial,
                                  (long long)j->unknown, (long long)j->unplaced, (long long)j->unequal,
                                  (long long)j->first_unequal)
                  : Py_NewRef(Py_None);
    return runs_reader_leave(self, TT_OK, NULL, result);
}
