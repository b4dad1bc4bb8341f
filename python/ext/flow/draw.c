/* draw.c -- a chart's nodes as the core wants to draw them.
 *
 * The look of each node comes from outside: source text and module paths are found by
 * Python, and only when the chart is drawn.  So does what is folded: a node of a repeated
 * block is drawn as the same node of the first such block.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"
#include "tensortap_tools.h"

#include <stdlib.h>
#include <string.h>

/* str.encode with what UTF-8 cannot hold replaced; lives as long as the list. */
static const char *utf8(PyObject *text, PyObject **owners)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"); /* the list's */
    binding_list_add(owners, bytes);
    return *owners != NULL ? PyBytes_AS_STRING(bytes) : NULL;
}

/* From Python: (code, label, first). */
typedef struct look {
    PyObject *code, *label; /* borrowed */
    Py_ssize_t first;       /* place of the node that it is drawn as */
} look;

static look *read_looks(PyObject *list, size_t count)
{
    look *looks = PyMem_Calloc(count + 1, sizeof *looks); /* handed over */
    if (looks == NULL)
        PyErr_NoMemory();
    else if (!PyList_Check(list) || (size_t)PyList_GET_SIZE(list) != count)
        PyErr_SetString(PyExc_ValueError, "give one look for each node");
    for (size_t i = 0; i < count && !PyErr_Occurred(); i++) {
        if (PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "UUn", &looks[i].code, &looks[i].label,
                             &looks[i].first) &&
            (looks[i].first < 0 || (size_t)looks[i].first > i ||
             looks[looks[i].first].first != looks[i].first))
            PyErr_SetString(PyExc_ValueError, "a node is drawn as itself or as an earlier one");
    }
    if (PyErr_Occurred()) {
        PyMem_Free(looks);
        looks = NULL;
    }
    return looks;
}

static int describe(const flow_node *node, uint64_t id, const look *how, PyObject **owners,
                    tt_graph_node *out)
{
    const PyCodeObject *where = (PyCodeObject *)node->code;
    const summary_facts *facts = &node->sight.value.facts;
    *out = (tt_graph_node){ .id = id,
                            .name = utf8(node->name, owners),
                            .file = utf8(where->co_filename, owners),
                            .code = utf8(how->code, owners),
                            .function = utf8(where->co_name, owners),
                            .label = utf8(how->label, owners),
                            .frame = node->frame,
                            .line = node->line,
                            .is_source = node->is_source,
                            .dtype = facts->dtype[0] != '\0' ? facts->dtype : "tensor",
                            .shape = facts->shape,
                            .ndim = facts->ndim,
                            .device = facts->device[0] != '\0' ? facts->device : NULL,
                            .note = node->sight.value.note,
                            .stats = facts->has_stats ? &facts->stats : NULL,
                            .sample = node->sight.value.sample };
    return *owners != NULL ? 0 : -1;
}

static size_t count_edges(const flow_chart *chart)
{
    size_t count = 0;
    for (uint64_t id = chart->oldest; id < chart->next; id++)
        count += flow_chart_at(chart, id)->from_count;
    return count;
}

static int by_ends(const void *a, const void *b)
{
    const tt_graph_edge *x = a, *y = b;
    return x->to != y->to ? (x->to > y->to) - (x->to < y->to) : (x->from > y->from) - (x->from < y->from);
}

/* Of folded blocks: each arrow once, and none from one block back into the next one's stead. */
static size_t fold_edges(tt_graph_edge *edges, size_t count)
{
    size_t kept = 0;
    qsort(edges, count, sizeof *edges, by_ends);
    for (size_t i = 0; i < count; i++)
        if (edges[i].from < edges[i].to && (kept == 0 || by_ends(&edges[kept - 1], &edges[i]) != 0))
            edges[kept++] = edges[i];
    return kept;
}

