/* graph_engine.c -- which of Graphviz's engines draws a chart well.
 *
 * Exists because `dot` is the better typesetter as long as a chart is small: it
 * draws as many rows as the longest chain has nodes, and knows no order of time
 * that would keep a call in the middle of its caller.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_pen.h"
#include "report/graph_place.h"

enum {
    MOST_NODES = 15,
    MOST_ROWS = 6,   /* more are a strip of paper */
    MOST_FRAMES = 1, /* with two, arrows go up from the caller's to the other's */
};

static size_t count_frames(const tt_graph *graph)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        bool is_first = tt_graph_is_framed(&graph->nodes[i]);
        for (size_t k = 0; k < i && is_first; k++)
            is_first = graph->nodes[k].frame != graph->nodes[i].frame;
        count += is_first;
    }
    return count;
}

/* At most MOST_NODES nodes; each comes behind those that it was made of. */
static size_t count_rows(const tt_graph *graph)
{
    size_t rows = 0, row[MOST_NODES] = { 0 };
    for (size_t to = 0; to < graph->node_count; to++) {
        for (size_t i = 0; i < graph->edge_count; i++) {
            size_t from = tt_graph_find(graph, graph->edges[i].from);
            if (graph->edges[i].to == graph->nodes[to].id && from < to && row[to] < row[from])
                row[to] = row[from];
        }
        row[to]++;
        rows = row[to] > rows ? row[to] : rows;
    }
    return rows;
}

const char *tt_graph_engine(const tt_graph *graph)
{
    bool is_small = graph->node_count <= MOST_NODES && count_rows(graph) <= MOST_ROWS &&
                    count_frames(graph) <= MOST_FRAMES;
    return is_small ? "dot" : "nop2";
}
