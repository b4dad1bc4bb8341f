/* graph.c -- a chart in Graphviz's language.
 *
 * Exists so that every front end draws tensors in the same way, and so that
 * what is drawn can be looked at without Graphviz.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_pen.h"
#include "report/graph_place.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
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
    tt_graph_tip(pen, name, strlen(name));
    tt_graph_put(pen, "\\n");
    if (node->file != NULL) {
        tt_graph_tip(pen, node->file, strlen(node->file));
        tt_graph_printf(pen, ":%" PRId32 "\\n", node->line);
    }
    for (const char *at = node->code != NULL ? node->code : ""; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        tt_graph_tip(pen, at, len);
        tt_graph_put(pen, "\\n");
        at += len;
        if (*at == '\n')
            at++;
    }
    tt_graph_put(pen, "\"");
}

/* Graphviz's y goes up; whole tenths of points are enough. */
static void put_point(tt_graph_pen *pen, const char *before, double x, double y)
{
    const double parts[2] = { x, -y };
    tt_graph_put(pen, before);
    for (int i = 0; i < 2; i++) { /* by integers, so that the point is one whatever the locale */
        long long tenths = llrint(parts[i] * 10);
        tt_graph_printf(pen, "%s%s%lld.%lld", i > 0 ? "," : "", tenths < 0 ? "-" : "", llabs(tenths) / 10,
                        llabs(tenths) % 10);
    }
}

static void put_node(tt_graph_pen *pen, const tt_graph_node *node, const tt_graph_spot *spot)
{
    tt_graph_printf(pen, "  n%" PRIu64 " [id=\"n%" PRIu64 "\"", node->id, node->id);
    if (spot != NULL) {
        put_point(pen, ", pos=\"", spot->x, spot->y);
        tt_graph_put(pen, "\"");
    }
    put_tooltip(pen, node);
    tt_graph_put(pen, ", label=<");
    tt_graph_label(pen, node);
    tt_graph_put(pen, ">]\n");
}

static const char *frame_label(const tt_graph_node *node)
{
    return node->label != NULL ? node->label : node->function;
}

/* A node that stands in a frame. */
typedef struct framed {
    uint64_t frame;
    size_t at;
} framed;

static int by_frame(const void *a, const void *b)
{
    const framed *x = a, *y = b;
    return x->frame != y->frame ? (x->frame > y->frame) - (x->frame < y->frame)
                                : (x->at > y->at) - (x->at < y->at);
}

/* The nodes that stand in frames, frame by frame, in the order of the chart. */
static framed *list_framed(const tt_graph *graph, size_t *count)
{
    framed *all = calloc(graph->node_count + 1, sizeof *all); /* handed over */
    size_t n = 0;
    for (size_t i = 0; all != NULL && i < graph->node_count; i++)
        if (tt_graph_is_framed(&graph->nodes[i]))
            all[n++] = (framed){ graph->nodes[i].frame, i };
    if (n > 0)
        qsort(all, n, sizeof *all, by_frame);
    *count = n;
    return all;
}

/* `members`: the nodes of one frame, from the first on. */
static void put_frame(tt_graph_pen *pen, const tt_graph *graph, const framed *members, const framed *end)
{
    const tt_graph_node *node = &graph->nodes[members->at];
    tt_graph_printf(pen, "  subgraph cluster_%" PRIu64 " {\n", node->frame);
    tt_graph_put(pen, "  graph [labeljust=l, color=\"#bcccdc\", fontcolor=\"#52606d\", style=rounded, "
                      "label=\"");
    tt_graph_quoted(pen, frame_label(node), strlen(frame_label(node)));
    tt_graph_put(pen, "\"]\n");
    for (const framed *at = members; at < end && at->frame == members->frame; at++)
        put_node(pen, &graph->nodes[at->at], NULL);
    tt_graph_put(pen, "  }\n");
}

static void put_nodes(tt_graph_pen *pen, const tt_graph *graph)
{
    bool is_plain = !tt_graph_has_frames(graph);
    size_t count = 0;
    framed *all = list_framed(graph, &count); /* owned */
    if (all == NULL)
        pen->st = TT_ENOMEM;
    for (size_t i = 0; pen->st == TT_OK && i < graph->node_count; i++) {
        const tt_graph_node *node = &graph->nodes[i];
        if (is_plain || !tt_graph_is_framed(node)) {
            put_node(pen, node, NULL);
            continue;
        }
        const framed key = { node->frame, i };
        const framed *found = bsearch(&key, all, count, sizeof key, by_frame);
        if (found == all || found[-1].frame != node->frame)
            put_frame(pen, graph, found, all + count);
    }
    free(all);
}

static void put_edges(tt_graph_pen *pen, const tt_graph *graph, const size_t *above)
{
    for (size_t i = 0; i < graph->edge_count; i++) {
        const tt_graph_edge *edge = &graph->edges[i];
        if (tt_graph_find(graph, edge->from) == SIZE_MAX || tt_graph_find(graph, edge->to) == SIZE_MAX)
            continue;
        tt_graph_printf(pen, "  n%" PRIu64 " -> n%" PRIu64 "\n", edge->from, edge->to);
    }
    for (size_t i = 0; i < graph->node_count; i++)
        if (above[i] != SIZE_MAX)
            tt_graph_printf(pen, "  n%" PRIu64 " -> n%" PRIu64 " [style=invis]\n",
                            graph->nodes[above[i]].id, graph->nodes[i].id);
}

tt_status tt_graph_dot(const tt_graph *graph, tt_buf *out)
{
    tt_graph_pen pen = { .out = out };
    size_t *above = tt_graph_stack(graph); /* owned */
    pen.st = above != NULL ? TT_OK : TT_ENOMEM;
    tt_graph_put(&pen, head);
    put_nodes(&pen, graph);
    if (pen.st == TT_OK)
        put_edges(&pen, graph, above);
    tt_graph_put(&pen, "}\n");
    free(above);
    tt_buf_free(&pen.raw);
    tt_buf_free(&pen.visible);
    return pen.st;
}