/* ids: that a node is drawn with, by its own.  Arrows from dropped nodes are left out. */
static size_t list_edges(const flow_chart *chart, const uint64_t *ids, tt_graph_edge *out)
{
    size_t count = 0;
    for (uint64_t id = chart->oldest; id < chart->next; id++) {
        const flow_node *node = flow_chart_at(chart, id);
        for (size_t i = 0; i < node->from_count; i++)
            if (node->from[i] >= chart->oldest)
                out[count++] = (tt_graph_edge){ .from = ids[node->from[i] - chart->oldest],
                                                .to = ids[id - chart->oldest] };
    }
    return count;
}

static PyObject *write_dot(const tt_graph *graph, const tt_graph_size *sizes)
{
    tt_buf page = { 0 };
    tt_status st = sizes != NULL ? tt_graph_dot_placed(graph, sizes, &page) : tt_graph_dot(graph, &page);
    return Py_BuildValue("sN", tt_graph_engine(graph), binding_take_text(st, &page));
}

static PyObject *write_json(const tt_graph *graph)
{
    tt_buf page = { 0 };
    tt_status st = tt_graph_json(graph, &page);
    return binding_take_text(st, &page);
}

/* In DOT, nodes that are drawn as others are left out; sizes: NULL, or bytes with one of each node. */
static PyObject *draw(flow_object *self, PyObject *list, PyObject *sizes, bool is_dot)
{
    const flow_chart *chart = &self->chart;
    size_t count = flow_chart_count(chart), drawn = 0;
    PyObject *owners = NULL, *text = NULL; /* owned */
    const flow_node **order = NULL;        /* owned */
    uint64_t *ids = NULL;                  /* owned */
    tt_graph_node *nodes = NULL;           /* owned */
    tt_graph_edge *edges = NULL;           /* owned */
    look *looks = read_looks(list, count); /* owned */
    if (looks == NULL)
        return NULL;
    owners = PyList_New(0);
    order = PyMem_Calloc(count + 1, sizeof *order);
    ids = PyMem_Calloc(count + 1, sizeof *ids);
    nodes = PyMem_Calloc(count + 1, sizeof *nodes);
    edges = PyMem_Calloc(count_edges(chart) + 1, sizeof *edges);
    if (owners == NULL || order == NULL || ids == NULL || nodes == NULL || edges == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    flow_chart_sort(chart, order);
    for (size_t i = 0; i < count; i++) {
        size_t first = is_dot ? (size_t)looks[i].first : i;
        ids[order[i]->id - chart->oldest] = chart->oldest + first; /* numbers follow the order */
        if (first == i && describe(order[i], chart->oldest + i, &looks[i], &owners, &nodes[drawn++]) < 0)
            goto out;
    }
    if (sizes != NULL && (size_t)PyBytes_GET_SIZE(sizes) != drawn * sizeof(tt_graph_size)) {
        PyErr_SetString(PyExc_ValueError, "give the width and height of each node");
        goto out;
    }
    tt_graph graph = { .nodes = nodes, .node_count = drawn, .edges = edges };
    graph.edge_count = list_edges(chart, ids, edges);
    if (drawn < count)
        graph.edge_count = fold_edges(edges, graph.edge_count);
    const void *placed = sizes != NULL ? PyBytes_AS_STRING(sizes) : NULL;
    text = is_dot ? write_dot(&graph, placed) : write_json(&graph);
out:
    PyMem_Free(looks);
    PyMem_Free(edges);
    PyMem_Free(nodes);
    PyMem_Free(ids);
    PyMem_Free(order);
    Py_XDECREF(owners);
    return text;
}

PyObject *flow_dot(PyObject *self, PyObject *args)
{
    PyObject *looks, *sizes = NULL; /* borrowed */
    if (!PyArg_ParseTuple(args, "O|S:dot", &looks, &sizes))
        return NULL;
    return draw((flow_object *)self, looks, sizes, true);
}

PyObject *flow_json(PyObject *self, PyObject *looks)
{
    return draw((flow_object *)self, looks, NULL, false);
}
