/* graph_layout.c -- where the nodes and arrows of a large chart are.
 *
 * Exists because a program of 200 changes is a long chain with many shortcuts,
 * which Graphviz turns into a strip of paper.  Here the chart is set like a
 * newspaper: in the order in which things happened, down one column and on at
 * the top of the next, so that the page is as wide as a screen.  A column ends
 * early where a loop starts again.
 *
 * An arrow that runs across a table makes both hard to read.  Arrows leave a
 * table at its right side, enter at its header, and change their height only in
 * the gutter between two columns.  Those that skip a column go above or below
 * the page; all that start at one table share a lane and a colour.  Of those
 * that would skip more only the end is drawn, with the name of the start.
 *
 *       ┌────────────────────────┐        lanes, one for each such table
 *     ┌─┴─┐   ┌───┐   ┌───┐   ┌─▼─┐
 *     │ a ├──►│ b ├┐  │ d │   │ e │
 *     └─┬─┘   └───┘│  └─▲─┘   └───┘
 *       ▼          └────┘ gutter
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph.h"

#include <math.h>
#include <stdlib.h>

enum {
    GAP = 24,  /* between two tables of a column: room for an arrow */
    HEAD = 20, /* above a frame's first table: the function's name */
    FOOT = 8,  /* below its last one */
    LOOK_BACK = 64,
    GUTTER = 84, /* between two columns */
};

static const double page_shape = 1.5, early = 0.65; /* width to height; of a column that may end */

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

/* Sets all nodes in columns of at most this height; returns the size of the
 * page. */
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
            left += wide + GUTTER;
            page.width = left - GUTTER;
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
static void assign_lanes(const tt_graph *graph, tt_graph_spot *spots)
{
    size_t lanes = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        spots[i].lane = SIZE_MAX;
    for (size_t i = 0, from, to; i < graph->edge_count; i++)
        if (tt_graph_ends(graph, i, &from, &to) && spots[to].column > spots[from].column + 1 &&
            spots[to].column <= spots[from].column + TT_GRAPH_FAR && spots[from].lane == SIZE_MAX)
            spots[from].lane = lanes++;
}

tt_status tt_graph_layout_make(tt_graph_layout *out, const tt_graph *graph, const tt_graph_size *sizes)
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
    *out = (tt_graph_layout){ .spots = spots, .sizes = sizes, .page = set_columns(&t, tall) };
    assign_lanes(graph, spots);
    return TT_OK;
}

void tt_graph_layout_free(tt_graph_layout *layout)
{
    free(layout->spots);
    *layout = (tt_graph_layout){ 0 };
}

/* ---- frames --------------------------------------------------------------- */

size_t tt_graph_layout_run(const tt_graph_layout *layout, const tt_graph *graph, size_t first,
                           tt_graph_point *low, tt_graph_point *high)
{
    size_t end = first;
    *low = (tt_graph_point){ INFINITY, INFINITY };
    *high = (tt_graph_point){ -INFINITY, -INFINITY };
    while (end < graph->node_count && graph->nodes[end].frame == graph->nodes[first].frame &&
           layout->spots[end].column == layout->spots[first].column) {
        const tt_graph_spot *spot = &layout->spots[end];
        const tt_graph_size *size = &layout->sizes[end++];
        low->x = fmin(low->x, spot->x - size->width / 2 - FOOT);
        high->x = fmax(high->x, spot->x + size->width / 2 + FOOT);
        low->y = fmin(low->y, spot->y - size->height / 2 - HEAD);
        high->y = fmax(high->y, spot->y + size->height / 2 + FOOT);
    }
    return end;
}

/* ---- arrows --------------------------------------------------------------- */

enum {
    MARGIN = 34,    /* from the page to the nearest lane above or below it */
    LANE = 6,       /* from lane to lane */
    TIP = 9,        /* length of an arrow's head that points down ... */
    SIDE_TIP = 8,   /* ... and to a side */
    HEADER = 13,    /* from a table's upper edge to the middle of its name */
    ROUND = 8,      /* radius of a corner */
    INNER = 12,     /* from a column to the nearest arrow in its gutter */
    INNER_STEP = 5, /* the longer the way, the farther out */
    INNER_MOST = 40,
    STUB = 74,  /* from a column to where an arrow begins that only ends there */
    OUTER = 46, /* from a column to the lanes in its gutter */
    OUTER_STEP = 5,
    OUTER_COUNT = 7,
};

static tt_graph_point point(double x, double y)
{
    return (tt_graph_point){ x, y };
}

