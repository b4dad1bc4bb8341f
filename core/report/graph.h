/* graph.h -- what the files of a flow chart share: its nodes, and where they stand on a page.
 *
 * Places are in points, x to the right and y down, from the upper left corner of the page.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_GRAPH_H
#define TT_REPORT_GRAPH_H

#include "base/buf.h"

/* ---- graph.c ------------------------------------------------------------- */

/* Finds the nodes of an edge; false: one of them is unknown. */
bool tt_graph_ends(const tt_graph *graph, size_t edge, size_t *from, size_t *to);
/* Graphviz sets whatever is not held apart by an arrow side by side: fifteen
 * new tensors would be a strip of paper.  Such nodes are stacked, each under
 * the one before, by arrows that are not drawn.  Returns for each node the one
 * to stack it under, or SIZE_MAX; the caller frees it.  NULL: out of memory. */
size_t *tt_graph_stack(const tt_graph *graph);
/* Nodes of one call of a function stand in a frame; those of modules and notebook cells do
 * not.  One frame around everything would say nothing. */
bool tt_graph_is_framed(const tt_graph_node *node);
bool tt_graph_has_frames(const tt_graph *graph);

/* ---- graph_label.c: the table of one node -------------------------------- */

void tt_graph_label(tt_buf *out, const tt_graph_node *node);
/* Returns an element as f64; of a complex type its real part (0) or its imaginary part (1). */
double tt_graph_part(tt_dtype dtype, const void *element, size_t part);
int64_t tt_graph_integer(tt_dtype dtype, const void *element); /* read as uint64_t for TT_U64 */

/* ---- graph_layout.c: a large chart ---------------------------------------- */

typedef struct tt_graph_point {
    double x, y;
} tt_graph_point;

enum {
    TT_GRAPH_CURVE = 31, /* points of the longest curve */
    TT_GRAPH_FAR = 2,    /* columns; an arrow that would go farther is a stub with a name */
};

typedef struct tt_graph_spot {
    double x, y;        /* of the middle */
    double left, right; /* of the column */
    size_t column;
    size_t lane;   /* of its arrows that skip columns; one for each node that has such */
    bool is_start; /* of a run of nodes of one frame in a column */
} tt_graph_spot;

typedef struct tt_graph_layout {
    tt_graph_spot *spots;       /* owned; by node */
    const tt_graph_size *sizes; /* borrowed */
    tt_graph_size page;
} tt_graph_layout;

/* Bezier curves, one behind the other: 1 + 3 n points, and the tip of the arrow. */
typedef struct tt_graph_curve {
    tt_graph_point point[TT_GRAPH_CURVE], tip;
    size_t count;
    size_t lane;  /* 0: it goes no farther than to the next column */
    bool is_stub; /* only its end is drawn: the start is too far away, and named instead */
} tt_graph_curve;

tt_status tt_graph_layout_make(tt_graph_layout *out, const tt_graph *graph, const tt_graph_size *sizes);
void tt_graph_layout_free(tt_graph_layout *layout);
/* from < to: positions of nodes */
tt_graph_curve tt_graph_layout_curve(const tt_graph_layout *layout, size_t from, size_t to);
/* Finds the box around the nodes that stand together from `first` on; returns the position
 * after the last of them. */
size_t tt_graph_layout_run(const tt_graph_layout *layout, const tt_graph *graph, size_t first,
                           tt_graph_point *low, tt_graph_point *high);

#endif
