/* graph.c -- a chart as DOT.
 *
 * Exists so that every front end draws tensors in the same way.  `dot` is the
 * better typesetter while a chart is small.  It draws as many rows as the
 * longest chain has nodes and knows no order of time, so for a large chart
 * graph_layout.c determines all positions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph.h"

#include "base/utf8.h"
#include "report/glyph.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONT "fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\""

/* ---- untrusted text ---------------------------------------------------------- */

static const char *entity(char c, tt_dot_where where)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\\': /* in labels too: "\N" would be the node's number */
        return where == TT_DOT_TOOLTIP ? "\\\\\\\\" : "\\\\";
    case ' ':
        return where == TT_DOT_LABEL ? "&#160;" : NULL;
    }
    return NULL;
}

void tt_dot_text(tt_buf *out, tt_dot_where where, const char *text, size_t len, size_t columns)
{
    tt_buf visible = { 0 };
    size_t total = 0, n;
    uint32_t code;
    if (tt_glyph_bytes(&visible, text, len, TT_TRUST_NONE, &(tt_style){ 0 }) < 0)
        out->st = visible.st;
    for (size_t i = 0; i < visible.len; total++)
        i += tt_utf8_read(visible.data + i, visible.len - i, &code);
    bool is_cut = columns > 0 && total > columns;
    for (size_t i = 0, shown = 0; i < visible.len && !(is_cut && shown == columns - 1); i += n, shown++) {
        const char *at = visible.data + i, *safe = entity(*at, where);
        n = tt_utf8_read(at, visible.len - i, &code);
        (void)(safe != NULL ? tt_buf_text(out, safe) : tt_buf_append(out, at, n));
    }
    if (is_cut)
        (void)tt_buf_text(out, "…");
    tt_buf_free(&visible);
}

/* ---- which node is which ------------------------------------------------------ */

static int by_id(const void *id, const void *node)
{
    uint64_t x = *(const uint64_t *)id, y = ((const tt_graph_node *)node)->id;
    return (x > y) - (x < y);
}

/* The position of a node; SIZE_MAX: there is none. */
static size_t find_node(const tt_graph *graph, uint64_t id)
{
    const tt_graph_node *found = graph->node_count > 0
                                     ? bsearch(&id, graph->nodes, graph->node_count, sizeof *found, by_id)
                                     : NULL;
    return found != NULL ? (size_t)(found - graph->nodes) : SIZE_MAX;
}

bool tt_graph_ends(const tt_graph *graph, size_t edge, size_t *from, size_t *to)
{
    *from = find_node(graph, graph->edges[edge].from);
    *to = find_node(graph, graph->edges[edge].to);
    return *from != SIZE_MAX && *to != SIZE_MAX;
}

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

enum { LEAST_HIGH = 6 }; /* nodes of a stack, in a small chart */

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
    for (size_t i = 0, from, to; i < graph->edge_count; i++)
        if (tt_graph_ends(graph, i, &from, &to))
            above[from] = above[to] = 1; /* joined, for now */
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

/* ---- nodes ----------------------------------------------------------------- */

/* The tooltip: what the node had to cut. */
static void put_tooltip(tt_buf *out, const tt_graph_node *node)
{
    tt_buf_printf(out, ", tooltip=\"");
    const char *name = node->name != NULL ? node->name : "?";
    tt_dot_text(out, TT_DOT_TOOLTIP, name, strlen(name), 0);
    tt_buf_printf(out, "\\n");
    if (node->file != NULL) {
        tt_dot_text(out, TT_DOT_TOOLTIP, node->file, strlen(node->file), 0);
        tt_buf_printf(out, ":%" PRId32 "\\n", node->line);
    }
    for (const char *at = node->code != NULL ? node->code : ""; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        tt_dot_text(out, TT_DOT_TOOLTIP, at, len, 0);
        tt_buf_printf(out, "\\n");
        at += len + (at[len] == '\n');
    }
    tt_buf_printf(out, "\"");
}

/* Graphviz's y goes up; whole tenths of points are enough. */
static void put_point(tt_buf *out, const char *before, double x, double y)
{
    const double parts[2] = { x, -y };
    tt_buf_printf(out, "%s", before);
    for (int i = 0; i < 2; i++) { /* by integers, so that the point is one whatever the locale */
        long long tenths = llrint(parts[i] * 10);
        tt_buf_printf(out, "%s%s%lld.%lld", i > 0 ? "," : "", tenths < 0 ? "-" : "", llabs(tenths) / 10,
                      llabs(tenths) % 10);
    }
}

