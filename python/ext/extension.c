/* extension.c -- tensortap._core: what Python can ask the core.
 *
 * Multi-phase init, all state in the module, no globals.  One interpreter only:
 * what later parts hold (trace functions, the writer's thread, the run file)
 * belongs to the process.  All of it is guarded by the GIL, and no slot says otherwise:
 * a free-threaded Python switches its GIL on when it imports this.
 * SPDX-License-Identifier: Apache-2.0 */
#include "binding/state.h"
#include "calls/source.h"
#include "flow/fold.h"
#include "lines/source.h"
#include "operators/log.h"
#include "probe/operator.h"
#include "runs/recorder.h"
#include "spy/functions.h"
#include "summary/docs.h"
#include "summary/functions.h"
#include "track/value.h"

#include <stdlib.h>
#include <string.h>

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef functions[] = {
    { "stats", FAST(summary_stats),
      "stats($module, t, /, *, nan_policy='omit', release_gil=False)\n--\n\n" SUMMARY_DOC_STATS },
    { "histogram", FAST(summary_histogram),
      "histogram($module, t, /, *, release_gil=False)\n--\n\n" SUMMARY_DOC_HISTOGRAM },
    { "digest", FAST(summary_digest),
      "digest($module, t, /, *, release_gil=False)\n--\n\n" SUMMARY_DOC_DIGEST },
    { "compare", FAST(summary_compare),
      "compare($module, a, b, /, *, rtol=1e-05, atol=1e-08, equal_nan=False, ulp=False, "
      "release_gil=False)\n--\n\n" SUMMARY_DOC_COMPARE },
    { "sample", FAST(summary_sample),
      "sample($module, t, /, *, max_vector=32, max_matrix=8, max_slices=6)\n--\n\n" SUMMARY_DOC_SAMPLE },
    { "attention", FAST(summary_attention),
      "attention($module, q, k, /, *, scale=None, is_causal=False, mask=None, "
      "release_gil=False)\n--\n\n" SUMMARY_DOC_ATTENTION },
    { "tensor_line", FAST(summary_tensor_line),
      "Write one line about a tensor; return None for anything else." },
    { "tree_text", FAST(summary_tree_text), "Draw a tree of (depth, label, text)." },
    { "table_text", FAST(summary_table_text),
      "Lay out a table: [(title, ...), (is a number, ...), (text, ...), ...]." },
    { "tree_line", FAST(summary_tree_line),
      "Draw one line of a log: depth, branch (0 opens, 1 goes on, 2 ends), text, whether in colour." },
    { "mood_codes", FAST(summary_mood_codes),
      "Return the escape sequences of plain text, types, remarks and alarms." },
    { "number_text", FAST(summary_number_text),
      "Write a number with four digits; exact: with as many as it needs." },
    { "watch_lines", (PyCFunction)(void (*)(void))lines_watch, METH_VARARGS | METH_KEYWORDS,
      "Call functions with what each line of the selected code does, until closed." },
    { "find_tensors", FAST(binding_find_tensors),
      "List (name, tensor) of each tensor in tuples, lists, dicts and dataclasses; index, key or field\n"
      "is appended to the name." },
    { "children", FAST(binding_children),
      "List (key, value) of what a container or dataclass holds; None for anything else." },
    { "_plain_locals", FAST(binding_plain_locals),
      "Return the locals of a frame that are numbers, booleans or short texts." },
    { "_owner", FAST(binding_owner_number),
      "Return whose a code object or a file of this name is, as a number of Owner." },
    { "copy_tensor", FAST(binding_copy_tensor),
      "Copy a tensor as it is now; make(tensor) copies what is not a plain tensor on the CPU.\n"
      "cache: a dict; a copy that somebody still holds is returned again, unless fresh." },
    { "copy_into", FAST(binding_copy_into),
      "Copy the elements of each tensor to its offset in a buffer; list the indices of those that\n"
      "cannot be read here." },
    { "track_describe", FAST(track_describe),
      "Return kind, shape, dtype, device, statistics and digest of a value, as far as it has them." },
    { "track_key", FAST(track_key),
      "Compute 128 bits that stand for a value, containers and tensors in them included." },
    { "track_frame_value", FAST(track_frame_value),
      "Return what a name holds in a frame, or the third argument." },
    { "track_record", FAST(track_record), "Put a value into the open run, if there is one." },
    { "track_record_change", FAST(track_record_change),
      "Put a change of a variable into the open run: key, file, line, name, value." },
    { "_stats_from", FAST(summary_stats_from), "Put a Stats together from its parts." },
    { "_stats_here", FAST(summary_stats_here),
      "Compute the statistics of a tensor in the CPU's memory." },
    { "_histogram_of", FAST(summary_histogram_of),
      "Put a Histogram together from pairs of a value and a number of elements like it." },
    { "_announce", FAST(calls_announce),
      "Call function(module) before each call of a module in training, until given None." },
    { "_set_traced_call", FAST(calls_set_traced_call),
      "Set the function that torch.compile traces where a watched module is called." },
    { "_dynamo_imported", FAST(calls_dynamo_imported),
      "_dynamo_imported()\n--\n\nAsk Dynamo to tell when it begins to compile." },
    { "_begin_compiling", FAST(calls_begin_compiling),
      "Prepare watched modules, from now on, to be traced by torch.compile." },
    { "_begins_whole", FAST(calls_begins_whole),
      "_begins_whole(code)\n--\n\nDoes Dynamo trace a whole watched model, in a frame with this code?" },
    { "_place", FAST(calls_probe_number),
      "Return the slot of a tensor that a module returns or gets; -1: there are too many." },
    { "_probe_register", FAST(probe_register),
      "Register the kernels of tensortap::probe_v1 through torch's C interface; False if it has none." },
    { "_probe_on_device", FAST(probe_run_on_device),
      "Run tensortap::probe_v1 on another device's tensor: start(wants_histogram) returns a number for\n"
      "the log.  True: more than these is asked for, and nothing was done." },
    { "_probe_v1", FAST(probe_run),
      "Run tensortap::probe_v1, or with a call before the slot probe_gradient_v1, on CPU tensors." },
    { "_escape", summary_escape, METH_O,
      "Escape what a terminal would obey: control characters and those that reorder text." },
    { "_hidden", FAST(calls_hidden),
      "Make an object that calls function; torch.compile traces call, which reads .traced." },
    { "_reduce_module", calls_reduce_module, METH_O,
      "Reduce a watched module to what an unwatched one is pickled as." },
    { "spy_save", FAST(spy_save),
      "spy_save($module, name, tensor, module=None, *, norm_only=False, stats_only=False)\n--\n\n"
      "Save a tensor inside a DebugContext; do nothing outside.\n\n"
      "Args:\n"
      "    name: Name of the file, after the prefix of the context and the path of the module.\n"
      "    tensor: A tensor, or containers of tensors: position, key or field is appended.\n"
      "    module: The module that calls; its path becomes part of the name.\n"
      "    norm_only: Save the L2 norm of each row of the first dimension instead.\n"
      "    stats_only: Save the statistics as JSON instead.\n\n"
      "Example:\n"
      "    >>> import torch\n"
      "    >>> from tensortap.spy import DebugContext, TensorSaver, spy_save\n"
      "    >>> with DebugContext(TensorSaver(\"debug\")):\n"
      "    ...     spy_save(\"q\", torch.ones(2))\n"
      "    >>> torch.load(\"debug/manual.q.call0.pt\")\n"
      "    tensor([1., 1.])" },
    { "_sketch", FAST(summary_sketch), "Return 17 float32 for each token of a tensor, as bytes." },
    { "_sketch_turn", summary_sketch_turn, METH_O,
      "Return eight complex numbers, as 16: a token's sums times these are those of features so many "
      "blocks further." },
    { "_axes", FAST(summary_axes), "Return uint64 digests of the rows and of the columns, as bytes." },
    { "_digests", FAST(summary_digests),
      "List the hexadecimal digest of each tensor; None if it cannot be read. If limit is not 0, about "
      "so\nmany bytes of a larger tensor are read, in rows at equal distances." },
    { "_fold", FAST(flow_fold), "List (at, length, times) of equal blocks that follow each other." },
    { "_dot", FAST(spy_dot), "Return the DOT text of a graph." },
    { "_operators_dot", FAST(operators_dot), "Return the DOT text of a chart of operators." },
    { "tables", runs_tables, METH_NOARGS,
      "Return (name, about, [(column, type, about), ...]) of each table of Table." },
    { "_block_look", runs_block_look, METH_VARARGS,
      "Return (is the end of a file, where its footer is, length) of a block's 64 bytes, or None." },
    { "_value_is_masked", runs_value_is_masked, METH_VARARGS,
      "Return whether a tensor is meant to hold -Inf: (name, class of its module or None, nan, posinf, "
      "neginf)." },
    { "_read_keep", runs_read_keep, METH_O,
      "Return the products that 'stats,value' or 'stats|value' stands for." },
    { 0 },
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out == NULL ? -1 : PyModule_AddType(module, *out);
}

