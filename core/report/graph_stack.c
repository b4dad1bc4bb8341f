/* graph_stack.c -- keeps nodes without arrows from standing in one long row.
 *
 * Exists because Graphviz sets whatever is not held apart by an arrow side by
 * side: fifteen new tensors would be a strip of paper.  Such nodes are stacked,
 * each under the one before, by arrows that are not drawn.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_pen.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_HIGH = 6 }; /* nodes of a stack, in a small chart */

size_t tt_graph_find(const tt_graph *graph, uint64_t id)
{
    size_t low = 0, high = graph->node_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (graph->nodes[middle].id == id)
            return middle;
        if (graph->nodes[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

/* How many nodes make a stack as high as all of them are wide: a node is a bit
 * wider than high, and a screen too. */
static size_t height_of(size_t nodes)
{
    size_t high = (size_t)ceil(sqrt((double)nodes * 0.8));
    return high > LEAST_HIGH ? high : LEAST_HIGH;
}

size_t *tt_graph_stack(const tt_graph *graph)
{
    size_t *above = calloc(graph->node_count + 1, sizeof *above); /* handed over */
    size_t high = height_of(graph->node_count), alone = 0, last = SIZE_MAX;
    if (above == NULL)
        return NULL;
    for (size_t i = 0; i < graph->edge_count; i++) {
        size_t from = tt_graph_find(graph, graph->edges[i].from),
               to = tt_graph_find(graph, graph->edges[i].to);
        if (from != SIZE_MAX && to != SIZE_MAX)
            above[from] = above[to] = 1; /* joined, for now */
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        bool is_joined = above[i] != 0;
        above[i] = SIZE_MAX;
        if (is_joined)
            continue;
        if (alone++ % high != 0 && graph->nodes[last].frame == graph->nodes[i].frame)
            above[i] = last;
        last = i;
    }
    return above;
}