static void put_head(tt_buf *out, const char *graph_attributes)
{
    tt_buf_printf(out,
                  "digraph tensors {\n  graph [%s bgcolor=\"white\", pad=0.2,\n  "
                  "       " FONT ", fontsize=11]\n",
                  graph_attributes);
    tt_buf_printf(out, "  node [shape=plain, " FONT ", fontsize=11]\n"
                       "  edge [color=\"#486581\", arrowsize=0.8, penwidth=1.2]\n");
}

static void put_node(tt_buf *out, const tt_graph_node *node, const tt_graph_spot *spot)
{
    tt_buf_printf(out, "  n%" PRIu64 " [id=\"n%" PRIu64 "\"", node->id, node->id);
    if (spot != NULL) {
        put_point(out, ", pos=\"", spot->x, spot->y);
        tt_buf_printf(out, "\"");
    }
    put_tooltip(out, node);
    tt_buf_printf(out, ", label=<");
    tt_graph_label(out, node);
    tt_buf_printf(out, ">]\n");
}

static const char *frame_label(const tt_graph_node *node)
{
    return node->label != NULL ? node->label : node->function;
}

/* Opens a box with the function's name; the caller ends its attributes. */
static void put_cluster(tt_buf *out, const tt_graph_node *node, uint64_t id)
{
    tt_buf_printf(out, "  subgraph cluster_%" PRIu64 " {\n", id);
    tt_buf_printf(out, "  graph [labeljust=l, color=\"#bcccdc\", "
                       "fontcolor=\"#52606d\", style=rounded, "
                       "label=\"");
    tt_dot_text(out, TT_DOT_ATTRIBUTE, frame_label(node), strlen(frame_label(node)), 0);
}

/* A node of a frame that is drawn. */
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

/* Puts the nodes in the order of the chart, those of a frame where its first one is. */
static void put_nodes(tt_buf *out, const tt_graph *graph)
{
    bool has_frames = tt_graph_has_frames(graph);
    size_t count = 0;
    framed *all = calloc(graph->node_count + 1, sizeof *all); /* owned; sorted by frame */
    if (all == NULL)
        out->st = TT_ENOMEM;
    for (size_t i = 0; all != NULL && has_frames && i < graph->node_count; i++)
        if (tt_graph_is_framed(&graph->nodes[i]))
            all[count++] = (framed){ graph->nodes[i].frame, i };
    if (count > 0)
        qsort(all, count, sizeof *all, by_frame);
    for (size_t i = 0; i < graph->node_count; i++) {
        const framed key = { graph->nodes[i].frame, i }, *end = all + count;
        const framed *found = count > 0 ? bsearch(&key, all, count, sizeof key, by_frame) : NULL;
        if (found == NULL)
            put_node(out, &graph->nodes[i], NULL);
        if (found == NULL || (found > all && found[-1].frame == key.frame))
            continue;
        put_cluster(out, &graph->nodes[i], key.frame);
        tt_buf_printf(out, "\"]\n");
        for (; found < end && found->frame == key.frame; found++)
            put_node(out, &graph->nodes[found->at], NULL);
        tt_buf_printf(out, "  }\n");
    }
    free(all);
}

static void put_edges(tt_buf *out, const tt_graph *graph, const size_t *above)
{
    for (size_t i = 0, from, to; i < graph->edge_count; i++)
        if (tt_graph_ends(graph, i, &from, &to))
            tt_buf_printf(out, "  n%" PRIu64 " -> n%" PRIu64 "\n", graph->edges[i].from,
                          graph->edges[i].to);
    for (size_t i = 0; i < graph->node_count; i++)
        if (above[i] != SIZE_MAX)
            tt_buf_printf(out, "  n%" PRIu64 " -> n%" PRIu64 " [style=invis]\n",
                          graph->nodes[above[i]].id, graph->nodes[i].id);
}

tt_status tt_graph_dot(const tt_graph *graph, tt_buf *out)
{
    size_t *above = tt_graph_stack(graph); /* owned */
    if (above == NULL)
        return out->st = TT_ENOMEM;
    put_head(out, "rankdir=TB, nodesep=0.3, ranksep=0.45,");
    put_nodes(out, graph);
    put_edges(out, graph, above);
    tt_buf_printf(out, "}\n");
    free(above);
    return out->st;
}

/* ---- a large chart, with positions --------------------------------------------- */

