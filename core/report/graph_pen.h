/* graph_pen.h -- where a chart's text goes, and how foreign text gets into it.
 *
 * For the graph files only.  Calls do not fail one by one: the first failure is
 * kept and what follows it does nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_GRAPH_PEN_H
#define TT_REPORT_GRAPH_PEN_H

#include "base/buf.h"

typedef struct tt_graph_pen {
    tt_buf *out;         /* borrowed */
    tt_buf raw, visible; /* owned; the foreign text at hand */
    tt_status st;
} tt_graph_pen;

void tt_graph_put(tt_graph_pen *pen, const char *text); /* our own text, as it is */
void tt_graph_printf(tt_graph_pen *pen, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Somebody else's text on one line, fit for an HTML-like label: control
 * characters are shown, spaces stay, and beyond `columns` characters it is cut
 * with an ellipsis (0: never). */
void tt_graph_foreign(tt_graph_pen *pen, const char *text, size_t len, size_t columns);
/* The same inside of a quoted attribute, and of a tooltip, whose backslashes Graphviz reads twice. */
void tt_graph_quoted(tt_graph_pen *pen, const char *text, size_t len);
void tt_graph_tip(tt_graph_pen *pen, const char *text, size_t len);
/* "8 × 64", "scalar"; ndim below 0: not known */
void tt_graph_sizes(tt_graph_pen *pen, const int64_t *shape, int32_t ndim);

/* graph_stack.c */
size_t tt_graph_find(const tt_graph *graph, uint64_t id); /* where the node is; SIZE_MAX: nowhere */
/* For each node the one to stack it under, or SIZE_MAX; the caller frees it.  NULL: no memory. */
size_t *tt_graph_stack(const tt_graph *graph);

/* graph_label.c: the table of one node. */
void tt_graph_label(tt_graph_pen *pen, const tt_graph_node *node);
/* graph_cell.c: how the numbers of one table are written. */
typedef struct tt_graph_format {
    tt_dtype dtype;
    int32_t decimals; /* behind the point; -1: each number as short as it can be */
    double absmax;    /* of the whole tensor, for the tints */
} tt_graph_format;

tt_graph_format tt_graph_format_choose(const tt_graph_node *node);
/* One <td> with one element. */
void tt_graph_cell(tt_graph_pen *pen, const tt_graph_format *format, const void *element);

#endif