/* ---- a large chart, every place given ---------------------------------------- */

static const char placed_head[] =
    "digraph tensors {\n"
    "  graph [bgcolor=\"white\", pad=0.2, outputorder=edgesfirst,\n"
    "         fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\", fontsize=11]\n"
    "  node [shape=plain, fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\", fontsize=11]\n"
    "  edge [color=\"#486581\", arrowsize=0.8, penwidth=1.2]\n";

/* The nodes of a frame that stand together, in a box with the function's name. */
static size_t put_run(tt_graph_pen *pen, const tt_graph *graph, const tt_graph_place *place, size_t first)
{
    const tt_graph_node *node = &graph->nodes[first];
    tt_graph_point low, high;
    size_t end = tt_graph_place_run(place, graph, first, &low, &high);
    tt_graph_printf(pen, "  subgraph cluster_%" PRIu64 " {\n", node->id);
    tt_graph_put(pen, "  graph [labeljust=l, color=\"#bcccdc\", fontcolor=\"#52606d\", style=rounded, "
                      "label=\"");
    tt_graph_quoted(pen, frame_label(node), strlen(frame_label(node)));
    double half = 3.2 * (double)strlen(frame_label(node)) + 6; /* about half of the name's width */
    put_point(pen, "\", lp=\"", low.x + half, low.y + 9);
    put_point(pen, "\", bb=\"", low.x, high.y);
    put_point(pen, ",", high.x, low.y);
    tt_graph_put(pen, "\"]\n");
    for (size_t i = first; i < end; i++)
        put_node(pen, &graph->nodes[i], &place->spots[i]);
    tt_graph_put(pen, "  }\n");
    return end;
}

enum { LANE_COLORS = 6 };
/* Told apart side by side, paler than the arrows between neighbours. */
static const char *const lane_colors[LANE_COLORS] = { "#829ab1", "#b98b4e", "#6a9f6a",
                                                      "#9a7ab5", "#b56f6f", "#5a9ea6" };

enum { STUB_APART = 15, STUB_NAME = 12 }; /* from stub to stub, in points; columns of a name */

/* The name and line of what a stub starts at, above it. */
static void put_start(tt_graph_pen *pen, const tt_graph_node *start, const tt_graph_curve *curve)
{
    size_t len = strlen(start->name);
    double half = 2.4 * (double)((len < STUB_NAME ? len : STUB_NAME) + 5); /* about half of its width */
    tt_graph_put(pen, ", color=\"#829ab1\", fontcolor=\"#52606d\", fontsize=9, "
                      "fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\", label=<");
    tt_graph_foreign(pen, start->name, len, STUB_NAME);
    if (start->line > 0)
        tt_graph_printf(pen, " :%d", (int)start->line);
    put_point(pen, ">, lp=\"", curve->point[0].x + half, curve->point[0].y - 6);
    tt_graph_put(pen, "\"");
}

static void put_curve(tt_graph_pen *pen, const tt_graph_edge *edge, const tt_graph_curve *curve,
                      const tt_graph_node *start)
{
    tt_graph_printf(pen, "  n%" PRIu64 " -> n%" PRIu64, edge->from, edge->to);
    put_point(pen, " [pos=\"e,", curve->tip.x, curve->tip.y);
    for (size_t i = 0; i < curve->count; i++)
        put_point(pen, " ", curve->point[i].x, curve->point[i].y);
    tt_graph_put(pen, "\"");
    if (curve->is_stub)
        put_start(pen, start, curve);
    if (curve->lane > 0)
        tt_graph_printf(pen, ", color=\"%s\"", lane_colors[curve->lane % LANE_COLORS]);
    tt_graph_put(pen, "]\n");
}

static void move_down(tt_graph_curve *curve, double by)
{
    for (size_t i = 0; i < curve->count; i++)
        curve->point[i].y += by;
    curve->tip.y += by;
}

tt_status tt_graph_dot_placed(const tt_graph *graph, const tt_graph_size *sizes, tt_buf *out)
{
    tt_graph_pen pen = { .out = out };
    tt_graph_place place = { 0 };
    size_t *stubs = calloc(graph->node_count + 1, sizeof *stubs); /* owned; that end at each node */
    pen.st = stubs != NULL ? tt_graph_place_make(&place, graph, sizes) : TT_ENOMEM;
    tt_graph_put(&pen, placed_head);
    for (size_t i = 0; pen.st == TT_OK && i < graph->node_count;) {
        if (place.spots[i].is_start) {
            i = put_run(&pen, graph, &place, i);
        } else {
            put_node(&pen, &graph->nodes[i], &place.spots[i]);
            i++;
        }
    }
    for (size_t i = 0; pen.st == TT_OK && i < graph->edge_count; i++) {
        const tt_graph_edge *edge = &graph->edges[i];
        size_t from = tt_graph_find(graph, edge->from), to = tt_graph_find(graph, edge->to);
        if (from == SIZE_MAX || to == SIZE_MAX || from >= to)
            continue;
        tt_graph_curve curve = tt_graph_place_curve(&place, from, to);
        if (curve.is_stub)
            move_down(&curve, (double)(stubs[to]++ * STUB_APART));
        put_curve(&pen, edge, &curve, &graph->nodes[from]);
    }
    tt_graph_put(&pen, "}\n");
    free(stubs);
    tt_graph_place_free(&place);
    tt_buf_free(&pen.raw);
    tt_buf_free(&pen.visible);
    return pen.st;
}