/* The nodes of a frame that are next to each other, in a box with the function's name. */
static size_t put_run(tt_buf *out, const tt_graph *graph, const tt_graph_layout *layout, size_t first)
{
    const tt_graph_node *node = &graph->nodes[first];
    tt_graph_point low, high;
    size_t end = tt_graph_layout_run(layout, graph, first, &low, &high);
    put_cluster(out, node, node->id);
    double half = 3.2 * (double)strlen(frame_label(node)) + 6; /* about half of the name's width */
    put_point(out, "\", lp=\"", low.x + half, low.y + 9);
    put_point(out, "\", bb=\"", low.x, high.y);
    put_point(out, ",", high.x, low.y);
    tt_buf_printf(out, "\"]\n");
    for (size_t i = first; i < end; i++)
        put_node(out, &graph->nodes[i], &layout->spots[i]);
    tt_buf_printf(out, "  }\n");
    return end;
}

enum { LANE_COLORS = 6 };
/* Told apart side by side, paler than the arrows between neighbours. */
static const char *const lane_colors[LANE_COLORS] = { "#829ab1", "#b98b4e", "#6a9f6a",
                                                      "#9a7ab5", "#b56f6f", "#5a9ea6" };

enum { STUB_APART = 15, STUB_NAME = 12 }; /* from stub to stub, in points; columns of a name */

/* The name and line of what a stub starts at, above it. */
static void put_start(tt_buf *out, const tt_graph_node *start, const tt_graph_curve *curve)
{
    size_t len = strlen(start->name);
    double half = 2.4 * (double)((len < STUB_NAME ? len : STUB_NAME) + 5); /* about half of its width */
    tt_buf_printf(out, ", color=\"#829ab1\", fontcolor=\"#52606d\", fontsize=9, " FONT ", label=<");
    tt_dot_text(out, TT_DOT_LABEL, start->name, len, STUB_NAME);
    if (start->line > 0)
        tt_buf_printf(out, " :%d", (int)start->line);
    put_point(out, ">, lp=\"", curve->point[0].x + half, curve->point[0].y - 6);
    tt_buf_printf(out, "\"");
}

static void put_curve(tt_buf *out, const tt_graph_edge *edge, const tt_graph_curve *curve,
                      const tt_graph_node *start)
{
    tt_buf_printf(out, "  n%" PRIu64 " -> n%" PRIu64, edge->from, edge->to);
    put_point(out, " [pos=\"e,", curve->tip.x, curve->tip.y);
    for (size_t i = 0; i < curve->count; i++)
        put_point(out, " ", curve->point[i].x, curve->point[i].y);
    tt_buf_printf(out, "\"");
    if (curve->is_stub)
        put_start(out, start, curve);
    if (curve->lane > 0)
        tt_buf_printf(out, ", color=\"%s\"", lane_colors[curve->lane % LANE_COLORS]);
    tt_buf_printf(out, "]\n");
}

static void move_down(tt_graph_curve *curve, double by)
{
    for (size_t i = 0; i < curve->count; i++)
        curve->point[i].y += by;
    curve->tip.y += by;
}

tt_status tt_graph_dot_placed(const tt_graph *graph, const tt_graph_size *sizes, tt_buf *out)
{
    tt_graph_layout layout = { 0 };
    size_t *stubs = calloc(graph->node_count + 1, sizeof *stubs); /* owned; that end at each node */
    tt_status st = stubs != NULL ? tt_graph_layout_make(&layout, graph, sizes) : TT_ENOMEM;
    if (st < 0)
        goto out;
    put_head(out, "outputorder=edgesfirst,");
    for (size_t i = 0; i < graph->node_count;) {
        if (layout.spots[i].is_start) {
            i = put_run(out, graph, &layout, i);
            continue;
        }
        put_node(out, &graph->nodes[i], &layout.spots[i]);
        i++;
    }
    for (size_t i = 0, from, to; i < graph->edge_count; i++) {
        if (!tt_graph_ends(graph, i, &from, &to) || from >= to)
            continue;
        tt_graph_curve curve = tt_graph_layout_curve(&layout, from, to);
        if (curve.is_stub)
            move_down(&curve, (double)(stubs[to]++ * STUB_APART));
        put_curve(out, &graph->edges[i], &curve, &graph->nodes[from]);
    }
    tt_buf_printf(out, "}\n");
    st = out->st;
out:
    free(stubs);
    tt_graph_layout_free(&layout);
    return st;
}

/* ---- which engine ----------------------------------------------------------- */

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
            size_t from = find_node(graph, graph->edges[i].from);
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
