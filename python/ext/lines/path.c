/* path.c -- finds the object that a path of the program leads to.
 *
 * Runs no code of the user's: no property, no __getattr__, no __getitem__ of a
 * class in Python.  A path that needs such code is not found.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <string.h>

/* A borrowed value: the owner holds it. */
static PyObject *borrow(PyObject *owned)
{
    Py_XDECREF(owned);
    return owned;
}

static PyObject *dict_get(PyObject *dict, PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (found == NULL)
        PyErr_Clear();
    return found;
}

/* A field of a namedtuple, which has a descriptor of its own, in C. */
static bool is_field(PyObject *obj, PyObject *found)
{
    const char *name = strrchr(Py_TYPE(found)->tp_name, '.'); /* its module's differs with the version */
    return PyTuple_Check(obj) && name != NULL && strcmp(name, "._tuplegetter") == 0;
}

/* As object.__getattribute__ finds it, but no descriptor of Python code runs. */
static PyObject *plain_attribute(PyObject *obj, PyObject *name)
{
    PyObject *found = _PyType_Lookup(Py_TYPE(obj), name); /* borrowed */
    if (found != NULL && Py_TYPE(found)->tp_descr_get != NULL &&
        !Py_IS_TYPE(found, &PyMemberDescr_Type) && !is_field(obj, found))
        return NULL;
    found = _PyObject_GenericGetAttrWithDict(obj, name, NULL, 1);
    if (found == NULL)
        PyErr_Clear();
    return borrow(found);
}

/* nn.Module keeps these out of its __dict__. */
static PyObject *module_attribute(PyObject *obj, PyObject *name)
{
    static const char *const tables[] = { "_parameters", "_buffers", "_modules" };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        PyObject *key = PyUnicode_InternFromString(tables[i]); /* owned */
        PyObject *dict = key != NULL ? plain_attribute(obj, key) : NULL;
        Py_XDECREF(key);
        if (dict == NULL || !PyDict_Check(dict))
            break;
        PyObject *found = dict_get(dict, name);
        if (found != NULL)
            return found;
    }
    PyErr_Clear();
    return NULL;
}

static PyObject *attribute_of(PyObject *obj, PyObject *name)
{
    if (PyModule_CheckExact(obj))
        return dict_get(PyModule_GetDict(obj), name);
    if (PyType_Check(obj))
        return _PyType_Lookup((PyTypeObject *)obj, name);
    if (PyFunction_Check(obj) || PyLong_Check(obj) || PyUnicode_Check(obj) || PyFloat_Check(obj))
        return NULL;
    PyObject *found = plain_attribute(obj, name);
    if (found == NULL && PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_HEAPTYPE))
        found = module_attribute(obj, name);
    return found;
}

/* Of an item of a list or tuple, counted from its start; below 0: the key is no such index. */
static Py_ssize_t index_of(PyObject *list, PyObject *key)
{
    Py_ssize_t i = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : PY_SSIZE_T_MIN;
    if (i == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return -1;
    }
    return i < 0 ? i + Py_SIZE(list) : i;
}

PyObject *lines_path_item(PyObject *obj, PyObject *key)
{
    if (PyDict_Check(obj))
        return dict_get(obj, key);
    if (PyList_Check(obj) || PyTuple_Check(obj)) {
        Py_ssize_t i = index_of(obj, key);
        return i >= 0 && i < Py_SIZE(obj) ? PySequence_Fast_GET_ITEM(obj, i) : NULL;
    }
    if (PyLong_CheckExact(key)) {           /* nn.ModuleList, nn.Sequential */
        PyObject *text = PyObject_Str(key); /* owned */
        PyObject *found = text != NULL ? module_attribute(obj, text) : NULL;
        PyErr_Clear();
        Py_XDECREF(text);
        return found;
    }
    return NULL;
}

/* ---- keys of items ------------------------------------------------------------- */

/* `xs[i - 1]`, `cache[layer, "k"]` and `cache[f"k{i}"]` name an item as `xs[0]` does.  The key is
 * computed here a second time, before the statement runs (after it, for an item that is written):
 * only from numbers and strings of Python's own types, so that no code of the program runs twice. */

enum { DEEPEST = 16 }; /* LONGEST in analysis/statement.py */

static bool is_plain(PyObject *key)
{
    return PyLong_CheckExact(key) || PyUnicode_CheckExact(key) || PyBool_Check(key) || key == Py_None ||
           PyFloat_CheckExact(key) || PyBytes_CheckExact(key);
}

