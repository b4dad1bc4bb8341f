/* graph_place.c -- where the nodes of a large chart stand.
 *
 * Exists because a program of 200 changes is a long chain with many shortcuts,
 * which Graphviz makes a strip of paper of.  Here the chart is set like a
 * newspaper: in the order in which things happened, down one column and on at
 * the top of the next, so that the page is as wide as a screen.  A column ends
 * early where a loop starts a new turn.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_place.h"

#include "report/graph_pen.h"

#include <math.h>
#include <stdlib.h>

enum {
    GAP = 24,  /* between two tables of a column: room for an arrow */
    HEAD = 20, /* above a frame's first table: the function's name */
    FOOT = 8,  /* below its last one */
    LOOK_BACK = 64,
};

static const double page_shape = 1.5, early = 0.65; /* width to height; of a column that may end */

bool tt_graph_is_framed(const tt_graph_node *node)
{
    return node->frame != 0 && node->function != NULL && node->function[0] != '<';
}

bool tt_graph_has_frames(const tt_graph *graph)
{
    for (size_t i = 1; i < graph->node_count; i++)
        if (graph->nodes[i].frame != graph->nodes[0].frame)
            return true;
    return false;
}

/* Is it above what its function did last: has a loop turned? */
static bool is_turn(const tt_graph *graph, size_t at)
{
    const tt_graph_node *node = &graph->nodes[at];
    for (size_t back = 1; back <= at && back <= LOOK_BACK; back++)
        if (graph->nodes[at - back].frame == node->frame)
            return node->line < graph->nodes[at - back].line;
    return false;
}

typedef struct typesetter {
    const tt_graph *graph;
    const tt_graph_size *sizes;
    tt_graph_spot *spots;
    bool has_frames;
} typesetter;

static bool starts_frame(const typesetter *t, size_t at, bool is_top)
{
    return t->has_frames && tt_graph_is_framed(&t->graph->nodes[at]) &&
           (is_top || t->graph->nodes[at - 1].frame != t->graph->nodes[at].frame);
}

static bool ends_frame(const typesetter *t, size_t at)
{
    return t->has_frames && tt_graph_is_framed(&t->graph->nodes[at]) &&
           (at + 1 == t->graph->node_count || t->graph->nodes[at + 1].frame != t->graph->nodes[at].frame);
}

/* Sets all nodes in columns of at most this height; gives the size of the page. */
static tt_graph_size set_columns(const typesetter *t, double tall)
{
    tt_graph_size page = { 0, 0 };
    double left = 0, y = 0, wide = 0;
    size_t column = 0, first = 0;
    for (size_t i = 0; i <= t->graph->node_count; i++) {
        bool is_last = i == t->graph->node_count;
        bool is_over = is_last || (y > 0 && y + t->sizes[i].height > tall) ||
                       (y > early * tall && is_turn(t->graph, i));
        if (is_over && i > first) {
            for (size_t k = first; k < i; k++) {
                t->spots[k].x = left + wide / 2;
                t->spots[k].left = left;
                t->spots[k].right = left + wide;
            }
            left += wide + TT_GRAPH_GUTTER;
            page.width = left - TT_GRAPH_GUTTER;
            page.height = fmax(page.height, y - GAP);
            column++;
            first = i;
            y = wide = 0;
        }
        if (is_last)
            break;
        bool is_top = y == 0;
        y += starts_frame(t, i, is_top) ? HEAD : 0;
        t->spots[i] = (tt_graph_spot){ .y = y + t->sizes[i].height / 2,
                                       .column = column,
                                       .is_start = starts_frame(t, i, is_top) };
        y += t->sizes[i].height + GAP + (ends_frame(t, i) ? FOOT : 0);
        wide = fmax(wide, t->sizes[i].width);
    }
    return page;
}

/* Numbers the nodes with arrows that skip a column. */
static void give_lanes(const tt_graph *graph, tt_graph_spot *spots)
{
    size_t lanes = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        spots[i].lane = SIZE_MAX;
    for (size_t i = 0; i < graph->edge_count; i++) {
        size_t from = tt_graph_find(graph, graph->edges[i].from),
               to = tt_graph_find(graph, graph->edges[i].to);
        if (from != SIZE_MAX && to != SIZE_MAX && spots[to].column > spots[from].column + 1 &&
            spots[to].column <= spots[from].column + TT_GRAPH_FAR && spots[from].lane == SIZE_MAX)
            spots[from].lane = lanes++;
    }
}

tt_status tt_graph_place_make(tt_graph_place *out, const tt_graph *graph, const tt_graph_size *sizes)
{
    tt_graph_spot *spots = calloc(graph->node_count + 1, sizeof *spots);
    typesetter t = {
        .graph = graph, .sizes = sizes, .spots = spots, .has_frames = tt_graph_has_frames(graph)
    };
    double total = 0, best = INFINITY, tall = 0;
    if (spots == NULL)
        return TT_ENOMEM;
    for (size_t i = 0; i < graph->node_count; i++)
        total += sizes[i].height + GAP + (starts_frame(&t, i, i == 0) ? HEAD + FOOT : 0);
    for (size_t columns = 1; columns <= graph->node_count; columns++) {
        tt_graph_size page = { 0, 0 };
        for (int slack = 0; slack < 4; slack++) { /* tables do not break: columns differ in height */
            double height = total / (double)columns * (1.02 + 0.1 * slack) + GAP;
            page = set_columns(&t, height);
            double off = fabs(log(page.width / fmax(page.height, 1) / page_shape));
            if (off < best) {
                best = off;
                tall = height;
            }
        }
        if (page.width > 2 * page_shape * page.height)
            break;
    }
    *out = (tt_graph_place){ .spots = spots, .sizes = sizes, .page = set_columns(&t, tall) };
    give_lanes(graph, spots);
    return TT_OK;
}

void tt_graph_place_free(tt_graph_place *place)
{
    free(place->spots);
    *place = (tt_graph_place){ 0 };
}

/* ---- frames --------------------------------------------------------------- */

size_t tt_graph_place_run(const tt_graph_place *place, const tt_graph *graph, size_t first,
                          tt_graph_point *low, tt_graph_point *high)
{
    size_t end = first;
    *low = (tt_graph_point){ INFINITY, INFINITY };
    *high = (tt_graph_point){ -INFINITY, -INFINITY };
    while (end < graph->node_count && graph->nodes[end].frame == graph->nodes[first].frame &&
           place->spots[end].column == place->spots[first].column) {
        const tt_graph_spot *spot = &place->spots[end];
        const tt_graph_size *size = &place->sizes[end++];
        low->x = fmin(low->x, spot->x - size->width / 2 - FOOT);
        high->x = fmax(high->x, spot->x + size->width / 2 + FOOT);
        low->y = fmin(low->y, spot->y - size->height / 2 - HEAD);
        high->y = fmax(high->y, spot->y + size->height / 2 + FOOT);
    }
    return end;
}
