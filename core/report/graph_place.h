/* graph_place.h -- where the nodes and arrows of a large chart are; for graph.c.
 *
 * Points, x to the right and y down, from the upper left corner of the page.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_GRAPH_PLACE_H
#define TT_REPORT_GRAPH_PLACE_H

#include <stdbool.h>
#include "tensortap_tools.h"

typedef struct tt_graph_point {
    double x, y;
} tt_graph_point;

enum {
    TT_GRAPH_GUTTER = 84, /* between two columns */
    TT_GRAPH_MARGIN = 34, /* from the page to the nearest lane above or below it */
    TT_GRAPH_LANE = 6,    /* from lane to lane */
    TT_GRAPH_CURVE = 31,  /* points of the longest curve */
    TT_GRAPH_FAR = 2,     /* columns; an arrow that would go farther is a stub with a name */
};

typedef struct tt_graph_spot {
    double x, y;        /* of the middle */
    double left, right; /* of the column */
    size_t column;
    size_t lane;   /* of its arrows that skip columns; one for each node that has such */
    bool is_start; /* of a run of nodes of one frame in a column */
} tt_graph_spot;

typedef struct tt_graph_place {
    tt_graph_spot *spots;       /* owned; by node */
    const tt_graph_size *sizes; /* borrowed */
    tt_graph_size page;
} tt_graph_place;

/* Bezier curves, one behind the other: 1 + 3 n points, and the tip of the arrow at
 * the end. */
typedef struct tt_graph_curve {
    tt_graph_point point[TT_GRAPH_CURVE], tip;
    size_t count;
    size_t lane;  /* 0: it goes no farther than to the next column */
    bool is_stub; /* only the end: what it starts at is too far away, and named instead */
} tt_graph_curve;

tt_status tt_graph_place_make(tt_graph_place *out, const tt_graph *graph, const tt_graph_size *sizes);
void tt_graph_place_free(tt_graph_place *place);
/* graph_route.c; from < to, both positions of nodes. */
tt_graph_curve tt_graph_place_curve(const tt_graph_place *place, size_t from, size_t to);
/* The corners of the box around the nodes that stand together from `first` on;
 * gives the node behind the last of them. */
size_t tt_graph_place_run(const tt_graph_place *place, const tt_graph *graph, size_t first,
                          tt_graph_point *low, tt_graph_point *high);

/* Nodes of one call of a function stand in a frame; those of modules and
 * notebook cells stand free.  A frame around everything tells nothing. */
bool tt_graph_is_framed(const tt_graph_node *node);
bool tt_graph_has_frames(const tt_graph *graph);

#endif
