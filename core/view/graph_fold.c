/* graph_fold.c -- keeps a chart from becoming a strip of paper.
 *
 * Exists because programs make long chains and Graphviz draws each link below
 * the one before: 200 changes would be a picture 70 times as high as wide.  The
 * ranks are cut into pages; an arrow from one page to another is drawn but does
 * not push its head down, so that each page begins at the top again.  Nodes
 * without arrows, which would all stand side by side, are stacked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "view/graph_pen.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_RANKS = 6 }; /* of a page: small charts are not folded */

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

/* How many ranks make a page about as wide as high: nodes are a bit wider than
 * high, and screens too. */
static size_t ranks_of_page(size_t nodes)
{
    size_t ranks = (size_t)ceil(sqrt((double)nodes * 0.8));
    return ranks > LEAST_RANKS ? ranks : LEAST_RANKS;
}

static int by_head(const void *a, const void *b)
{
    const size_t *left = a, *right = b;
    return left[1] != right[1] ? (left[1] > right[1] ? 1 : -1) : 0;
}

/* Moves nodes that no arrow ends at to just before the first that needs them, so
 * that both are on one page.  above[] serves as the least rank of the needers. */
static void pull_sources(tt_graph_fold *fold, size_t nodes, size_t (*const pairs)[2], size_t count)
{
    for (size_t i = 0; i < nodes; i++)
        fold->above[i] = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t needed = fold->rank[pairs[i][1]];
        if (fold->above[pairs[i][0]] > needed)
            fold->above[pairs[i][0]] = needed;
    }
    for (size_t i = 0; i < count; i++) {
        size_t from = pairs[i][0];
        if (fold->rank[from] == 0 && fold->above[from] != SIZE_MAX)
            fold->rank[from] = fold->above[from] - 1;
    }
}

/* Ranks by the longest way; nodes come in the order in which they were made, so
 * that one pass over the edges, sorted by head, finds them. */
static tt_status find_ranks(tt_graph_fold *fold, const tt_graph *graph, bool *is_joined)
{
    size_t(*pairs)[2] = malloc((graph->edge_count + 1) * sizeof *pairs); /* owned */
    size_t count = 0;
    if (pairs == NULL)
        return TT_ENOMEM;
    for (size_t i = 0; i < graph->edge_count; i++) {
        size_t from = tt_graph_find(graph, graph->edges[i].from),
               to = tt_graph_find(graph, graph->edges[i].to);
        if (from == SIZE_MAX || to == SIZE_MAX || from >= to)
            continue;
        pairs[count][0] = from;
        pairs[count++][1] = to;
        is_joined[from] = is_joined[to] = true;
    }
    qsort(pairs, count, sizeof *pairs, by_head);
    for (size_t i = 0; i < count; i++) {
        size_t least = fold->rank[pairs[i][0]] + 1;
        if (fold->rank[pairs[i][1]] < least)
            fold->rank[pairs[i][1]] = least;
    }
    pull_sources(fold, graph->node_count, pairs, count);
    free(pairs);
    return TT_OK;
}

tt_status tt_graph_fold_make(tt_graph_fold *out, const tt_graph *graph)
{
    tt_graph_fold fold = { .page = ranks_of_page(graph->node_count) };
    bool *is_joined = calloc(graph->node_count + 1, sizeof *is_joined); /* owned */
    tt_status st = TT_ENOMEM;
    fold.rank = calloc(graph->node_count + 1, sizeof *fold.rank);
    fold.above = calloc(graph->node_count + 1, sizeof *fold.above);
    if (is_joined == NULL || fold.rank == NULL || fold.above == NULL)
        goto out;
    st = find_ranks(&fold, graph, is_joined);
    if (st < 0)
        goto out;
    size_t alone = 0, last = SIZE_MAX;
    for (size_t i = 0; i < graph->node_count; i++) {
        fold.above[i] = SIZE_MAX;
        if (is_joined[i])
            continue;
        bool has_room = alone % fold.page != 0;
        if (has_room && graph->nodes[last].frame == graph->nodes[i].frame)
            fold.above[i] = last;
        last = i;
        alone++;
    }
    *out = fold;
    fold = (tt_graph_fold){ 0 };
out:
    free(is_joined);
    tt_graph_fold_free(&fold);
    return st;
}

void tt_graph_fold_free(tt_graph_fold *fold)
{
    free(fold->rank);
    free(fold->above);
    *fold = (tt_graph_fold){ 0 };
}

bool tt_graph_fold_crosses(const tt_graph_fold *fold, const tt_graph *graph, const tt_graph_edge *edge)
{
    size_t from = tt_graph_find(graph, edge->from), to = tt_graph_find(graph, edge->to);
    return fold->rank[from] / fold->page != fold->rank[to] / fold->page;
}
