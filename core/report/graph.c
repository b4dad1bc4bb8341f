/* graph.c -- a chart as DOT.
 *
 * Exists so that every front end draws tensors in the same way.  `dot` is the
 * better typesetter while a chart is small.  It draws as many rows as the
 * longest chain has nodes and knows no order of time, so for a large chart
 * graph_layout.c determines all positions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph.h"

#include "report/dot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* "n12", the name of a node in the DOT text. */
typedef struct node_id {
    char text[24];
} node_id;

static node_id id_of(uint64_t number)
{
    node_id id;
    (void)snprintf(id.text, sizeof id.text, "n%" PRIu64, number);
    return id;
}

static tt_dot begin_edge(tt_buf *out, uint64_t from, uint64_t to)
{
    return tt_dot_statement(out, id_of(from).text, id_of(to).text);
}

/* Attributes as alternating keys and texts, up to NULL. */
static void put_defaults(tt_buf *out, const char *what, const char *const *pairs)
{
    tt_dot dot = tt_dot_default(out, what);
    for (; *pairs != NULL; pairs += 2)
        tt_dot_attribute(&dot, pairs[0], pairs[1]);
    tt_dot_end(&dot);
}

static void put_head(tt_buf *out, const char *const *graph_attributes)
{
    static const char *const page[] = { "bgcolor", "white", "pad", "0.2", "fontsize", "11", NULL };
    static const char *const node[] = { "shape", "plain", "fontsize", "11", NULL };
    static const char *const edge[] = { "color", "#486581", "arrowsize", "0.8", "penwidth", "1.2", NULL };
    tt_dot_open(out);
    put_defaults(out, "graph", graph_attributes);
    put_defaults(out, "graph", page);
    put_defaults(out, "node", node);
    put_defaults(out, "edge", edge);
}

/* The tooltip: what the node had to cut. */
static void put_tooltip(tt_dot *dot, const tt_graph_node *node)
{
    tt_buf text = { 0 };
    (void)tt_buf_printf(&text, "%s\n", node->name != NULL ? node->name : "?");
    if (node->file != NULL)
        (void)tt_buf_printf(&text, "%s:%" PRId32 "\n", node->file, node->line);
    if (node->code != NULL && node->code[0] != '\0')
        (void)tt_buf_printf(&text, "%s%s", node->code,
                            node->code[strlen(node->code) - 1] == '\n' ? "" : "\n");
    tt_dot_key(dot, "tooltip");
    tt_dot_quote(dot->out, TT_DOT_TOOLTIP, text.data != NULL ? text.data : "");
    if (text.st < 0)
        dot->out->st = text.st;
    tt_buf_free(&text);
}

static void put_node(tt_buf *out, const tt_graph_node *node, const tt_graph_spot *spot)
{
    node_id id = id_of(node->id);
    tt_dot dot = tt_dot_statement(out, id.text, NULL);
    tt_dot_attribute(&dot, "id", id.text);
    if (spot != NULL) {
        tt_dot_key(&dot, "pos");
        put_point(out, "\"", spot->x, spot->y);
        tt_buf_printf(out, "\"");
    }
    put_tooltip(&dot, node);
    tt_dot_key(&dot, "label");
    tt_buf_printf(out, "<");
    tt_graph_label(out, node);
    tt_buf_printf(out, ">");
    tt_dot_end(&dot);
}

static const char *frame_label(const tt_graph_node *node)
{
    return node->label != NULL ? node->label : node->function;
}

/* Opens a box with the function's name; the caller ends its attributes. */
static tt_dot begin_cluster(tt_buf *out, const tt_graph_node *node, uint64_t id)
{
    tt_buf_printf(out, "  subgraph cluster_%" PRIu64 " {\n", id);
    tt_dot dot = tt_dot_default(out, "graph");
    tt_dot_attribute(&dot, "labeljust", "l");
    tt_dot_attribute(&dot, "color", "#bcccdc");
    tt_dot_attribute(&dot, "fontcolor", "#52606d");
    tt_dot_attribute(&dot, "style", "rounded");
    tt_dot_attribute(&dot, "label", frame_label(node));
    return dot;
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
        tt_dot box = begin_cluster(out, &graph->nodes[i], key.frame);
        tt_dot_end(&box);
        for (; found < end && found->frame == key.frame; found++)
            put_node(out, &graph->nodes[found->at], NULL);
        tt_buf_printf(out, "  }\n");
    }
    free(all);
}