static tt_graph_point between(tt_graph_point a, tt_graph_point b, double part)
{
    return point(a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part);
}

/* ---- curves -------------------------------------------------------------- */

static void curve_to(tt_graph_curve *curve, tt_graph_point a, tt_graph_point b, tt_graph_point end)
{
    curve->point[curve->count++] = a;
    curve->point[curve->count++] = b;
    curve->point[curve->count++] = end;
}

static void line_to(tt_graph_curve *curve, tt_graph_point end)
{
    tt_graph_point start = curve->point[curve->count - 1];
    curve_to(curve, between(start, end, 1.0 / 3), between(start, end, 2.0 / 3), end);
}

static double distance(tt_graph_point a, tt_graph_point b)
{
    return hypot(a.x - b.x, a.y - b.y);
}

/* Straight from corner to corner, which are rounded. */
static tt_graph_curve through(const tt_graph_point *corners, size_t count)
{
    tt_graph_curve curve = { .point = { corners[0] }, .count = 1 };
    for (size_t i = 1; i + 1 < count; i++) {
        double before = distance(corners[i - 1], corners[i]),
               after = distance(corners[i], corners[i + 1]);
        double radius = fmin(ROUND, fmin(before, after) / 2);
        if (radius < 0.1)
            continue;
        tt_graph_point in = between(corners[i], corners[i - 1], radius / before),
                       out = between(corners[i], corners[i + 1], radius / after);
        line_to(&curve, in);
        curve_to(&curve, between(in, corners[i], 0.55), between(out, corners[i], 0.55), out);
    }
    line_to(&curve, corners[count - 1]);
    return curve;
}

/* Bends of an arrow from the right side of one table to the header of another, by the columns
 * that they are in. */
tt_graph_curve tt_graph_layout_curve(const tt_graph_layout *layout, size_t from, size_t to)
{
    const tt_graph_spot *a = &layout->spots[from], *b = &layout->spots[to];
    const tt_graph_size *size_a = &layout->sizes[from], *size_b = &layout->sizes[to];
    double x1 = a->x + size_a->width / 2, x2 = b->x - size_b->width / 2;
    double y2 = b->y - size_b->height / 2 + HEADER;
    tt_graph_curve curve = { .count = 1 };
    if (a->column == b->column && to == from + 1) { /* straight down */
        double start = a->y + size_a->height / 2, end = b->y - size_b->height / 2;
        curve.point[0] = point(a->x, start);
        curve_to(&curve, point(a->x, start + (end - start) / 3), point(b->x, end - TIP - 1),
                 point(b->x, end - TIP));
        curve.tip = point(b->x, end);
        return curve;
    }
    if (a->column == b->column) { /* around those between, in the gutter on the right */
        double outer = a->right + fmin(INNER + INNER_STEP * (double)(to - from - 2), INNER_MOST);
        x2 = b->x + size_b->width / 2;
        const tt_graph_point corners[] = {
            { x1, a->y }, { outer, a->y }, { outer, y2 }, { x2 + SIDE_TIP, y2 }
        };
        curve = through(corners, 4);
    } else if (b->column == a->column + 1) { /* over the gutter to the next column */
        double left = fmin(b->left, x2 - SIDE_TIP), middle = (a->right + left) / 2;
        curve.point[0] = point(x1, a->y);
        line_to(&curve, point(a->right, a->y));
        curve_to(&curve, point(middle, a->y), point(middle, y2), point(left, y2));
        line_to(&curve, point(x2 - SIDE_TIP, y2));
    } else if (b->column <= a->column + TT_GRAPH_FAR) { /* above or below the page */
        double aside = OUTER + OUTER_STEP * (double)(a->lane % OUTER_COUNT);
        bool is_above = a->y + y2 < 2 * layout->page.height - a->y - y2;
        double lane = MARGIN + LANE * (double)a->lane;
        double y = is_above ? -lane : layout->page.height + lane;
        double up = a->right + aside, down = b->left - GUTTER + aside;
        const tt_graph_point corners[] = { { x1, a->y }, { up, a->y }, { up, y },
                                           { down, y },  { down, y2 }, { x2 - SIDE_TIP, y2 } };
        curve = through(corners, 6);
        curve.lane = a->lane + 1;
    } else { /* too far: from the gutter into the table */
        curve.point[0] = point(b->left - STUB, y2);
        line_to(&curve, point(x2 - SIDE_TIP, y2));
        curve.is_stub = true;
    }
    curve.tip = point(x2, y2);
    return curve;
}