bool lines_path_is_key(PyObject *key)
{
    if (!PyTuple_CheckExact(key))
        return is_plain(key);
    Py_ssize_t i = 0;
    while (i < PyTuple_GET_SIZE(key) && is_plain(PyTuple_GET_ITEM(key, i)))
        i++;
    return i == PyTuple_GET_SIZE(key);
}

/* A number that takes no time to compute with. */
static bool is_small(PyObject *number)
{
    int overflow = 1;
    if (PyLong_CheckExact(number))
        (void)PyLong_AsLongAndOverflow(number, &overflow);
    return overflow == 0;
}

/* New reference; NULL: not these. */
static PyObject *operate(PyObject *sign, PyObject *a, PyObject *b)
{
    bool are_numbers = is_small(a) && is_small(b),
         are_texts = PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b);
    switch (PyUnicode_READ_CHAR(sign, 0)) {
    case '+':
        return are_texts ? PyUnicode_Concat(a, b) : are_numbers ? PyNumber_Add(a, b) : NULL;
    case '-':
        return are_numbers ? PyNumber_Subtract(a, b) : NULL;
    case '*':
        return are_numbers ? PyNumber_Multiply(a, b) : NULL;
    case '/':
        return are_numbers ? PyNumber_FloorDivide(a, b) : NULL;
    case '%':
        return are_numbers ? PyNumber_Remainder(a, b) : NULL;
    }
    return NULL;
}

/* The last n of the stack as one; new reference. */
static PyObject *make_tuple(PyObject **stack, Py_ssize_t n)
{
    PyObject *made = PyTuple_New(n);
    for (Py_ssize_t i = 0; made != NULL && i < n; i++)
        PyTuple_SET_ITEM(made, i, Py_NewRef(stack[i]));
    return made;
}

/* What one step pushes, and how many entries it takes; new reference. */
static PyObject *do_step(lines_source *source, lines_record *record, PyObject *step, PyObject **stack,
                         Py_ssize_t depth, Py_ssize_t *taken)
{
    *taken = 0;
    if (PyTuple_Check(step))
        return Py_NewRef(PyTuple_GET_ITEM(step, 0));
    if (PyLong_Check(step)) {
        long number = PyLong_AsLong(step);
        lines_target target = { 0 };
        *taken = number < 0 ? -number : 0;
        if (number < 0)
            return *taken <= depth ? make_tuple(stack + depth - *taken, *taken) : NULL;
        lines_path_find(source, record, (int)number, false, &target);
        return target.object != NULL && lines_path_is_key(target.object) ? Py_NewRef(target.object)
                                                                         : NULL;
    }
    bool is_text = PyUnicode_READ_CHAR(step, 0) == 't';
    *taken = is_text ? 1 : 2;
    if (*taken > depth)
        return NULL;
    if (is_text)
        return is_small(stack[depth - 1]) || PyUnicode_CheckExact(stack[depth - 1])
                   ? PyObject_Str(stack[depth - 1])
                   : NULL;
    return operate(step, stack[depth - 2], stack[depth - 1]);
}

static PyObject *compute(lines_source *source, lines_record *record, PyObject *formula)
{
    PyObject *stack[DEEPEST + 1], *key = NULL; /* owned */
    Py_ssize_t depth = 0;
    bool is_well = true;
    for (Py_ssize_t i = 0; is_well && i < PyTuple_GET_SIZE(formula) && depth <= DEEPEST; i++) {
        Py_ssize_t taken;
        PyObject *made = do_step(source, record, PyTuple_GET_ITEM(formula, i), stack, depth, &taken);
        is_well = made != NULL;
        if (!is_well)
            PyErr_Clear(); /* x // 0 is the program's to raise; no event comes with one pending */
        for (; is_well && taken > 0; taken--)
            Py_DECREF(stack[--depth]);
        if (is_well)
            stack[depth++] = made;
    }
    if (is_well && depth == 1 && lines_path_is_key(stack[0]))
        key = Py_NewRef(stack[0]);
    while (depth > 0)
        Py_DECREF(stack[--depth]);
    return key;
}

/* The key of an item; new reference; NULL, without an exception: it is not known. */
static PyObject *key_of(lines_source *source, lines_record *record, const lines_path *path)
{
    if (path->kind == PATH_ITEM)
        return Py_NewRef(path->detail);
    if (path->kind != PATH_ITEM_BY)
        return NULL;
    if (path->key < 0)
        return compute(source, record, path->detail);
    lines_target key;
    lines_path_find(source, record, path->key, false, &key);
    return key.object != NULL && lines_path_is_key(key.object) ? Py_NewRef(key.object) : NULL;
}

/* ---- paths --------------------------------------------------------------------- */

static void set_kind(lines_source *source, lines_target *out)
{
    out->kind = out->object != NULL ? lines_state_kind(source, out->object) : KIND_NONE;
}

