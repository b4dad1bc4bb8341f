/* chart.c -- draws operators and what flowed between them, as flow's charts are drawn.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operators/log.h"
#include "summary/stats.h"
#include "tensortap_tools.h"

/* (name, file, code, function, label, frame, line, dtype, stats) */
static int read_node(binding_state *state, PyObject *tuple, uint64_t id, tt_graph_node *out)
{
    PyObject *stats = NULL; /* borrowed */
    unsigned long long frame;
    int line;
    *out = (tt_graph_node){ .id = id, .ndim = -1 };
    if (!PyArg_ParseTuple(tuple, "szzzzKizO", &out->name, &out->file, &out->code, &out->function,
                          &out->label, &frame, &line, &out->dtype, &stats))
        return -1;
    out->frame = frame;
    out->line = line;
    if (Py_IS_TYPE(stats, state->summary_stats_type)) {
        const summary_stats_object *known = (summary_stats_object *)stats;
        out->stats = &known->stats;
        out->shape = known->shape;
        out->ndim = (int32_t)Py_SIZE(known);
    }
    return 0;
}

/* operators_dot(nodes, edges) -> str; edges: [(from, to)], by place among the nodes. */
BINDING_FUNCTION(operators_dot)
{
    binding_state *state = binding_state_of(module);
    tt_graph_node *nodes = NULL; /* owned */
    tt_graph_edge *edges = NULL; /* owned */
    tt_buf text = { 0 };
    PyObject *result = NULL;
    if (binding_read_arguments("operators_dot", 2, NULL, args, nargs, kwnames) < 0)
        return NULL;
    if (!PyList_Check(args[0]) || !PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "operators_dot(nodes, edges) takes two lists");
        return NULL;
    }
    size_t node_count = (size_t)PyList_GET_SIZE(args[0]), edge_count = (size_t)PyList_GET_SIZE(args[1]);
    nodes = PyMem_Calloc(node_count + 1, sizeof *nodes);
    edges = PyMem_Calloc(edge_count + 1, sizeof *edges);
    if (nodes == NULL || edges == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < node_count; i++)
        if (read_node(state, PyList_GET_ITEM(args[0], (Py_ssize_t)i), i, &nodes[i]) < 0)
            goto out;
    for (size_t i = 0; i < edge_count; i++) {
        unsigned long long from, to;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(args[1], (Py_ssize_t)i), "KK", &from, &to))
            goto out;
        edges[i] = (tt_graph_edge){ .from = from, .to = to };
    }
    tt_graph graph = {
        .nodes = nodes, .node_count = node_count, .edges = edges, .edge_count = edge_count
    };
    result = binding_take_text(tt_graph_dot(&graph, &text), &text);
out:
    PyMem_Free(nodes);
    PyMem_Free(edges);
    return result;
}
