/* graph.c -- a chart in Graphviz's language.
 *
 * Exists so that every front end draws tensors in the same way, and so that
 * what is drawn can be looked at without Graphviz.
 * SPDX-License-Identifier: Apache-2.0 */
#include "view/graph_pen.h"

#include <inttypes.h>
#include <string.h>

static const char head[] =
    "digraph tensors {\n"
    "  graph [rankdir=TB, nodesep=0.3, ranksep=0.45, bgcolor=\"white\", pad=0.2,\n"
    "         fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\", fontsize=11]\n"
    "  node [shape=plain, fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\", fontsize=11]\n"
    "  edge [color=\"#486581\", arrowsize=0.8, penwidth=1.2]\n";

/* The tooltip: what the node had to cut. */
static void put_tooltip(tt_graph_pen *pen, const tt_graph_node *node)
{
    tt_graph_put(pen, ", tooltip=\"");
    const char *name = node->name != NULL ? node->name : "?";
    tt_graph_quoted(pen, name, strlen(name));
    tt_graph_put(pen, "\\n");
    if (node->file != NULL) {
        tt_graph_quoted(pen, node->file, strlen(node->file));
        tt_graph_printf(pen, ":%" PRId32 "\\n", node->line);
    }
    for (const char *at = node->code != NULL ? node->code : ""; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        tt_graph_quoted(pen, at, len);
        tt_graph_put(pen, "\\n");
        at += len;
        if (*at == '\n')
            at++;
    }
    tt_graph_put(pen, "\"");
}

static void put_node(tt_graph_pen *pen, const tt_graph_node *node)
{
    tt_graph_printf(pen, "  n%" PRIu64 " [id=\"n%" PRIu64 "\"", node->id, node->id);
    put_tooltip(pen, node);
    tt_graph_put(pen, ", label=<");
    tt_graph_label(pen, node);
    tt_graph_put(pen, ">]\n");
}

/* Nodes of one call of a function stand in a frame; those of modules and
 * notebook cells stand free. */
static bool is_framed(const tt_graph_node *node)
{
    return node->frame != 0 && node->function != NULL && node->function[0] != '<';
}

static bool is_first_of_frame(const tt_graph *graph, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (is_framed(&graph->nodes[i]) && graph->nodes[i].frame == graph->nodes[at].frame)
            return false;
    return true;
}

static void put_frame(tt_graph_pen *pen, const tt_graph *graph, size_t first)
{
    const tt_graph_node *node = &graph->nodes[first];
    tt_graph_printf(pen, "  subgraph cluster_%" PRIu64 " {\n", node->frame);
    tt_graph_put(pen, "  graph [labeljust=l, color=\"#bcccdc\", fontcolor=\"#52606d\", style=rounded, "
                      "label=\"");
    tt_graph_quoted(pen, node->function, strlen(node->function));
    tt_graph_put(pen, "\"]\n");
    for (size_t i = first; i < graph->node_count; i++)
        if (is_framed(&graph->nodes[i]) && graph->nodes[i].frame == node->frame)
            put_node(pen, &graph->nodes[i]);
    tt_graph_put(pen, "  }\n");
}

/* A frame around everything tells nothing. */
static bool is_one_frame(const tt_graph *graph)
{
    for (size_t i = 1; i < graph->node_count; i++)
        if (graph->nodes[i].frame != graph->nodes[0].frame)
            return false;
    return true;
}

static void put_nodes(tt_graph_pen *pen, const tt_graph *graph)
{
    bool is_plain = is_one_frame(graph);
    for (size_t i = 0; i < graph->node_count; i++) {
        if (is_plain || !is_framed(&graph->nodes[i]))
            put_node(pen, &graph->nodes[i]);
        else if (is_first_of_frame(graph, i))
            put_frame(pen, graph, i);
    }
}

static void put_edges(tt_graph_pen *pen, const tt_graph *graph, const tt_graph_fold *fold)
{
    for (size_t i = 0; i < graph->edge_count; i++) {
        const tt_graph_edge *edge = &graph->edges[i];
        if (tt_graph_find(graph, edge->from) == SIZE_MAX || tt_graph_find(graph, edge->to) == SIZE_MAX)
            continue;
        tt_graph_printf(pen, "  n%" PRIu64 " -> n%" PRIu64 "%s\n", edge->from, edge->to,
                        tt_graph_fold_crosses(fold, graph, edge) ? " [constraint=false]" : "");
    }
    for (size_t i = 0; i < graph->node_count; i++)
        if (fold->above[i] != SIZE_MAX)
            tt_graph_printf(pen, "  n%" PRIu64 " -> n%" PRIu64 " [style=invis]\n",
                            graph->nodes[fold->above[i]].id, graph->nodes[i].id);
}

tt_status tt_graph_dot(const tt_graph *graph, tt_buf *out)
{
    tt_graph_pen pen = { .out = out };
    tt_graph_fold fold = { 0 };
    pen.st = tt_graph_fold_make(&fold, graph);
    tt_graph_put(&pen, head);
    put_nodes(&pen, graph);
    if (pen.st == TT_OK)
        put_edges(&pen, graph, &fold);
    tt_graph_put(&pen, "}\n");
    tt_graph_fold_free(&fold);
    tt_buf_free(&pen.raw);
    tt_buf_free(&pen.visible);
    return pen.st;
}