static void put_edges(tt_buf *out, const tt_graph *graph, const size_t *above)
{
    for (size_t i = 0, from, to; i < graph->edge_count; i++)
        if (tt_graph_ends(graph, i, &from, &to)) {
            tt_dot dot = begin_edge(out, graph->edges[i].from, graph->edges[i].to);
            tt_dot_end(&dot);
        }
    for (size_t i = 0; i < graph->node_count; i++)
        if (above[i] != SIZE_MAX) {
            tt_dot dot = begin_edge(out, graph->nodes[above[i]].id, graph->nodes[i].id);
            tt_dot_attribute(&dot, "style", "invis");
            tt_dot_end(&dot);
        }
}

tt_status tt_graph_dot(const tt_graph *graph, tt_buf *out)
{
    size_t *above = tt_graph_stack(graph); /* owned */
    if (above == NULL)
        return out->st = TT_ENOMEM;
    put_head(out, (const char *const[]){ "rankdir", "TB", "nodesep", "0.3", "ranksep", "0.45", NULL });
    put_nodes(out, graph);
    put_edges(out, graph, above);
    tt_dot_close(out);
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
    tt_dot dot = begin_cluster(out, node, node->id);
    double half = 3.2 * (double)strlen(frame_label(node)) + 6; /* about half of the name's width */
    tt_dot_key(&dot, "lp");
    put_point(out, "\"", low.x + half, low.y + 9);
    tt_buf_printf(out, "\"");
    tt_dot_key(&dot, "bb");
    put_point(out, "\"", low.x, high.y);
    put_point(out, ",", high.x, low.y);
    tt_buf_printf(out, "\"");
    tt_dot_end(&dot);
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
static void put_start(tt_dot *dot, const tt_graph_node *start, const tt_graph_curve *curve)
{
    tt_buf *out = dot->out;
    size_t len = strlen(start->name);
    double half = 2.4 * (double)((len < STUB_NAME ? len : STUB_NAME) + 5); /* about half of its width */
    tt_dot_attribute(dot, "color", "#829ab1");
    tt_dot_attribute(dot, "fontcolor", "#52606d");
    tt_dot_attribute(dot, "fontsize", "9");
    tt_dot_key(dot, "label");
    tt_buf_printf(out, "<");
    tt_dot_text(out, TT_DOT_LABEL, start->name, len, STUB_NAME);
    if (start->line > 0)
        tt_buf_printf(out, " :%d", (int)start->line);
    tt_buf_printf(out, ">");
    tt_dot_key(dot, "lp");
    put_point(out, "\"", curve->point[0].x + half, curve->point[0].y - 6);
    tt_buf_printf(out, "\"");
}

static void put_curve(tt_buf *out, const tt_graph_edge *edge, const tt_graph_curve *curve,
                      const tt_graph_node *start)
{
    tt_dot dot = begin_edge(out, edge->from, edge->to);
    tt_dot_key(&dot, "pos");
    put_point(out, "\"e,", curve->tip.x, curve->tip.y);
    for (size_t i = 0; i < curve->count; i++)
        put_point(out, " ", curve->point[i].x, curve->point[i].y);
    tt_buf_printf(out, "\"");
    if (curve->is_stub)
        put_start(&dot, start, curve);
    if (curve->lane > 0)
        tt_dot_attribute(&dot, "color", lane_colors[curve->lane % LANE_COLORS]);
    tt_dot_end(&dot);
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
    put_head(out, (const char *const[]){ "outputorder", "edgesfirst", NULL });
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
    tt_dot_close(out);
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
