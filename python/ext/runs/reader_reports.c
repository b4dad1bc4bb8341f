/* reader_reports.c -- reports about a whole run: the origin of the first NaN, its tree, where it starts to
 * differ from another run, what the rules of health find, and the page.
 *
 * The answers are the core's, the same that the program prints.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/reader.h"
#include "tensortap_tools.h"

/* (name, class or None, nan, posinf, neginf) */
PyObject *runs_value_is_masked(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name, *class_name;
    long long nan, posinf, neginf;
    if (!PyArg_ParseTuple(args, "szLLL:_value_is_masked", &name, &class_name, &nan, &posinf, &neginf))
        return NULL;
    return PyBool_FromLong(tt_value_is_masked(name, class_name, nan, posinf, neginf));
}

/* origin(allow) -> None or (file, site name, index, birth, order, of, reached, together, masked, fed by) */
PyObject *runs_reader_origin(PyObject *self, PyObject *args)
{
    const char *allow = NULL;
    tt_nonfinite found;
    tt_feed feeds[TT_FEEDS_MOST];
    tt_error err = { "" };
    tt_status st;
    size_t count = 0;
    PyObject *fed = NULL; /* owned */
    tt_run *run = PyArg_ParseTuple(args, "z:origin", &allow) ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = tt_run_nonfinite(run, allow, &found, &err);
    if (st == TT_OK && found.site >= 0)
        st = tt_run_feeds(run, &found, feeds, TT_FEEDS_MOST, &count, &err);
    Py_END_ALLOW_THREADS
    if (st < 0 || found.site < 0)
        return runs_reader_leave(self, st, &err, Py_NewRef(Py_None));
    fed = PyList_New(0);
    for (size_t i = 0; fed != NULL && i < count; i++)
        binding_list_add(&fed, Py_BuildValue("(ssL)", tt_feed_text(feeds[i].kind), feeds[i].name,
                                             (long long)feeds[i].index));
    PyObject *result = Py_BuildValue("(isLsLLiiiN)", (int)found.file, tt_run_site_name(run, found.site),
                                     (long long)found.index, tt_birth_text(found.birth),
                                     (long long)found.order, (long long)found.of, (int)found.reached,
                                     (int)found.together, (int)found.masked, fed);
    return runs_reader_leave(self, TT_OK, NULL, result);
}

static PyObject *describe_row(const tt_run *run, const tt_tree_row *row)
{
    PyObject *sites = PyList_New(0); /* owned */
    for (int32_t i = 0; sites != NULL && i < row->sites; i++)
        binding_list_add(&sites, runs_reader_text(tt_run_site_name(run, row->members[i])));
    return Py_BuildValue("(iNNNiN)", (int)row->depth, runs_reader_text(row->label),
                         runs_reader_text(row->class_name), PyBool_FromLong(row->is_output),
                         (int)row->width, sites);
}