uint64_t lines_path_member(Py_hash_t hash, lines_path_kind kind)
{
    return (uint64_t)hash * 8 + (uint64_t)(kind == PATH_ATTRIBUTE) + 1;
}

static void find_root(lines_source *source, lines_record *record, const lines_path *path, bool is_stored,
                      lines_target *out)
{
    PyObject *names = path->kind == PATH_NAME ? base_frame_names(record->at) : NULL;
    PyObject *owner = names != NULL && PyDict_Check(names) ? names : NULL;
    out->object = owner != NULL ? dict_get(owner, path->detail) : NULL;
    if (out->object == NULL && !(is_stored && owner != NULL)) {
        owner = base_frame_globals(record->at);
        out->object = owner != NULL && PyDict_Check(owner) ? dict_get(owner, path->detail) : NULL;
    }
    out->owner = owner;
    out->member = lines_path_member(path->hash, PATH_GLOBAL);
    set_kind(source, out);
}

/* xs[-1] is the last item, whatever it is called. */
static Py_hash_t item_hash(const lines_path *path, PyObject *owner, PyObject *key)
{
    if (path->kind != PATH_ATTRIBUTE && (PyList_Check(owner) || PyTuple_Check(owner))) {
        Py_ssize_t i = index_of(owner, key);
        if (i >= 0)
            return i; /* a number is its own hash */
    }
    return path->kind == PATH_ITEM_BY ? PyObject_Hash(key) : path->hash;
}

void lines_path_find(lines_source *source, lines_record *record, int number, bool is_stored,
                     lines_target *out)
{
    const lines_path *path = &record->code->table->paths[number];
    *out = (lines_target){ .path = number, .slot = -1 };
    if (path->kind == PATH_LOCAL) {
        out->slot = path->base;
        out->object = base_frame_slot(record->at, path->base, path->detail);
        set_kind(source, out);
        return;
    }
    if (path->kind == PATH_GLOBAL || path->kind == PATH_NAME) {
        find_root(source, record, path, is_stored, out);
        return;
    }
    lines_target base;
    lines_path_find(source, record, path->base, false, &base);
    if (base.kind == KIND_TORCH || base.kind == KIND_ARRAY) {
        if (!path->is_about)
            *out = base; /* a part of a tensor is the tensor */
        return;
    }
    if (base.object == NULL)
        return;
    PyObject *key =
        path->kind == PATH_ATTRIBUTE ? Py_NewRef(path->detail) : key_of(source, record, path); /* owned */
    if (key == NULL)
        return;
    Py_hash_t hash = item_hash(path, base.object, key);
    out->object =
        path->kind == PATH_ATTRIBUTE ? attribute_of(base.object, key) : lines_path_item(base.object, key);
    out->owner = base.object;
    out->member = lines_path_member(hash, path->kind);
    Py_DECREF(key);
    set_kind(source, out);
}

PyObject *lines_path_text(lines_source *source, lines_record *record, int number)
{
    const lines_path *path = &record->code->table->paths[number];
    if (path->kind < PATH_ATTRIBUTE || path->kind == PATH_OPAQUE)
        return Py_NewRef(path->text);
    PyObject *base = lines_path_text(source, record, path->base); /* owned */
    PyObject *key = NULL;                                         /* owned */
    PyObject *text = NULL;
    if (base == NULL)
        return NULL;
    if (path->kind == PATH_ATTRIBUTE)
        text = base == record->code->table->paths[path->base].text
                   ? Py_NewRef(path->text)
                   : PyUnicode_FromFormat("%U.%U", base, path->detail);
    else if ((key = key_of(source, record, path)) != NULL)
        text = PyUnicode_FromFormat("%U[%R]", base, key);
    else
        text = Py_NewRef(path->text);
    Py_XDECREF(key);
    Py_DECREF(base);
    return text;
}

lines_kind lines_path_name_kind(const lines_record *record, int number)
{
    static const lines_kind kinds[] = {
        [PATH_LOCAL] = LINES_LOCAL,         [PATH_GLOBAL] = LINES_GLOBAL, [PATH_NAME] = LINES_GLOBAL,
        [PATH_ATTRIBUTE] = LINES_ATTRIBUTE, [PATH_ITEM] = LINES_ITEM,     [PATH_ITEM_BY] = LINES_ITEM,
        [PATH_OPAQUE] = LINES_ITEM
    };
    lines_path_kind kind = record->code->table->paths[number].kind;
    bool is_class_body =
        kind == PATH_NAME && base_frame_names(record->at) != base_frame_globals(record->at);
    return is_class_body ? LINES_LOCAL : kinds[kind];
}