/* 3.12 and later refuse by themselves (see the slot below). */
static int refuse_subinterpreter(void)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        return 0;
    PyErr_SetString(PyExc_ImportError,
                    "module tensortap._core does not support loading in subinterpreters");
    return -1;
}

static int core_exec(PyObject *module)
{
    binding_state *state = binding_state_of(module);
    if (refuse_subinterpreter() < 0)
        return -1;
#define X(name)                                                  \
    if (add_type(module, &name##_spec, &state->name##_type) < 0) \
        return -1;
    BINDING_TYPE_MAP(X)
#undef X
    state->slice_type = summary_slice_type();
    if (state->slice_type == NULL || PyModule_AddType(module, state->slice_type) < 0)
        return -1;
    state->open_runs = PyList_New(0);
    if (state->open_runs == NULL || PyModule_AddObjectRef(module, "_open_runs", state->open_runs) < 0)
        return -1;
    state->calls = calls_state_create();
    if (state->calls == NULL || spy_init(module, state) < 0)
        return -1;
    const char *forced = getenv("TENSORTAP_DEVICE_PATH");
    state->is_device_forced = forced != NULL && strcmp(forced, "1") == 0;
    if (PyModule_AddStringConstant(module, "version", tt_version()) < 0 ||
        PyModule_AddStringConstant(module, "isa", tt_isa_name()) < 0)
        return -1;
    return 0;
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    binding_state *state = binding_state_of(module);
#define X(name) Py_VISIT(state->name##_type);
    BINDING_TYPE_MAP(X)
#undef X
    Py_VISIT(state->slice_type);
    Py_VISIT(state->open_runs);
    Py_VISIT(state->spy_entered);
    return tensor_torch_visit(&state->torch, visit, arg);
}

static int core_clear(PyObject *module)
{
    binding_state *state = binding_state_of(module);
#define X(name) Py_CLEAR(state->name##_type);
    BINDING_TYPE_MAP(X)
#undef X
    Py_CLEAR(state->slice_type);
    lines_source_free(state->lines);
    state->lines = NULL;
    tensor_torch_clear(&state->torch);
    if (state->calls != NULL)
        calls_state_clear(state->calls);
    Py_CLEAR(state->open_runs);
    Py_CLEAR(state->spy_entered);
    Py_CLEAR(state->spy_method);
    binding_forget_folders(state);
    return 0;
}

static void core_free(void *module)
{
    binding_state *state = binding_state_of(module);
    core_clear(module);
    calls_state_free(state->calls);
    state->calls = NULL;
}

static PyModuleDef_Slot slots[] = {
    { Py_mod_exec, core_exec },
#if PY_VERSION_HEX >= 0x030C0000
    { Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED },
#endif
    { 0, NULL },
};

struct PyModuleDef binding_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tensortap._core",
    .m_doc = "The C core of tensortap: summaries of tensors.",
    .m_size = sizeof(binding_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&binding_module);
}