/* tree(only) -> [(depth, label, class or None, is output, width, [name of a site, ...])] */
PyObject *runs_reader_tree(PyObject *self, PyObject *only)
{
    const tt_look look = { .rank = -1 };
    const char *glob = only != Py_None ? PyUnicode_AsUTF8(only) : NULL;
    tt_run_tree *tree = NULL;
    tt_error err = { "" };
    tt_status st;
    tt_run *run = only == Py_None || glob != NULL ? runs_reader_enter(self) : NULL;
    if (run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = tt_run_tree_create(run, &look, glob, TT_TREE_UNJOINED, &tree, &err);
    Py_END_ALLOW_THREADS
    PyObject *rows = PyList_New(0); /* owned */
    for (size_t i = 0; rows != NULL && st == TT_OK && i < tree->count; i++)
        binding_list_add(&rows, describe_row(run, &tree->rows[i]));
    tt_run_tree_free(tree);
    return runs_reader_leave(self, st, &err, rows);
}

static PyObject *describe_site(const tt_diff_site *site)
{
    return Py_BuildValue("(sisLLLLLddLsddN)", site->name, (int)site->rank, tt_diff_site_text(site),
                         (long long)site->points, (long long)site->only_a, (long long)site->only_b,
                         (long long)site->first.step, (long long)site->first.call, site->worst.deviation,
                         site->worst.floor, (long long)site->worst.step, tt_field_name(site->worst.field),
                         site->worst.a, site->worst.b, PyBool_FromLong(site->is_rounding));
}

/* Enters two in one order whoever is a and whoever is b, so that no two threads wait for each other; b
 * may be a. */
static bool enter_both(PyObject *a, PyObject *b)
{
    PyObject *first = a < b ? a : b, *second = a < b ? b : a;
    if (runs_reader_enter(first) == NULL)
        return false;
    if (a == b || runs_reader_enter(second) != NULL)
        return true;
    runs_reader_leave(first, TT_OK, NULL, NULL);
    return false;
}

static PyObject *describe_diff(const tt_diff *diff, const tt_rename *rename)
{
    PyObject *sites = PyList_New(0); /* owned */
    for (size_t i = 0; sites != NULL && i < diff->count; i++)
        binding_list_add(&sites, describe_site(&diff->sites[i]));
    PyObject *premises = PyList_New(0); /* owned */
    for (size_t i = 0; premises != NULL && i < diff->answers.count; i++) {
        const tt_answer *one = &diff->answers.items[i];
        if (one->kind == TT_ANSWER_PREMISE)
            binding_list_add(&premises, Py_BuildValue("(sLzsz)", one->rule, (long long)one->first_step,
                                                      one->site_count > 0 ? one->names[0] : NULL,
                                                      one->sentence, one->detail));
    }
    return Py_BuildValue("(sLNzzN)", tt_verdict_text(diff->verdict), (long long)diff->first, sites,
                         rename != NULL ? rename->from : NULL, rename != NULL ? rename->to : NULL,
                         premises);
}

/* diff(other, only, first step, last step, rtol, atol, from, to) -> (verdict, first,
 * sites, from, to, premises); a tolerance below 0: none; from NULL: find out. */
PyObject *runs_reader_diff(PyObject *self, PyObject *args)
{
    PyObject *other;                            /* borrowed */
    const char *only, *from = NULL, *to = NULL; /* borrowed */
    long long first, last;
    tt_diff_options options = { 0 };
    tt_rename rename = { "", "" };
    tt_error err = { "" };
    tt_status st;
    tt_diff *diff = NULL;    /* owned */
    PyObject *result = NULL; /* owned */
    if (!PyArg_ParseTuple(args, "O!zLLddzz:diff", Py_TYPE(self), &other, &only, &first, &last,
                          &options.rtol, &options.atol, &from, &to))
        return NULL;
    if (from != NULL &&
        (to == NULL || *from == '\0' ||
         (size_t)snprintf(rename.from, sizeof rename.from, "%s", from) >= sizeof rename.from ||
         (size_t)snprintf(rename.to, sizeof rename.to, "%s", to) >= sizeof rename.to))
        return PyErr_Format(PyExc_ValueError,
                            "rename must be two texts of at most 63 bytes, the first not empty");
    options.only = only;
    options.first_step = first;
    options.last_step = last;
    options.has_tolerance = options.rtol >= 0 || options.atol >= 0;
    options.rtol = options.rtol >= 0 ? options.rtol : 0;
    options.atol = options.atol >= 0 ? options.atol : 0;
    if (!enter_both(self, other))
        return NULL;
    tt_run *a = ((runs_reader *)self)->run, *b = ((runs_reader *)other)->run;
    Py_BEGIN_ALLOW_THREADS
    if (from != NULL || tt_diff_guess_rename(a, b, &rename))
        options.rename = &rename;
    st = tt_diff_compute(a, b, &options, &diff, &err);
    Py_END_ALLOW_THREADS
    if (st == TT_OK)
        result = describe_diff(diff, options.rename);
    tt_diff_free(diff);
    if (other != self)
        runs_reader_leave(other, TT_OK, NULL, NULL);
    return runs_reader_leave(self, st, &err, result);
}

/* ---- texts of the core ----------------------------------------------------- */

/* Leaves the run; str or bytes of what is in the buffer, which is freed. */
static PyObject *leave_with(PyObject *self, tt_status st, const tt_error *err, tt_buf *text,
                            bool is_bytes)
{
    Py_ssize_t len = (Py_ssize_t)text->len;
    PyObject *result = st < 0     ? NULL
                       : is_bytes ? PyBytes_FromStringAndSize(text->data, len)
                                  : PyUnicode_FromStringAndSize(text->data, len); /* owned */
    tt_buf_free(text);
    return runs_reader_leave(self, st, err, result);
}

static tt_status find(tt_run *run, const tt_health_options *options, tt_buf *out, tt_error *err)
{
    tt_findings *findings = NULL; /* owned */
    tt_status st = tt_health(run, options, &findings, err);
    if (st < 0)
        return st;
    st = tt_findings_write(findings, out);
    tt_findings_free(findings);
    return st;
}

/* health(select, ignore, allow, baseline) -> JSON text; None: all rules; none of them; no site; no baseline */
PyObject *runs_reader_health(PyObject *self, PyObject *args)
{
    tt_health_options options = { 0 };
    PyObject *baseline = Py_None; /* borrowed */
    tt_buf out = { 0 };
    tt_error err = { "" };
    tt_status st;
    if (!PyArg_ParseTuple(args, "zzzO:health", &options.select, &options.ignore, &options.allow,
                          &baseline))
        return NULL;
    if (baseline != Py_None && !PyObject_TypeCheck(baseline, Py_TYPE(self)))
        return PyErr_Format(PyExc_TypeError, "baseline must be a RunReader or None");
    if (!enter_both(self, baseline != Py_None ? baseline : self))
        return NULL;
    options.baseline = baseline != Py_None ? ((runs_reader *)baseline)->run : NULL;
    Py_BEGIN_ALLOW_THREADS
    st = find(((runs_reader *)self)->run, &options, &out, &err);
    Py_END_ALLOW_THREADS
    if (baseline != Py_None && baseline != self)
        runs_reader_leave(baseline, TT_OK, NULL, NULL);
    return leave_with(self, st, &err, &out, false);
}

/* page(path, state, private) -> bytes */
PyObject *runs_reader_page(PyObject *self, PyObject *args)
{
    tt_page_run page = { 0 };
    int is_private = 0;
    tt_buf out = { 0 };
    tt_error err = { "" };
    tt_status st;
    if (PyArg_ParseTuple(args, "ssp:page", &page.path, &page.state, &is_private))
        page.run = runs_reader_enter(self);
    if (page.run == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = tt_page_write(&page, 1, is_private != 0, &out, &err);
    Py_END_ALLOW_THREADS
    return leave_with(self, st, &err, &out, true);
}
